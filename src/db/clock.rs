//! The primary's clock.

use super::{Database, Error};

impl Database {
    /// The primary's wall clock, nanoseconds since the Unix epoch.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn clock_ns(&self) -> Result<i64, Error> {
        Ok(sqlx::query_scalar!(
            r#"SELECT (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint AS "ns!""#
        )
        .fetch_one(self.pools().primary())
        .await?)
    }
}
