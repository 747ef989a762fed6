//! Whether the replica can serve yet.

use super::{Database, Error};

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
}
