//! What subscriptions read besides the tailer: heads of topics, and turns of history (ARC-076,
//! ARC-086, ARC-087).
//!
//! Every answer says which server gave it. A stream may combine what it reads here with what its
//! tailer saw only when both are the same server.

use std::collections::HashMap;

use tracing::{Instrument as _, info_span};

use super::pools::{Leased, bounded};
use super::records::index_of;
use super::{
    Database, Error, Invariant, Operation, SequenceId, ServerIdentity, StoredEnvelope, StoredMeta,
    TopicCursor,
};

/// The newest ids of topics.
#[derive(Debug)]
pub struct Heads {
    /// Who answered.
    pub server: ServerIdentity,
    /// One per topic, at the same index; [`SequenceId::START`] for an empty topic.
    pub heads: Vec<SequenceId>,
}

/// An envelope that a turn may load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which of the topics it is on: an index into the request.
    pub topic_index: usize,
    /// Its id.
    pub sequence_id: SequenceId,
    /// Length of its payload.
    pub bytes: u64,
}

/// What there is for a turn.
#[derive(Debug)]
pub struct Turn {
    /// Who answered.
    pub server: ServerIdentity,
    /// By topic in request order, then ascending by id.
    pub candidates: Vec<Candidate>,
    /// Those that were loaded, by id.
    pub envelopes: HashMap<SequenceId, StoredEnvelope>,
}

/// How much of a turn is read.
#[derive(Clone, Copy, Debug)]
pub struct TurnLimits {
    /// Envelopes of each topic.
    pub rows_per_topic: u32,
    /// Bytes that are counted for an envelope beside its payload.
    pub allowance_bytes: u64,
    /// Bytes of each topic that are loaded.
    pub topic_bytes: u64,
    /// Bytes of all topics that are loaded.
    pub turn_bytes: u64,
}

impl Database {
    /// The newest id of each of these topics, in the database that streams read from (ARC-076).
    /// There must be at least one.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn heads(&self, topics: &[&[u8]]) -> Result<Heads, Error> {
        let connection = self.acquire(Operation::Subscribe).await?;
        let mut connection = Leased::to_give_back(connection);
        let query = sqlx::query!(
            r#"
            SELECT wanted.index AS "index!",
                   coalesce(w.last_sequence_id, 0) AS "last_sequence_id!",
                   server.identity AS "server!"
              FROM (SELECT hashtextextended(
                               concat_ws('|', pg_postmaster_start_time(), inet_server_addr(),
                                         inet_server_port(), pg_is_in_recovery()), 0) AS identity
                   ) AS server
             CROSS JOIN unnest($1::bytea[]) WITH ORDINALITY AS wanted (topic, index)
              LEFT JOIN topic_watermark w ON w.topic = wanted.topic
            "#,
            topics as &[&[u8]],
        )
        .fetch_all(connection.connection());
        let rows = bounded(self.statement_deadline(), query)
            .instrument(info_span!("db.heads", topics = topics.len()))
            .await;
        let rows = connection.checked(rows)?;
        let server = rows
            .first()
            .map(|row| ServerIdentity(row.server))
            .ok_or(Error::Invariant(Invariant::MissingRows))?;
        let mut heads = vec![SequenceId::START; topics.len()];
        for row in rows {
            heads[index_of(row.index)] = SequenceId::from_column(row.last_sequence_id);
        }
        Ok(Heads { server, heads })
    }

    /// Reads one turn of history: the first envelopes above each cursor by id and length, and the
    /// payloads of as many of them as the limits allow, all in one statement and one snapshot
    /// (ARC-086, ARC-087).
    ///
    /// Lengths are read and added up before any payload is, topic after topic, so each topic's loaded
    /// envelopes are its first. What exceeds the share of its topic takes no room from other topics.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn turn(
        &self,
        cursors: &[TopicCursor<'_>],
        limits: TurnLimits,
    ) -> Result<Turn, Error> {
        let topics: Vec<&[u8]> = cursors.iter().map(|cursor| cursor.topic).collect();
        let after: Vec<i64> = cursors
            .iter()
            .map(|cursor| cursor.after.to_column())
            .collect();
        let connection = self.acquire(Operation::Subscribe).await?;
        let mut connection = Leased::to_give_back(connection);
        let query = sqlx::query_as!(
            TurnRow,
            r#"
            SELECT server.identity AS "server!", candidate.index AS "index?",
                   candidate.sequence_id AS "sequence_id?", candidate.bytes AS "bytes?",
                   e.server_ns AS "server_ns?", e.expiry_ns,
                   e.is_commit_or_proposal AS "is_commit_or_proposal?",
                   e.message_hash AS "message_hash?: [u8; 32]", e.payload AS "payload?"
              FROM (SELECT hashtextextended(
                               concat_ws('|', pg_postmaster_start_time(), inet_server_addr(),
                                         inet_server_port(), pg_is_in_recovery()), 0) AS identity
                   ) AS server
              LEFT JOIN (
                   SELECT index, sequence_id, bytes, topic_bytes,
                          sum(bytes + $4::bigint) FILTER (WHERE topic_bytes <= $5::bigint)
                              OVER (ORDER BY index, sequence_id) AS turn_bytes
                     FROM (SELECT index, sequence_id, bytes,
                                  sum(bytes + $4::bigint)
                                      OVER (PARTITION BY index ORDER BY sequence_id) AS topic_bytes
                             FROM unnest($1::bytea[], $2::bigint[]) WITH ORDINALITY
                                      AS wanted (topic, after, index)
                            CROSS JOIN LATERAL (
                                  SELECT sequence_id, octet_length(payload) AS bytes
                                    FROM envelopes
                                   WHERE topic = wanted.topic AND sequence_id > wanted.after
                                   ORDER BY sequence_id
                                   LIMIT $3::bigint
                                  ) AS first
                          ) AS measured
                   ) AS candidate ON true
              LEFT JOIN envelopes e
                ON e.sequence_id = candidate.sequence_id
               AND candidate.topic_bytes <= $5::bigint AND candidate.turn_bytes <= $6::bigint
             ORDER BY candidate.index, candidate.sequence_id
            "#,
            &topics as &[&[u8]],
            &after,
            i64::from(limits.rows_per_topic),
            column(limits.allowance_bytes),
            column(limits.topic_bytes),
            column(limits.turn_bytes),
        )
        .fetch_all(connection.connection());
        let rows = bounded(self.statement_deadline(), query).await;
        let rows = connection.checked(rows)?;
        Turn::of(rows)
    }
}

/// A row of the statement: a candidate, and its envelope if it was loaded.
struct TurnRow {
    server: i64,
    index: Option<i64>,
    sequence_id: Option<i64>,
    bytes: Option<i32>,
    server_ns: Option<i64>,
    expiry_ns: Option<i64>,
    is_commit_or_proposal: Option<bool>,
    message_hash: Option<[u8; 32]>,
    payload: Option<Vec<u8>>,
}

impl TurnRow {
    /// `None` for the one row of a turn without candidates.
    fn candidate(&self) -> Option<Candidate> {
        Some(Candidate {
            topic_index: index_of(self.index?),
            sequence_id: SequenceId::from_column(self.sequence_id?),
            bytes: u64::from(self.bytes?.unsigned_abs()),
        })
    }

    fn envelope(self) -> Option<StoredEnvelope> {
        Some(StoredEnvelope {
            hash: self.message_hash?,
            meta: StoredMeta::from_columns(
                self.sequence_id?,
                self.server_ns?,
                self.expiry_ns,
                self.is_commit_or_proposal?,
            ),
            payload: self.payload?.into(),
        })
    }
}

impl Turn {
    fn of(rows: Vec<TurnRow>) -> Result<Self, Error> {
        let server = rows
            .first()
            .map(|row| ServerIdentity(row.server))
            .ok_or(Error::Invariant(Invariant::MissingRows))?;
        let mut turn = Self {
            server,
            candidates: Vec::with_capacity(rows.len()),
            envelopes: HashMap::with_capacity(rows.len()),
        };
        for row in rows {
            let Some(candidate) = row.candidate() else {
                continue;
            };
            if let Some(envelope) = row.envelope() {
                turn.envelopes.insert(candidate.sequence_id, envelope);
            }
            turn.candidates.push(candidate);
        }
        Ok(turn)
    }
}

fn column(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
