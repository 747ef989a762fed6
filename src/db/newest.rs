//! The newest envelope of topics (ARC-063).

use tracing::{Instrument as _, info_span};

use super::records::index_of;
use super::{Database, Error, Operation, StoredMeta};

/// The newest envelope of one topic, without its payload.
#[derive(Clone, Debug)]
pub struct NewestMetadata {
    /// Which of the requested topics it is on: an index into the request.
    pub topic_index: usize,
    /// SHA-256 of the payload.
    pub hash: [u8; 32],
    /// The rest of its metadata.
    pub meta: StoredMeta,
}

/// The newest envelope of one topic.
#[derive(Clone, Debug)]
pub struct Newest {
    /// Everything but the payload.
    pub metadata: NewestMetadata,
    /// The canonical encoding.
    pub payload: Vec<u8>,
}

impl Database {
    /// The metadata of the newest envelope of each topic that has one.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn newest_metadata(&self, topics: &[&[u8]]) -> Result<Vec<NewestMetadata>, Error> {
        let rows = sqlx::query!(
            r#"
            SELECT wanted.index AS "index!", e.sequence_id, e.server_ns, e.expiry_ns,
                   e.message_hash AS "message_hash: [u8; 32]", e.is_commit_or_proposal
              FROM unnest($1::bytea[]) WITH ORDINALITY AS wanted (topic, index)
              JOIN topic_watermark w ON w.topic = wanted.topic
              JOIN envelopes e ON e.sequence_id = w.last_sequence_id
            "#,
            topics as &[&[u8]],
        )
        .fetch_all(self.pools().route(Operation::QueryNewest))
        .instrument(info_span!("db.newest_metadata", topics = topics.len()))
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| NewestMetadata {
                topic_index: index_of(row.index),
                hash: row.message_hash,
                meta: StoredMeta::from_columns(
                    row.sequence_id,
                    row.server_ns,
                    row.expiry_ns,
                    row.is_commit_or_proposal,
                ),
            })
            .collect())
    }

    /// The newest envelope of each topic that has one; `None` if their payloads have more than
    /// `max_bytes` together, and are therefore not loaded.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn newest(
        &self,
        topics: &[&[u8]],
        max_bytes: u64,
    ) -> Result<Option<Vec<Newest>>, Error> {
        let rows = sqlx::query!(
            r#"
            SELECT index AS "index!", sequence_id AS "sequence_id!", server_ns AS "server_ns!",
                   expiry_ns, message_hash AS "message_hash!: [u8; 32]",
                   is_commit_or_proposal AS "is_commit_or_proposal!",
                   CASE WHEN answer_bytes <= $2::bigint THEN payload END AS payload
              FROM (SELECT wanted.index, e.*,
                           sum(octet_length(e.payload)) OVER () AS answer_bytes
                      FROM unnest($1::bytea[]) WITH ORDINALITY AS wanted (topic, index)
                      JOIN topic_watermark w ON w.topic = wanted.topic
                      JOIN envelopes e ON e.sequence_id = w.last_sequence_id) AS loaded
            "#,
            topics as &[&[u8]],
            i64::try_from(max_bytes).unwrap_or(i64::MAX),
        )
        .fetch_all(self.pools().route(Operation::QueryNewest))
        .instrument(info_span!("db.newest_envelopes", topics = topics.len()))
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| {
                Some(Newest {
                    metadata: NewestMetadata {
                        topic_index: index_of(row.index),
                        hash: row.message_hash,
                        meta: StoredMeta::from_columns(
                            row.sequence_id,
                            row.server_ns,
                            row.expiry_ns,
                            row.is_commit_or_proposal,
                        ),
                    },
                    payload: row.payload?,
                })
            })
            .collect())
    }
}
