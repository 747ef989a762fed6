//! The `[limits]` table: the public limits (ARC-102).
//!
//! What is enforced is what is published, so a limit that is published as `uint32` ends there.

use super::delivery::TRANSPORT_BYTES;
use super::key::{INT32_MAX, Rule, UINT32_MAX, UNBOUNDED, defaults, integer, section};

section! {
    /// Public limits: what the server enforces is what it publishes.
    pub struct Limits {
        /// Topics of one Query request.
        "max_query_topics" => max_query_topics: u32 = count(1_000);
        /// Envelopes that one Query answers with when the request sets no limit (ARC-061).
        "default_query_limit" => default_query_limit: u32 = count(100);
        /// Largest limit that a Query request may set. Must be at least default_query_limit.
        "max_query_limit" => max_query_limit: u32 = count(1_000);
        /// Topics of one request for the newest envelopes' metadata.
        "max_newest_metadata_topics" => max_newest_metadata_topics: u32 = count(1_000);
        /// Topics of one request for the newest full envelopes. Should be at most
        /// max_newest_metadata_topics, because a full read costs more.
        "max_newest_full_topics" => max_newest_full_topics: u32 = count(100);
        /// Distinct topics of one publish request; each holds one lock (ARC-031).
        "max_publish_topics" => max_publish_topics: u32 = count(1_000);
        /// Encoded bytes of one envelope. Must be at most max_request_bytes, and with 256 bytes for
        /// metadata and framing must fit max_response_bytes and a delivery frame of 2097152 bytes
        /// (ARC-079).
        "max_envelope_bytes" => max_envelope_bytes: u64 = integer(1, UNBOUNDED).or(1_048_576);
        /// Encoded bytes of one request.
        "max_request_bytes" => max_request_bytes: u64 = transported();
        /// Encoded bytes of one response; a larger one fails (ARC-066).
        "max_response_bytes" => max_response_bytes: u64 = transported();
        /// Topics added by one Update frame. Must be at most max_stream_topics.
        "max_update_adds" => max_update_adds: u32 = count(100_000);
        /// Topics removed by one Update frame.
        "max_update_removes" => max_update_removes: u32 = count(100_000);
        /// Topics registered on one bidirectional stream (ARC-074).
        "max_stream_topics" => max_stream_topics: u32 = count(100_000);
        /// Topics of one static subscription.
        "max_static_topics" => max_static_topics: u32 = count(10_000);
        /// Identifiers of one inbox id lookup.
        "max_lookup_identifiers" => max_lookup_identifiers: u32 = count(250);
        /// Smart contract wallet signatures of one verify request or identity update.
        "max_scw_signatures" => max_scw_signatures: u32 = count(100);
        /// Identity updates of one inbox; applies to new writes.
        "max_identity_entries" => max_identity_entries: u32 = count(256);
        /// Concurrent HTTP/2 streams advertised on one connection.
        "max_http2_streams" => max_http2_streams: u32 = count(100);
        /// Update frames per second that refill the budget of one stream (ARC-085).
        "max_update_frames_per_second" => max_update_frames_per_second: u32 = count(10);
        /// Update frames that one stream may send at once.
        "max_update_burst" => max_update_burst: u32 = count(100);
        /// Client Ping frames per second that refill the budget of one stream (ARC-085).
        "max_ping_frames_per_second" => max_ping_frames_per_second: u32 = count(10);
        /// Client Ping frames that one stream may send at once.
        "max_ping_burst" => max_ping_burst: u32 = count(100);
        /// Topics that one push recipient may subscribe to; not published.
        "max_push_topics" => max_push_topics: u32 = integer(1, INT32_MAX).or(100_000);
    }
}

impl Default for Limits {
    fn default() -> Self {
        defaults()
    }
}

/// A number that is published as `uint32`.
fn count(default: i64) -> Rule<u32> {
    integer(1, UINT32_MAX).or(default)
}

/// Bytes of a message that must pass the transport; the transport's own ceiling is the default.
fn transported() -> Rule<u64> {
    const CEILING: i64 = TRANSPORT_BYTES as i64;
    integer(1, CEILING).or(CEILING)
}
