//! What subscriptions read besides the tailer: heads of topics, and turns of history (ARC-076,
//! ARC-086, ARC-087).
//!
//! Every answer says which server gave it. A stream may combine what it reads here with what its
//! tailer saw only when both are the same server.

use std::time::Duration;

use tracing::{Instrument as _, info_span};

use super::envelope_row::load_envelopes;
use super::pools::{Leased, bounded};
use super::records::index_of;
use super::{
    Database, Error, Invariant, Operation, SequenceId, ServerIdentity, StoredEnvelope, TopicCursor,
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
pub struct Candidates {
    /// Who answered.
    pub server: ServerIdentity,
    /// By topic in request order, then ascending by id.
    pub rows: Vec<Candidate>,
}

/// A connection that serves one turn of history.
#[derive(Debug)]
pub struct Turn {
    connection: Leased,
    deadline: Duration,
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

    /// Takes a connection of the database that streams read from, for one turn.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] when none is free in time.
    pub async fn turn(&self) -> Result<Turn, Error> {
        Ok(Turn {
            connection: Leased::to_give_back(self.acquire(Operation::Subscribe).await?),
            deadline: self.statement_deadline(),
        })
    }
}

impl Turn {
    /// The first `rows_per_topic` envelopes above each cursor, without their payloads.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn candidates(
        &mut self,
        cursors: &[TopicCursor<'_>],
        rows_per_topic: u32,
    ) -> Result<Candidates, Error> {
        let topics: Vec<&[u8]> = cursors.iter().map(|cursor| cursor.topic).collect();
        let after: Vec<i64> = cursors
            .iter()
            .map(|cursor| cursor.after.to_column())
            .collect();
        let query = sqlx::query!(
            r#"
            SELECT server.identity AS "server!", candidate.index AS "index?",
                   candidate.sequence_id AS "sequence_id?", candidate.bytes AS "bytes?"
              FROM (SELECT hashtextextended(
                               concat_ws('|', pg_postmaster_start_time(), inet_server_addr(),
                                         inet_server_port(), pg_is_in_recovery()), 0) AS identity
                   ) AS server
              LEFT JOIN (
                   SELECT wanted.index, e.sequence_id, e.bytes
                     FROM unnest($1::bytea[], $2::bigint[]) WITH ORDINALITY
                              AS wanted (topic, after, index)
                    CROSS JOIN LATERAL (
                          SELECT sequence_id, octet_length(payload) AS bytes
                            FROM envelopes
                           WHERE topic = wanted.topic AND sequence_id > wanted.after
                           ORDER BY sequence_id
                           LIMIT $3::bigint
                          ) AS e
                   ) AS candidate ON true
             ORDER BY candidate.index, candidate.sequence_id
            "#,
            &topics as &[&[u8]],
            &after,
            i64::from(rows_per_topic),
        )
        .fetch_all(self.connection.connection());
        let rows = bounded(self.deadline, query).await;
        let rows = self.connection.checked(rows)?;
        let server = rows
            .first()
            .map(|row| ServerIdentity(row.server))
            .ok_or(Error::Invariant(Invariant::MissingRows))?;
        let rows = rows
            .into_iter()
            .filter_map(|row| {
                Some(Candidate {
                    topic_index: index_of(row.index?),
                    sequence_id: SequenceId::from_column(row.sequence_id?),
                    bytes: u64::from(row.bytes?.unsigned_abs()),
                })
            })
            .collect();
        Ok(Candidates { server, rows })
    }

    /// Loads these envelopes in this order.
    ///
    /// # Errors
    ///
    /// [`Error::Invariant`] when one of them is not there, else any [`Error`].
    pub async fn envelopes(&mut self, ids: &[SequenceId]) -> Result<Vec<StoredEnvelope>, Error> {
        let load = load_envelopes(self.connection.connection(), ids);
        let envelopes = bounded(self.deadline, load).await;
        let envelopes = self.connection.checked(envelopes)?;
        if envelopes.len() < ids.len() {
            return Err(Error::Invariant(Invariant::MissingRows));
        }
        Ok(envelopes)
    }
}
