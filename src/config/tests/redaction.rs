//! What errors and `Debug` output must never contain (ARC-101).

use std::ffi::OsString;

use super::super::{Config, Error, Secret};
use super::{document, load, load_with};

/// A document with a canary in every string that can hold one.
const CANARIES: &str = r#"
    server.identifier = "env:ID"
    server.listen = "env:LISTEN"
    telemetry.otlp_endpoint = "http://canary:canary@canary/canary?canary"
    telemetry.service_name = "env:ID"
    telemetry.resource_attributes = { a = "canary" }
    database.url = "postgres://canary:canary@canary/canary"
    database.replica_url = "postgres://canary"
    chains."eip155:1" = "https://canary/canary"
    [auth]
    enabled = true
    jwks_url = "https://canary/"
    api_keys = { phone = "canarycanarycanarycanarycanarycanary" }
    audiences = ["env:ID"]
    [push.apns]
    key = "canary"
    key_id = "env:ID"
    team_id = "env:ID"
    bundle_id = "env:ID"
    environment = "sandbox"
    [push.fcm]
    service_account = "canary"
"#;

/// Goal: `Debug` of a configuration shows no secret and nothing from a variable, and still shows
/// numbers. Method: canaries everywhere, both notations (ARC-101).
#[test]
fn debug_output_shows_no_string_value() {
    let environment = |name: &str| match name {
        "ID" => Some(OsString::from("canary")),
        "LISTEN" => Some(OsString::from("127.0.0.1:49321")),
        _ => None,
    };
    let config = Config::parse(CANARIES, &environment).unwrap();
    assert_eq!(config.server.identifier, "canary");
    for text in [format!("{config:?}"), format!("{config:#?}")] {
        assert!(
            !text.contains("canary") && !text.contains("49321"),
            "{text}"
        );
        assert!(
            text.contains("[redacted]") && text.contains("26214400"),
            "{text}"
        );
        assert!(text.contains("ChainId") && text.contains("phone"), "{text}");
    }
    let keys = r#"auth.keys = [{ kid = "canary", alg = "ES256", public_key = "canary" }]"#;
    let config = load_with(&["auth.enabled = true", keys]).unwrap();
    assert!(!format!("{config:?}").contains("canary"));
    assert_eq!(format!("{:?}", Secret::new("canary")), "[redacted]");
}

/// Goal: an error shows no configured value. Method: every kind of bad value with a canary in it,
/// written literally and through a variable; `Display`, `Debug` and sources (ARC-101).
#[test]
fn error_shows_no_configured_value() {
    let lines = [
        "server.identifier = \"canary canary\"",
        "server.min_libxmtp_version = \"canary\"",
        "server.listen = \"canary:1\"",
        "server.log_level = \"canary\"",
        "server.log_format = \"canary\"",
        "telemetry.metrics_listen = \"canary\"",
        "telemetry.otlp_endpoint = \"http:canary\"",
        "telemetry.sample_ratio = \"canary\"",
        "telemetry.resource_attributes = { \"service.name\" = \"canary\" }",
        "database.url = \"mysql://canary\"",
        "database.url = \"postgres://canary:canary\"",
        "database.replica_url = \"canary\"",
        "database.max_connections = \"canary\"",
        "chains.\"eip155:1\" = \"canary\"",
        "surprise = \"canary\"",
        "auth = { enabled = true, jwks_url = \"http://canary\" }",
        "auth = { enabled = true, api_keys = { phone = \"canary\" } }",
        "auth = { enabled = true, keys = [{ kid = \"k\", alg = \"canary\", public_key = \"p\" }] }",
        "push.apns = { key = \"k\", environment = \"canary\" }",
        "push.http.allowed_domains = [\"https://canary\"]",
    ];
    for line in lines {
        assert_silent(&load(&document(&[line])).unwrap_err(), line);
        // The same value through a variable.
        if let Some((before, value, after)) = split_canary(line) {
            let environment = |_: &str| Some(OsString::from(value));
            let text = document(&[&format!("{before}\"env:SET\"{after}")]);
            let otel = |name: &str| environment(name).filter(|_| name == "SET");
            assert_silent(&Config::parse(&text, &otel).unwrap_err(), line);
        }
    }
    let swapped = load_with(&["chains.\"https://canary/\" = \"eip155:1\""]).unwrap_err();
    assert_silent(&swapped, "chains");
}

/// The text around the string that holds the canary, and that string.
fn split_canary(line: &str) -> Option<(&str, &str, &str)> {
    let canary = line.find("canary")?;
    let start = line[..canary].rfind('"')?;
    let end = canary + line[canary..].find('"')?;
    Some((&line[..start], &line[start + 1..end], &line[end + 1..]))
}

fn assert_silent(error: &Error, line: &str) {
    let mut text = format!("{error} {error:?}");
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text.push_str(&format!(" {inner} {inner:?}"));
        source = inner.source();
    }
    assert!(!text.contains("canary"), "{line}: {text}");
    assert!(text.starts_with("configuration error: "), "{text}");
}
