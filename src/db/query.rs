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
    /// for the ids that survive the total cut, and only if they have at most `max_bytes` together:
    /// `None` if they have more. The topics must be distinct.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn query(
        &self,
        cursors: &[TopicCursor<'_>],
        limit: u32,
        max_bytes: u64,
    ) -> Result<Option<Page>, Error> {
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
            SELECT index AS "index!", sequence_id AS "sequence_id!", server_ns AS "server_ns!",
                   expiry_ns, message_hash AS "message_hash!: [u8; 32]",
                   is_commit_or_proposal AS "is_commit_or_proposal!",
                   CASE WHEN page_bytes <= $4::bigint THEN payload END AS payload,
                   (SELECT count(*) FROM candidate) > $3::bigint AS "has_more!"
              FROM (SELECT page.index, e.*,
                           sum(octet_length(e.payload)) OVER () AS page_bytes
                      FROM page JOIN envelopes e USING (sequence_id)) AS loaded
             ORDER BY sequence_id
            "#,
            &topics as &[&[u8]],
            &after,
            i64::from(limit),
            i64::try_from(max_bytes).unwrap_or(i64::MAX),
        )
        .fetch_all(self.pools().route(Operation::Query))
        .instrument(info_span!("db.query", topics = cursors.len()))
        .await?;

        let has_more = rows.first().is_some_and(|row| row.has_more);
        let rows = rows.into_iter().map(|row| {
            Some(PageRow {
                topic_index: index_of(row.index),
                hash: row.message_hash,
                meta: StoredMeta::from_columns(
                    row.sequence_id,
                    row.server_ns,
                    row.expiry_ns,
                    row.is_commit_or_proposal,
                ),
                payload: row.payload?,
            })
        });
        let rows: Option<Vec<_>> = rows.collect();
        Ok(rows.map(|rows| Page { rows, has_more }))
    }
}
