//! Pages of envelopes above per-topic cursors (API-070, ARC-061, ARC-062).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bytes::Bytes;
use envelope::{Topic, TopicKind};

use super::error::within;
use super::{Error, Queries};
use crate::db::{PageRow, SequenceId, TopicCursor};

/// A topic and where to start on it, as the request names them.
#[derive(Clone, Debug)]
pub struct Position {
    /// The topic's bytes.
    pub topic: Bytes,
    /// Exclusive lower bound.
    pub after: u64,
}

/// One page.
#[derive(Clone, Debug)]
pub struct PageAnswer {
    /// The distinct topics of the request; rows point into it.
    pub topics: Vec<Topic>,
    /// Ascending by id.
    pub rows: Vec<PageRow>,
    /// Whether more envelopes were eligible than the limit let through.
    pub has_more: bool,
}

impl Queries {
    /// Reads the lowest eligible ids of the topics, from one snapshot of the primary.
    ///
    /// `limit` bounds the whole answer: 0 asks for the default, and more than the maximum is the
    /// maximum. A topic named twice counts once, from its lowest cursor.
    ///
    /// # Errors
    ///
    /// Any [`Error`] that concerns topics, cursors or the database.
    pub async fn page(&self, positions: Vec<Position>, limit: u32) -> Result<PageAnswer, Error> {
        let (topics, after) = self.merge(positions)?;
        if topics.is_empty() {
            return Ok(PageAnswer {
                topics,
                rows: Vec::new(),
                has_more: false,
            });
        }
        let limit = match limit {
            0 => self.limits.default_query_limit,
            limit => limit.min(self.limits.max_query_limit),
        };
        let cursors: Vec<_> = topics
            .iter()
            .zip(&after)
            .map(|(topic, &after)| TopicCursor {
                topic: topic.as_bytes(),
                after,
            })
            .collect();
        let max_bytes = self.limits.max_response_bytes;
        let page = self.database.query(&cursors, limit, max_bytes).await?;
        let page = page.ok_or(Error::AnswerTooLarge { limit: max_bytes })?;
        Ok(PageAnswer {
            topics,
            rows: page.rows,
            has_more: page.has_more,
        })
    }

    /// Checks every entry, then keeps each topic once with its lowest cursor.
    fn merge(&self, positions: Vec<Position>) -> Result<(Vec<Topic>, Vec<SequenceId>), Error> {
        let limit = self.limits.max_query_topics;
        if !within(positions.len(), limit) {
            return Err(Error::TooManyTopics { limit });
        }
        let mut index_of = HashMap::with_capacity(positions.len());
        let mut topics: Vec<Topic> = Vec::with_capacity(positions.len());
        let mut after: Vec<SequenceId> = Vec::with_capacity(positions.len());
        for position in positions {
            let topic = Topic::parse(&position.topic).map_err(|_| Error::InvalidTopic)?;
            if topic.kind() == TopicKind::KeyPackage {
                return Err(Error::KeyPackageTopic);
            }
            let cursor = SequenceId::from_wire(position.after).ok_or(Error::CursorOutOfRange)?;
            match index_of.entry(topic) {
                Entry::Occupied(seen) => {
                    let lowest = &mut after[*seen.get()];
                    *lowest = cursor.min(*lowest);
                }
                Entry::Vacant(new) => {
                    new.insert(topics.len());
                    topics.push(topic);
                    after.push(cursor);
                }
            }
        }
        Ok((topics, after))
    }
}
