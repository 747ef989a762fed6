//! Inserting a publish and advancing its topics, in one statement.

use std::collections::{HashMap, HashSet};

use super::{Error, Invariant, NewEnvelope, PublishTransaction, StoredMeta};

struct Row {
    sequence_id: i64,
    message_hash: [u8; 32],
    server_ns: i64,
    expiry_ns: Option<i64>,
    is_commit_or_proposal: bool,
    advanced: i64,
}

impl From<&Row> for StoredMeta {
    fn from(row: &Row) -> Self {
        Self::from_columns(
            row.sequence_id,
            row.server_ns,
            row.expiry_ns,
            row.is_commit_or_proposal,
        )
    }
}

/// The columns of the new rows, as the arrays that the statement unnests.
struct Columns<'a> {
    topics: Vec<&'a [u8]>,
    hashes: Vec<&'a [u8]>,
    retentions_ns: Vec<Option<i64>>,
    flags: Vec<bool>,
    payloads: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    fn of(envelopes: &[NewEnvelope<'a>]) -> Self {
        Self {
            topics: envelopes.iter().map(|e| e.key.topic).collect(),
            hashes: envelopes.iter().map(|e| e.key.hash.as_slice()).collect(),
            retentions_ns: envelopes.iter().map(|e| e.retention_ns).collect(),
            flags: envelopes.iter().map(|e| e.is_commit_or_proposal).collect(),
            payloads: envelopes.iter().map(|e| e.payload).collect(),
        }
    }
}

impl PublishTransaction {
    /// Inserts the envelopes with ids in slice order and advances the watermark of every topic
    /// (ARC-021, ARC-030, ARC-034, ARC-035). Answers one entry per envelope, at the same index.
    ///
    /// The keys must be distinct and must not be stored yet.
    ///
    /// # Errors
    ///
    /// [`Error::Invariant`] when a row exists already, a watermark would not advance, or an expiry
    /// overflows: the transaction must then be dropped. Else any [`Error`].
    pub async fn insert(
        &mut self,
        envelopes: &[NewEnvelope<'_>],
    ) -> Result<Vec<StoredMeta>, Error> {
        let columns = Columns::of(envelopes);
        // `nextval` stands above the sort, so ids follow the order of the arrays.
        let rows = sqlx::query_as!(
            Row,
            r#"
            WITH inserted AS (
                INSERT INTO envelopes (sequence_id, topic, server_ns, expiry_ns, message_hash,
                                       is_commit_or_proposal, payload)
                SELECT nextval('envelope_sequence'), new.topic, now.ns, now.ns + new.retention_ns,
                       new.hash, new.flag, new.payload
                  FROM unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::boolean[], $5::bytea[])
                           WITH ORDINALITY AS new (topic, hash, retention_ns, flag, payload, index)
                 CROSS JOIN (SELECT (extract(epoch FROM CURRENT_TIMESTAMP) * 1000000000)::bigint
                                 AS ns) AS now
                 ORDER BY new.index
                RETURNING sequence_id, topic, message_hash, server_ns, expiry_ns,
                          is_commit_or_proposal
            ), advanced AS (
                INSERT INTO topic_watermark (topic, last_sequence_id)
                SELECT topic, max(sequence_id) FROM inserted GROUP BY topic
                ON CONFLICT (topic) DO UPDATE SET last_sequence_id = EXCLUDED.last_sequence_id
                 WHERE topic_watermark.last_sequence_id < EXCLUDED.last_sequence_id
                RETURNING 1
            )
            SELECT sequence_id, message_hash AS "message_hash: [u8; 32]", server_ns, expiry_ns,
                   is_commit_or_proposal, (SELECT count(*) FROM advanced) AS "advanced!"
              FROM inserted
            "#,
            &columns.topics as &[&[u8]],
            &columns.hashes as &[&[u8]],
            &columns.retentions_ns as &[Option<i64>],
            &columns.flags,
            &columns.payloads as &[&[u8]],
        )
        .fetch_all(self.connection())
        .await?;

        let distinct_topics = columns.topics.iter().collect::<HashSet<_>>().len();
        if rows
            .iter()
            .any(|row| usize::try_from(row.advanced) != Ok(distinct_topics))
        {
            return Err(Error::Invariant(Invariant::WatermarkAdvance));
        }
        in_slice_order(envelopes, &rows)
    }
}

/// PostgreSQL promises no order for returned rows, so they are matched by hash. The hash alone
/// will do: a topic follows from the bytes that were hashed.
fn in_slice_order(envelopes: &[NewEnvelope<'_>], rows: &[Row]) -> Result<Vec<StoredMeta>, Error> {
    let by_hash: HashMap<&[u8; 32], &Row> =
        rows.iter().map(|row| (&row.message_hash, row)).collect();
    envelopes
        .iter()
        .map(|envelope| {
            by_hash
                .get(envelope.key.hash)
                .map(|&row| StoredMeta::from(row))
        })
        .collect::<Option<_>>()
        .ok_or(Error::Invariant(Invariant::MissingRows))
}
