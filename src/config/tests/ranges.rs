//! Ranges of numbers: at, one below and one above each end, in the loader and in the schema.

use std::time::{Duration, Instant};

use super::super::key::representable;
use super::super::{Error, Requirement};
use super::{assert_accepted, assert_load_refused, assert_refused, document, load, schema_accepts};

const TOML_MAX: i64 = 9_223_372_036_854_775_807;
const UINT32: i64 = 4_294_967_295;
const INT32: i64 = 2_147_483_647;

/// Every integer key with its smallest and its largest value.
const RANGES: &[(&str, i64, i64)] = &[
    ("server.max_drain_duration_ms", 1, TOML_MAX),
    ("database.max_connections", 1, UINT32),
    ("database.max_statement_timeout_ms", 1, INT32),
    ("publishing.max_publish_duration_ms", 1, INT32),
    ("publishing.max_barrier_wait_ms", 1, INT32),
    ("streams.poll_interval_ms", 1, TOML_MAX),
    ("streams.max_gap_ranges", 1, TOML_MAX),
    ("streams.keepalive_interval_ms", 1, UINT32),
    ("streams.max_pong_wait_ms", 1, TOML_MAX),
    ("retention.group_message_seconds", 1, 9_223_372_036),
    ("retention.welcome_seconds", 1, 9_223_372_036),
    ("retention.key_package_seconds", 1, 9_223_372_036),
    ("validation.max_scw_cache_entries", 1, TOML_MAX),
    ("limits.max_query_topics", 1, UINT32),
    ("limits.default_query_limit", 1, UINT32),
    ("limits.max_query_limit", 1, UINT32),
    ("limits.max_newest_metadata_topics", 1, UINT32),
    ("limits.max_newest_full_topics", 1, UINT32),
    ("limits.max_publish_topics", 1, UINT32),
    ("limits.max_envelope_bytes", 1, TOML_MAX),
    ("limits.max_request_bytes", 1, 26_214_400),
    ("limits.max_response_bytes", 1, 26_214_400),
    ("limits.max_update_adds", 1, UINT32),
    ("limits.max_update_removes", 1, UINT32),
    ("limits.max_stream_topics", 1, UINT32),
    ("limits.max_static_topics", 1, UINT32),
    ("limits.max_lookup_identifiers", 1, UINT32),
    ("limits.max_scw_signatures", 1, UINT32),
    ("limits.max_identity_entries", 1, UINT32),
    ("limits.max_http2_streams", 1, UINT32),
    ("limits.max_update_frames_per_second", 1, UINT32),
    ("limits.max_update_burst", 1, UINT32),
    ("limits.max_ping_frames_per_second", 1, UINT32),
    ("limits.max_ping_burst", 1, UINT32),
    ("limits.max_push_topics", 1, INT32),
    ("mls.max_group_members", 1, 65_535),
    ("mls.max_installations_per_inbox", 1, 65_535),
    ("auth.leeway_seconds", 0, 300),
    ("auth.jwks_refresh_seconds", 1, TOML_MAX),
    ("auth.jwks_max_stale_seconds", 1, TOML_MAX),
    ("push.recipient_ttl_seconds", 86_400, 9_223_372_036),
    ("push.max_attempts", 1, 10),
];

/// The minimal document with one key set, and with what its table needs to be judged.
fn set(key: &str, value: &str) -> String {
    let line = format!("{key} = {value}");
    if key.starts_with("auth.") {
        let enabled = "auth.enabled = true";
        return document(&[
            enabled,
            r#"auth.jwks_url = "https://issuer.example""#,
            &line,
        ]);
    }
    document(&[&line])
}

/// Goal: both ends of every range are legal. Method: write them; a relation to another key may
/// still be broken, the key's own rule may not (ARC-100).
#[test]
fn both_ends_of_a_range_are_legal() {
    for (key, min, max) in RANGES {
        for value in [min, max] {
            let text = set(key, &value.to_string());
            let verdict = load(&text);
            let own_rule = matches!(
                &verdict,
                Err(Error::Invalid {
                    rule: Requirement::Range { .. },
                    ..
                }) | Err(Error::WrongType { .. }
                    | Error::UnknownKey { .. }
                    | Error::Missing { .. })
            );
            assert!(!own_rule, "{key} = {value}: {verdict:?}");
            assert!(schema_accepts(&text), "{key} = {value}");
        }
    }
}

/// Goal: one below and one above every range is refused. Method: loader and schema; above the
/// largest TOML integer the document is no TOML (ARC-100).
#[test]
fn one_beyond_a_range_is_refused() {
    for (key, min, max) in RANGES {
        assert_refused(&set(key, &(min - 1).to_string()), key);
        match max.checked_add(1) {
            Some(above) => assert_refused(&set(key, &above.to_string()), key),
            None => assert_load_refused(&set(key, "9223372036854775808"), "document"),
        }
    }
}

/// Goal: no integer key is missing from the table above. Method: count the schema's integers.
#[test]
fn every_integer_key_is_in_the_table() {
    let schema = super::super::schema();
    assert_eq!(schema.matches(r#""type": "integer""#).count(), RANGES.len());
}

/// Goal: an integer key takes no other type. Method: floats, strings and booleans (ARC-100).
#[test]
fn integer_key_takes_only_integers() {
    for (key, min, _) in RANGES {
        for value in [
            format!("\"{min}\""),
            "true".to_owned(),
            "[]".to_owned(),
            "1979-05-27".to_owned(),
        ] {
            assert_refused(&set(key, &value), key);
        }
        // To JSON Schema 1.0 is an integer, so only a fraction is refused by both.
        assert_load_refused(&set(key, &format!("{min}.0")), key);
        assert_refused(&set(key, "100000.5"), key);
    }
}

/// Goal: the ratio is finite and from 0 to 1. Method: both ends, as float and integer, and beyond.
#[test]
fn ratio_is_from_zero_to_one() {
    let key = "telemetry.sample_ratio";
    for legal in ["0.0", "1.0", "0.25", "0", "1", "-0.0"] {
        assert_accepted(&set(key, legal));
    }
    for illegal in ["-0.0000001", "1.0000001", "2", "-1", "\"0.5\""] {
        assert_refused(&set(key, illegal), key);
    }
    // JSON has no such numbers.
    for illegal in ["nan", "inf", "-inf"] {
        assert_load_refused(&set(key, illegal), key);
    }
}

/// Goal: a switch takes only booleans. Method: each switch with an integer and a string.
#[test]
fn switch_takes_only_booleans() {
    let switches = [
        "server.request_logger",
        "telemetry.otlp_logs",
        "mls.commit_log_enabled",
        "auth.enabled",
        "push.http.allow_private_addresses",
    ];
    for key in switches {
        assert_refused(&document(&[&format!("{key} = 1")]), key);
        assert_refused(&document(&[&format!("{key} = \"true\"")]), key);
    }
}

/// Goal: a timer must end on the monotonic clock. Method: the largest duration has no end, the
/// largest of every millisecond key has one, and a key in seconds can be too large (ARC-100).
#[test]
fn timer_needs_a_representable_deadline() {
    let now = Instant::now();
    assert!(!representable(now, Duration::MAX));
    assert!(representable(now, Duration::from_millis(1)));
    let key = "auth.jwks_refresh_seconds";
    let error = load(&set(key, &TOML_MAX.to_string())).unwrap_err();
    assert!(
        matches!(&error, Error::Invalid { key: named, rule: Requirement::Deadline } if named == key),
        "{error}"
    );
}
