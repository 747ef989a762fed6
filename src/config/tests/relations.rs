//! Relations between keys: equal, one below and one above (ARC-079, ARC-100, ARC-102).

use super::super::{Error, Retention};
use super::{assert_accepted, document, load_with};

/// Two lines that obey a relation by the smallest margin, two that just break it, and both keys.
struct Case {
    obeys: [&'static str; 2],
    breaks: [&'static str; 2],
    keys: [&'static str; 2],
}

const CASES: [Case; 5] = [
    Case {
        obeys: [
            "publishing.max_publish_duration_ms = 7001",
            "database.max_statement_timeout_ms = 7000",
        ],
        breaks: [
            "publishing.max_publish_duration_ms = 7000",
            "database.max_statement_timeout_ms = 7000",
        ],
        keys: [
            "publishing.max_publish_duration_ms",
            "database.max_statement_timeout_ms",
        ],
    },
    Case {
        obeys: [
            "streams.max_pong_wait_ms = 501",
            "streams.keepalive_interval_ms = 500",
        ],
        breaks: [
            "streams.max_pong_wait_ms = 500",
            "streams.keepalive_interval_ms = 500",
        ],
        keys: ["streams.max_pong_wait_ms", "streams.keepalive_interval_ms"],
    },
    Case {
        obeys: [
            "limits.max_query_limit = 70",
            "limits.default_query_limit = 70",
        ],
        breaks: [
            "limits.max_query_limit = 69",
            "limits.default_query_limit = 70",
        ],
        keys: ["limits.max_query_limit", "limits.default_query_limit"],
    },
    Case {
        obeys: [
            "limits.max_envelope_bytes = 4096",
            "limits.max_request_bytes = 4096",
        ],
        breaks: [
            "limits.max_envelope_bytes = 4097",
            "limits.max_request_bytes = 4096",
        ],
        keys: ["limits.max_envelope_bytes", "limits.max_request_bytes"],
    },
    Case {
        obeys: ["limits.max_update_adds = 8", "limits.max_stream_topics = 8"],
        breaks: ["limits.max_update_adds = 9", "limits.max_stream_topics = 8"],
        keys: ["limits.max_update_adds", "limits.max_stream_topics"],
    },
];

/// Goal: each relation holds at its margin and breaks one beyond. Method: table (ARC-100).
#[test]
fn relation_breaks_one_beyond_its_margin() {
    for Case {
        obeys,
        breaks,
        keys: [left, right],
    } in CASES
    {
        assert_accepted(&document(&obeys));
        let error = load_with(&breaks).unwrap_err();
        assert!(
            matches!(&error, Error::Relation { left: l, right: r, .. } if *l == left && *r == right),
            "{error}"
        );
        let text = error.to_string();
        assert!(text.contains(left) && text.contains(right), "{text}");
    }
}

/// Goal: relations that only look like ones are not checked. Method: break them.
#[test]
fn advice_is_no_relation() {
    assert_accepted(&document(&[
        "limits.max_newest_full_topics = 5",
        "limits.max_newest_metadata_topics = 4",
        "publishing.max_barrier_wait_ms = 20000",
        "mls.max_group_members = 1",
        "limits.max_update_removes = 200000",
    ]));
}

/// Goal: every permitted envelope fits a delivery frame and a response with 256 bytes beside it.
/// Method: at the bound and one above (ARC-079).
#[test]
fn largest_envelope_fits_frame_and_response() {
    assert_accepted(&document(&["limits.max_envelope_bytes = 2096896"]));
    let frame = load_with(&["limits.max_envelope_bytes = 2096897"])
        .unwrap_err()
        .to_string();
    assert!(
        frame.starts_with("configuration error: limits.max_envelope_bytes: "),
        "{frame}"
    );
    assert!(frame.contains("delivery frame of 2097152 bytes"), "{frame}");

    let envelope = "limits.max_envelope_bytes = 1000";
    assert_accepted(&document(&[envelope, "limits.max_response_bytes = 1256"]));
    let response = load_with(&[envelope, "limits.max_response_bytes = 1255"])
        .unwrap_err()
        .to_string();
    assert!(
        response.contains("limits.max_response_bytes of 1255 bytes"),
        "{response}"
    );

    let huge = load_with(&["limits.max_envelope_bytes = 9223372036854775807"]).unwrap_err();
    assert!(matches!(huge, Error::Relation { .. }), "{huge}");
}

/// Goal: a period must end at a timestamp that can be stored. Method: the last clock at which each
/// key fits, and one nanosecond later (ARC-102).
#[test]
fn retention_must_fit_the_database_clock() {
    let keys = [
        "group_message_seconds",
        "welcome_seconds",
        "key_package_seconds",
    ];
    for key in keys {
        let line = format!("retention.{key} = 9000000000");
        let retention = load_with(&[&line]).unwrap().retention;
        let last_ns = i64::MAX - 9_000_000_000_000_000_000;
        retention.check(last_ns).unwrap();
        let error = retention.check(last_ns + 1).unwrap_err().to_string();
        let prefix = format!("configuration error: retention.{key}: ");
        assert!(error.starts_with(&prefix), "{error}");
    }
    Retention::default().check(0).unwrap();
    let overflow = Retention {
        welcome_seconds: u64::MAX,
        ..Retention::default()
    };
    overflow.check(0).unwrap_err();
}
