//! Closing the log up to an id: the evidence that lets a reader give up a missing one (ARC-038 to
//! ARC-040).

use std::time::{Duration, Instant};

use gapless::Id;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tracing::{Instrument as _, info_span};

use super::locks::exclusive_barrier;
use super::pools::{Leased, bounded};
use super::{Database, Error, Invariant, SqlState};

/// What came of an attempt to close the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// Every transaction that was given an id up to this one has ended, and the database says so.
    Closed(Id),
    /// Publishes held the barrier for too long. Nothing changed; worth trying again later.
    LockTimeout {
        /// How long this attempt made new publishes wait.
        waited: Duration,
    },
    /// No connection was free in time. Nothing changed; worth trying again later.
    NoConnection,
}

impl Database {
    /// Takes the barrier alone, reads how far ids were handed out, and stores that (ARC-039).
    ///
    /// Every publish that was handed an id ended before the barrier was ours, and none is handed one
    /// before this transaction has ended. PostgreSQL ends it by itself after the barrier wait and one
    /// statement's time, so that an instance that dies here does not stop all publishers.
    ///
    /// # Errors
    ///
    /// [`Error::Invariant`] if the stored boundary is above the sequence: the sequence was set back.
    /// Else any [`Error`] but a failure to get the lock or a connection.
    pub async fn advance_boundary(&self) -> Result<Advance, Error> {
        let connection = match self.pools().primary().acquire().await {
            Ok(connection) => connection,
            Err(sqlx::Error::PoolTimedOut) => return Ok(Advance::NoConnection),
            Err(error) => return Err(error.into()),
        };
        // Without it, the server rolls back: also when nobody waits for the outcome any more.
        let mut connection = Leased::to_close(connection);
        let advance = self
            .advance_on(connection.connection())
            .instrument(info_span!("db.advance"));
        // PostgreSQL has ended the transaction by then; a server that does not say so is lost.
        let advanced = bounded(self.advance_deadline(), advance).await?;
        connection.give_back();
        Ok(advanced)
    }

    async fn advance_on(&self, connection: &mut PgConnection) -> Result<Advance, Error> {
        let mut transaction = connection
            .begin_with(AssertSqlSafe(self.begin_advance.to_string()))
            .await?;
        let asked = Instant::now();
        let locked = transaction
            .execute(AssertSqlSafe(exclusive_barrier()))
            .await
            .map_err(Error::from);
        match locked {
            Ok(_) => {}
            Err(Error::Timeout { state }) if is_lock_timeout(state) => {
                transaction.rollback().await?;
                return Ok(Advance::LockTimeout {
                    waited: asked.elapsed(),
                });
            }
            Err(error) => return Err(error),
        }
        // A statement of its own: one that takes the lock reads with a snapshot from before the wait.
        let handed_out = sqlx::query_scalar!(
            r#"SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS "id!" FROM envelope_sequence"#
        )
        .fetch_one(&mut *transaction)
        .await?;
        // Publishes wait for every round trip from here to the commit: moving the boundary and looking
        // at it are one.
        let closed = sqlx::query_scalar!(
            r#"
            WITH moved AS (
                UPDATE allocation_boundary SET closed_sequence_id = $1
                 WHERE singleton AND closed_sequence_id < $1
                RETURNING closed_sequence_id
            )
            SELECT coalesce((SELECT closed_sequence_id FROM moved),
                            (SELECT closed_sequence_id FROM allocation_boundary WHERE singleton))
                       AS "closed!"
            "#,
            handed_out,
        )
        .fetch_one(&mut *transaction)
        .await?;
        if closed != handed_out {
            return Err(Error::Invariant(Invariant::SequenceWentBack));
        }
        transaction.commit().await?;
        Ok(Advance::Closed(closed))
    }

    /// The boundary that the primary holds now, without any lock. Another instance may have moved it.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn stored_boundary(&self) -> Result<Id, Error> {
        let mut connection = Leased::to_close(self.pools().primary().acquire().await?);
        let query = sqlx::query_scalar!(
            "SELECT closed_sequence_id FROM allocation_boundary WHERE singleton"
        )
        .fetch_one(connection.connection());
        let stored = bounded(self.statement_deadline(), query).await?;
        connection.give_back();
        Ok(stored)
    }
}

/// The wait for a lock may end by its own bound, or by that of every statement when it is shorter.
fn is_lock_timeout(state: SqlState) -> bool {
    matches!(state.as_str(), "55P03" | "57014")
}
