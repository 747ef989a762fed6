//! Relations between keys (ARC-079, ARC-100). Each key alone is already in range here.
//!
//! The ceiling of `limits.max_request_bytes` and `limits.max_response_bytes` is in their ranges, a
//! representable deadline in the rule of every timer, and the endpoint's form in its own rule.

use super::Config;
use super::delivery::{
    ENVELOPE_ALLOWANCE_BYTES, FETCH_BUDGET_BYTES, FRAME_BYTES, OUTBOUND_BYTES, TRANSPORT_BYTES,
};
use super::error::Error;

/// A comparison that must hold between two keys.
struct Relation {
    left: &'static str,
    relation: &'static str,
    right: &'static str,
    holds: fn(&Config) -> bool,
}

const RELATIONS: [Relation; 5] = [
    Relation {
        left: "publishing.max_publish_duration_ms",
        relation: "greater than",
        right: "database.max_statement_timeout_ms",
        holds: |c| c.publishing.max_publish_duration > c.database.max_statement_timeout,
    },
    Relation {
        left: "streams.max_pong_wait_ms",
        relation: "greater than",
        right: "streams.keepalive_interval_ms",
        holds: |c| c.streams.max_pong_wait > c.streams.keepalive_interval,
    },
    Relation {
        left: "limits.max_query_limit",
        relation: "at least",
        right: "limits.default_query_limit",
        holds: |c| c.limits.max_query_limit >= c.limits.default_query_limit,
    },
    Relation {
        left: "limits.max_envelope_bytes",
        relation: "at most",
        right: "limits.max_request_bytes",
        holds: |c| c.limits.max_envelope_bytes <= c.limits.max_request_bytes,
    },
    Relation {
        left: "limits.max_update_adds",
        relation: "at most",
        right: "limits.max_stream_topics",
        holds: |c| c.limits.max_update_adds <= c.limits.max_stream_topics,
    },
];

/// Checks every relation of a document.
pub(super) fn check(config: &Config) -> Result<(), Error> {
    for Relation {
        left,
        relation,
        right,
        holds,
    } in &RELATIONS
    {
        if !holds(config) {
            return Err(Error::Relation {
                left,
                relation,
                right,
            });
        }
    }
    check_envelope(config)
}

/// Checks that the largest permitted envelope fits everything that carries it (ARC-079).
fn check_envelope(config: &Config) -> Result<(), Error> {
    let bounds = [
        ("the delivery frame", FRAME_BYTES),
        (
            "limits.max_response_bytes",
            config.limits.max_response_bytes,
        ),
        ("the transport ceiling", TRANSPORT_BYTES),
        ("the fetched-data budget", FETCH_BUDGET_BYTES),
        ("the outbound budget", OUTBOUND_BYTES),
    ];
    let carried = config
        .limits
        .max_envelope_bytes
        .saturating_add(ENVELOPE_ALLOWANCE_BYTES);
    match bounds.into_iter().find(|(_, bytes)| carried > *bytes) {
        None => Ok(()),
        Some((bound, bound_bytes)) => Err(Error::EnvelopeTooLarge {
            allowance: ENVELOPE_ALLOWANCE_BYTES,
            bound,
            bound_bytes,
        }),
    }
}
