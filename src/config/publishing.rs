//! The `[publishing]` table: bounds on the work of one publish request (ARC-039, ARC-051).

use std::time::Duration;

use super::key::{INT32_MAX, defaults, millis, section};

section! {
    /// Bounds on the work of one publish request.
    pub struct Publishing {
        /// Longest time from the first lock of a publish to its commit, in milliseconds. Must be
        /// greater than database.max_statement_timeout_ms, so that one slow statement fails on its
        /// own timeout (ARC-051).
        "max_publish_duration_ms" => max_publish_duration: Duration = millis(INT32_MAX).or(10_000);
        /// Longest wait for the exclusive allocation barrier, in milliseconds. A wait that ends
        /// without it is repeated later and fails nothing; a wait stalls new publishes, so a large
        /// value costs latency. The statement timeout bounds it too (ARC-039, ARC-042).
        "max_barrier_wait_ms" => max_barrier_wait: Duration = millis(INT32_MAX).or(1_000);
    }
}

impl Default for Publishing {
    fn default() -> Self {
        defaults()
    }
}
