//! The `[database]` table: connections to PostgreSQL (ARC-051, ARC-060).

use std::time::Duration;

use super::form;
use super::key::{INT32_MAX, Rule, UINT32_MAX, integer, millis, section, text};
use super::secret::Secret;

section! {
    /// Connections to PostgreSQL.
    pub struct Database {
        /// Connection URL of the primary, `postgres://` or `postgresql://`.
        "url" => url: Secret<String> = url();
        /// Connection URL of one physical streaming replica that reads are routed to (ARC-060).
        "replica_url" => replica_url: Option<Secret<String>> = url().optional();
        /// Connections of one pool. With a replica there are two pools. The stream tailer uses one
        /// more connection to the database that reads go to.
        "max_connections" => max_connections: u32 = integer(1, UINT32_MAX).or(20);
        /// The statement timeout of every statement, in milliseconds. Must be less than
        /// publishing.max_publish_duration_ms (ARC-051).
        "max_statement_timeout_ms" => max_statement_timeout: Duration = millis(INT32_MAX).or(5_000);
    }
}

fn url() -> Rule<Secret<String>> {
    text(form::postgres_url()).secret()
}
