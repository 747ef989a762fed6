//! The `[streams]` table: delivery to subscribers (ARC-042, ARC-071, ARC-081).

use std::time::Duration;

use super::key::{UINT32_MAX, UNBOUNDED, defaults, integer, millis, section};

section! {
    /// Delivery to subscribers.
    pub struct Streams {
        /// Time between two polls of the read database for new rows, in milliseconds. Polls do not
        /// overlap (ARC-071).
        "poll_interval_ms" => poll_interval: Duration = millis(UNBOUNDED).or(100);
        /// Most unresolved gap ranges that are tracked before affected streams fail with
        /// RESOURCE_EXHAUSTED (ARC-042).
        "max_gap_ranges" => max_gap_ranges: u64 = integer(1, UNBOUNDED).or(10_000);
        /// Time without a sent frame after which the server sends a Ping, in milliseconds. Told to
        /// the client when a stream starts (ARC-081).
        "keepalive_interval_ms" => keepalive_interval: Duration = millis(UINT32_MAX).or(30_000);
        /// Time the server waits for the Pong that answers a Ping, in milliseconds. Must be greater
        /// than keepalive_interval_ms (ARC-081).
        "max_pong_wait_ms" => max_pong_wait: Duration = millis(UNBOUNDED).or(90_000);
    }
}

impl Default for Streams {
    fn default() -> Self {
        defaults()
    }
}
