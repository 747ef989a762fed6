//! The newest envelope of each topic (API-080, ARC-063).

use std::collections::HashSet;

use bytes::Bytes;
use envelope::Topic;

use super::error::within;
use super::{Error, Queries};
use crate::db::{Newest, NewestMetadata};

/// The newest envelope of one topic.
#[derive(Clone, Debug)]
pub struct NewestEnvelope {
    /// Its metadata; the index points into [`NewestAnswer::topics`].
    pub metadata: NewestMetadata,
    /// The canonical encoding, when the request asked for it.
    pub payload: Option<Vec<u8>>,
}

impl From<NewestMetadata> for NewestEnvelope {
    fn from(metadata: NewestMetadata) -> Self {
        Self {
            metadata,
            payload: None,
        }
    }
}

impl From<Newest> for NewestEnvelope {
    fn from(Newest { metadata, payload }: Newest) -> Self {
        Self {
            metadata,
            payload: Some(payload),
        }
    }
}

/// The newest envelopes of a request's topics.
#[derive(Clone, Debug)]
pub struct NewestAnswer {
    /// The distinct topics of the request.
    pub topics: Vec<Topic>,
    /// One for each topic that has an envelope, in no particular order.
    pub envelopes: Vec<NewestEnvelope>,
}

impl Queries {
    /// Reads the newest envelope of each topic that has one, whatever its kind.
    ///
    /// # Errors
    ///
    /// Any [`Error`] that concerns topics or the database.
    pub async fn newest(&self, topics: Vec<Bytes>, full: bool) -> Result<NewestAnswer, Error> {
        let limit = if full {
            self.limits.max_newest_full_topics
        } else {
            self.limits.max_newest_metadata_topics
        };
        if !within(topics.len(), limit) {
            return Err(Error::TooManyTopics { limit });
        }
        let topics = distinct(topics)?;
        if topics.is_empty() {
            return Ok(NewestAnswer {
                topics,
                envelopes: Vec::new(),
            });
        }
        let wanted: Vec<&[u8]> = topics.iter().map(Topic::as_bytes).collect();
        let envelopes = if full {
            let max_bytes = self.limits.max_response_bytes;
            let found = self.database.newest(&wanted, max_bytes).await?;
            let found = found.ok_or(Error::AnswerTooLarge { limit: max_bytes })?;
            found.into_iter().map(NewestEnvelope::from).collect()
        } else {
            let found = self.database.newest_metadata(&wanted).await?;
            found.into_iter().map(NewestEnvelope::from).collect()
        };
        Ok(NewestAnswer { topics, envelopes })
    }
}

fn distinct(topics: Vec<Bytes>) -> Result<Vec<Topic>, Error> {
    let mut seen = HashSet::with_capacity(topics.len());
    let mut kept = Vec::with_capacity(topics.len());
    for topic in topics {
        let topic = Topic::parse(&topic).map_err(|_| Error::InvalidTopic)?;
        if seen.insert(topic) {
            kept.push(topic);
        }
    }
    Ok(kept)
}
