//! Whether the replica can serve yet, and whether it still can.

use super::pools::{Leased, bounded};
use super::{Database, Error, VisibleBoundary};

/// What the replica shows of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaState {
    /// The backend's tables are there: replay has passed the migrations.
    pub has_schema: bool,
    /// It replays a primary, rather than being one.
    pub in_recovery: bool,
}

impl Database {
    /// Looks at the replica; `None` when none is configured.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn replica_state(&self) -> Result<Option<ReplicaState>, Error> {
        let Some(replica) = self.pools().replica() else {
            return Ok(None);
        };
        let row = sqlx::query!(
            r#"
            SELECT to_regclass('allocation_boundary') IS NOT NULL AS "has_schema!",
                   pg_is_in_recovery() AS "in_recovery!"
            "#
        )
        .fetch_one(replica)
        .await?;
        Ok(Some(ReplicaState {
            has_schema: row.has_schema,
            in_recovery: row.in_recovery,
        }))
    }

    /// Whether the server that shows this boundary will also show what the primary stores from now
    /// on: it replays, or is the primary itself. A standby that was promoted still shows every
    /// boundary that it had replayed, and nothing that comes later (ARC-041).
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn keeps_up(&self, visible: &VisibleBoundary) -> Result<bool, Error> {
        if visible.in_recovery || self.pools().replica().is_none() {
            return Ok(true);
        }
        let mut connection = Leased::to_close(self.pools().primary().acquire().await?);
        let query = sqlx::query_scalar!(
            r#"
            SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint
                       AS "started_us!"
            "#
        )
        .fetch_one(connection.connection());
        let started_us = bounded(self.statement_deadline(), query).await?;
        connection.give_back();
        Ok(started_us == visible.started_us)
    }
}
