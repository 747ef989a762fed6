//! The `[push]` table, and features that are configured but not built (ARC-100).

use super::super::Error;
use super::{assert_accepted, assert_refused, document, load_with};

const APNS: [&str; 5] = [
    r#"push.apns.key = "pem""#,
    r#"push.apns.key_id = "a""#,
    r#"push.apns.team_id = "b""#,
    r#"push.apns.bundle_id = "c""#,
    r#"push.apns.environment = "production""#,
];

/// Goal: a channel needs all of its keys. Method: leave out each one, and empty each one.
#[test]
fn channel_needs_all_of_its_keys() {
    assert_accepted(&document(&APNS));
    for (index, line) in APNS.iter().enumerate() {
        let key = line.split(" = ").next().unwrap();
        let mut lines = APNS.to_vec();
        lines.remove(index);
        assert_refused(&document(&lines), key);
        let empty = format!("{key} = \"\"");
        lines.push(&empty);
        assert_refused(&document(&lines), key);
    }
    let capital = r#"push.apns.environment = "Production""#;
    assert_refused(
        &document(&[&APNS[..4], &[capital]].concat()),
        "push.apns.environment",
    );
    assert_refused(&document(&["push.fcm = {}"]), "push.fcm.service_account");
    assert_accepted(&document(&["push.http = {}"]));
    assert_accepted(&document(&["push = {}"]));
}

/// Goal: a webhook domain is a host name, perhaps below a star. Method: table.
#[test]
fn webhook_domain_is_a_host_name() {
    let line = |domain: &str| format!("push.http.allowed_domains = [\"{domain}\"]");
    for legal in [
        "example.org",
        "*.example.org",
        "localhost",
        "example.org.",
        "EXAMPLE.org",
    ] {
        assert_accepted(&document(&[&line(legal)]));
    }
    for illegal in [
        "a.*.b",
        "*",
        "*.",
        "https://x",
        "x:443",
        "x/y",
        "a..b",
        "",
        ".a",
        "a b",
        "*a.b",
        "*.*.a",
        "user@x",
        "x?y",
        "x#y",
        "[::1]",
    ] {
        assert_refused(&document(&[&line(illegal)]), "push.http.allowed_domains[0]");
    }
    assert_accepted(&document(&["push.http.allowed_domains = []"]));
}

/// Goal: startup refuses what this build does not do, by name, and nothing else. Method: one line
/// per feature, and a document with everything that is built.
#[test]
fn unbuilt_feature_is_refused_by_name() {
    load_with(&[
        "auth.enabled = true",
        r#"auth.jwks_url = "https://issuer.example""#,
        "limits.max_push_topics = 5",
    ])
    .unwrap()
    .unsupported()
    .unwrap();
    let cases: [(&[&str], &str); 3] = [
        (
            &["push = {}"],
            "push: this build does not deliver push notifications",
        ),
        (
            &[r#"telemetry.otlp_endpoint = "http://tempo:4317""#],
            "telemetry.otlp_endpoint: this build does not export traces (the variable OTEL_EXPORTER_OTLP_ENDPOINT counts too)",
        ),
        (
            &["telemetry.otlp_logs = true"],
            "telemetry.otlp_logs: this build does not export logs",
        ),
    ];
    for (lines, text) in cases {
        let error: Error = load_with(lines).unwrap().unsupported().unwrap_err();
        assert_eq!(error.to_string(), format!("configuration error: {text}"));
        assert_eq!(error.exit_status(), 1);
    }
}
