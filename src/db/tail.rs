//! What the tailer reads: pages of the log in one snapshot each, over a connection of its own
//! (ARC-037, ARC-070).
//!
//! Nothing here writes, takes a lock or keeps a transaction open: on a standby a snapshot that stays
//! open stops replay, and an advisory lock means nothing.

use std::time::Duration;

use gapless::{Id, Page, Plan, Sequenced};
use sqlx::postgres::PgConnection;
use sqlx::{ConnectOptions as _, Connection as _};
use tokio::time::timeout;

use super::envelope_row::load_envelopes;
use super::pools::bounded;
use super::{Database, Error, SequenceId, StoredEnvelope};

/// The longest goodbye to a server that may be gone.
const GOODBYE: Duration = Duration::from_secs(1);

/// Which server answered, as a number to compare: another host or port, a restart and a promotion
/// all change it.
///
/// What one server has shown proves nothing about what another one shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerIdentity(pub(super) i64);

#[cfg(test)]
impl ServerIdentity {
    /// A server that nobody asks.
    pub(crate) const fn nobody() -> Self {
        Self(0)
    }
}

/// What a server shows of the closed boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisibleBoundary {
    /// Which server it is.
    pub server: ServerIdentity,
    /// Whether it replays another server, rather than being written to.
    pub in_recovery: bool,
    /// When it was started, microseconds since the Unix epoch.
    pub started_us: i64,
    /// The boundary; `None` while the server has no such row.
    pub boundary: Option<Id>,
}

/// A row of the log without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRow {
    /// Its id.
    pub sequence_id: SequenceId,
    /// Its topic.
    pub topic: Vec<u8>,
    /// Length of its payload.
    pub bytes: u64,
}

impl Sequenced for LogRow {
    fn sequence_id(&self) -> Id {
        self.sequence_id.to_column()
    }
}

/// A page of the log and who showed it.
#[derive(Debug)]
pub struct LogPage {
    /// Which server it is.
    pub server: ServerIdentity,
    /// Boundary, late rows and new rows, of one snapshot.
    pub page: Page<LogRow>,
}

/// The tailer's connection to the read database, outside every pool.
#[derive(Debug)]
pub struct Tail {
    connection: PgConnection,
    deadline: Duration,
}

impl Database {
    /// Connects to the read database for one generation of the tailer.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn tail(&self) -> Result<Tail, Error> {
        let deadline = self.statement_deadline();
        let connection = bounded(deadline, self.tail_options().connect()).await?;
        Ok(Tail {
            connection,
            deadline,
        })
    }
}

impl Tail {
    /// What this server shows of the closed boundary (ARC-041). A replica that has not replayed the
    /// schema yet shows none.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn visible_boundary(&mut self) -> Result<VisibleBoundary, Error> {
        let query = sqlx::query!(
            r#"
            SELECT hashtextextended(concat_ws('|', pg_postmaster_start_time(), inet_server_addr(),
                                              inet_server_port(), pg_is_in_recovery()), 0)
                       AS "server!",
                   pg_is_in_recovery() AS "in_recovery!",
                   (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint
                       AS "started_us!",
                   to_regclass('allocation_boundary') IS NOT NULL AS "has_schema!"
            "#
        )
        .fetch_one(&mut self.connection);
        let row = bounded(self.deadline, query).await?;
        let boundary = if row.has_schema {
            let query = sqlx::query_scalar!(
                "SELECT closed_sequence_id FROM allocation_boundary WHERE singleton"
            )
            .fetch_optional(&mut self.connection);
            bounded(self.deadline, query).await?
        } else {
            None
        };
        Ok(VisibleBoundary {
            server: ServerIdentity(row.server),
            in_recovery: row.in_recovery,
            started_us: row.started_us,
            boundary,
        })
    }

    /// Reads the page that answers `plan`: the boundary, the rows inside the missing ranges and the
    /// rows above the cursor, as one statement and so of one snapshot (ARC-037).
    ///
    /// # Errors
    ///
    /// [`Error::Invariant`] when the boundary's row is gone, else any [`Error`].
    pub async fn page(&mut self, plan: Plan<'_>) -> Result<LogPage, Error> {
        let query = sqlx::query!(
            r#"
            WITH probe AS (
                SELECT e.sequence_id, e.topic, e.bytes
                  FROM unnest($1::bigint[], $2::bigint[]) AS missing (low, high)
                 CROSS JOIN LATERAL (
                       SELECT sequence_id, topic, octet_length(payload) AS bytes
                         FROM envelopes
                        WHERE sequence_id BETWEEN missing.low AND missing.high
                        ORDER BY sequence_id
                        LIMIT $4::bigint
                       ) AS e
                 ORDER BY e.sequence_id
                 LIMIT $4::bigint
            ), forward AS (
                SELECT sequence_id, topic, octet_length(payload) AS bytes
                  FROM envelopes
                 WHERE sequence_id > $3::bigint
                 ORDER BY sequence_id
                 LIMIT $4::bigint
            )
            SELECT 0 AS "source!", closed_sequence_id AS "id!", NULL::bytea AS topic,
                   NULL::int AS bytes,
                   hashtextextended(concat_ws('|', pg_postmaster_start_time(), inet_server_addr(),
                                              inet_server_port(), pg_is_in_recovery()), 0) AS server
              FROM allocation_boundary
             WHERE singleton
            UNION ALL
            SELECT 1, sequence_id, topic, bytes, NULL FROM probe
            UNION ALL
            SELECT 2, sequence_id, topic, bytes, NULL FROM forward
            ORDER BY 1, 2
            "#,
            plan.lows,
            plan.highs,
            plan.after,
            i64::from(plan.limit.get()),
        )
        .fetch_all(&mut self.connection);
        let mut rows = bounded(self.deadline, query).await?.into_iter();

        let head = rows.next().filter(|row| row.source == 0);
        let (boundary, server) = head
            .and_then(|row| Some((row.id, ServerIdentity(row.server?))))
            .ok_or(Error::Invariant(super::Invariant::MissingRows))?;
        let mut page = Page {
            boundary,
            probe: Vec::new(),
            forward: Vec::new(),
        };
        for row in rows {
            let scan = if row.source == 1 {
                &mut page.probe
            } else {
                &mut page.forward
            };
            let (Some(topic), Some(bytes)) = (row.topic, row.bytes) else {
                return Err(Error::Invariant(super::Invariant::StoredValue));
            };
            scan.push(LogRow {
                sequence_id: SequenceId::from_column(row.id),
                topic,
                bytes: u64::from(bytes.unsigned_abs()),
            });
        }
        Ok(LogPage { server, page })
    }

    /// Loads these envelopes in this order. Rows never change, so a later snapshot than that of
    /// their page is as good.
    ///
    /// # Errors
    ///
    /// [`Error::Invariant`] when one of them is not there, else any [`Error`].
    pub async fn envelopes(&mut self, ids: &[SequenceId]) -> Result<Vec<StoredEnvelope>, Error> {
        let envelopes = bounded(self.deadline, load_envelopes(&mut self.connection, ids)).await?;
        if envelopes.len() < ids.len() {
            return Err(Error::Invariant(super::Invariant::MissingRows));
        }
        Ok(envelopes)
    }

    /// Says goodbye to the server, if it still listens.
    pub async fn close(self) {
        // The server notices a connection that is merely dropped as well.
        let _ = timeout(GOODBYE, self.connection.close()).await;
    }
}
