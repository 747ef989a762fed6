//! Pages of envelopes above per-topic cursors (ARC-061).

use tracing::{Instrument as _, info_span};

use super::records::index_of;
use super::{Database, Error, Operation, SequenceId, StoredMeta};

/// A topic and where to start on it.
#[derive(Clone, Copy, Debug)]
pub struct TopicCursor<'a> {
    /// The topic.
    pub topic: &'a [u8],
    /// Exclusive lower bound.
    pub after: SequenceId,
}

/// One envelope of a page.
#[derive(Clone, Debug)]
pub struct PageRow {
    /// Which of the requested topics it is on: an index into the request.
    pub topic_index: usize,
    /// SHA-256 of the payload.
    pub hash: [u8; 32],
    /// The rest of its metadata.
    pub meta: StoredMeta,
    /// The canonical encoding.
    pub payload: Vec<u8>,
}

/// A bounded answer from one snapshot.
#[derive(Clone, Debug)]
pub struct Page {
    /// Ascending by id.
    pub rows: Vec<PageRow>,
    /// Whether more envelopes were eligible than the limit let through.
    pub has_more: bool,
}

impl Database {
    /// Reads at most `limit` envelopes above the cursors, the lowest ids first.
    ///
    /// Each topic gives at most `limit + 1` candidates from its index, and payloads are loaded only
    /// for the ids that survive the total cut. The topics must be distinct.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn query(&self, cursors: &[TopicCursor<'_>], limit: u32) -> Result<Page, Error> {
        let topics: Vec<&[u8]> = cursors.iter().map(|cursor| cursor.topic).collect();
        let after: Vec<i64> = cursors
            .iter()
            .map(|cursor| cursor.after.to_column())
            .collect();
        let rows = sqlx::query!(
            r#"
            WITH candidate AS MATERIALIZED (
                SELECT wanted.index, e.sequence_id
                  FROM unnest($1::bytea[], $2::bigint[]) WITH ORDINALITY
                           AS wanted (topic, after, index)
                 CROSS JOIN LATERAL (
                       SELECT sequence_id
                         FROM envelopes
                        WHERE topic = wanted.topic AND sequence_id > wanted.after
                        ORDER BY sequence_id
                        LIMIT $3::bigint + 1
                       ) AS e
                 ORDER BY e.sequence_id
                 LIMIT $3::bigint + 1
            ), page AS (
                SELECT index, sequence_id FROM candidate ORDER BY sequence_id LIMIT $3::bigint
            )
            SELECT page.index AS "index!", e.sequence_id, e.server_ns, e.expiry_ns,
                   e.message_hash AS "message_hash: [u8; 32]", e.is_commit_or_proposal, e.payload,
                   (SELECT count(*) FROM candidate) > $3::bigint AS "has_more!"
              FROM page JOIN envelopes e USING (sequence_id)
             ORDER BY e.sequence_id
            "#,
            &topics as &[&[u8]],
            &after,
            i64::from(limit),
        )
        .fetch_all(self.pools().route(Operation::Query))
        .instrument(info_span!("db.query", topics = cursors.len()))
        .await?;

        let has_more = rows.first().is_some_and(|row| row.has_more);
        let rows = rows
            .into_iter()
            .map(|row| PageRow {
                topic_index: index_of(row.index),
                hash: row.message_hash,
                meta: StoredMeta::from_columns(
                    row.sequence_id,
                    row.server_ns,
                    row.expiry_ns,
                    row.is_commit_or_proposal,
                ),
                payload: row.payload,
            })
            .collect();
        Ok(Page { rows, has_more })
    }
}
