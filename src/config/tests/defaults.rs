//! Defaults, the mission's example, and the committed schema (ARC-100).

use std::time::Duration;

use serde_json::Value;
use toml::Table;

use super::super::{
    Config, Limits, LogFormat, LogLevel, Mls, Publishing, Push, Retention, Streams, Validation,
    Webhooks, schema,
};
use super::{assert_accepted, document, load, load_with, variables};

const EXAMPLE: &str = include_str!("../../../tests/fixtures/mission-example.toml");
const COMMITTED: &str = include_str!("../../../docs/schemas/backend-v1.json");

/// A document that has every table, so that each default has a place to be written.
const EVERY_TABLE: &str = r#"
    [server]
    identifier = "org.example.xmtp"
    [database]
    url = "postgres://db/xmtp"
    [telemetry]
    [publishing]
    [streams]
    [retention]
    [validation]
    [limits]
    [mls]
    [auth]
    enabled = true
    jwks_url = "https://issuer.example/jwks.json"
    [push]
    [push.http]
"#;

/// Goal: the committed schema is the generated one. Method: compare the texts (ARC-100).
#[test]
fn committed_schema_is_current() {
    assert!(
        COMMITTED == schema(),
        "docs/schemas/backend-v1.json is stale: run `cargo xtask schema`"
    );
}

/// Goal: the schema is one. Method: validate it against the meta-schema of draft 2020-12.
#[test]
fn schema_is_valid_json_schema() {
    let schema: Value = serde_json::from_str(&schema()).unwrap();
    assert!(jsonschema::draft202012::meta::is_valid(&schema));
    assert_eq!(
        EXAMPLE.lines().next().unwrap(),
        format!("#:schema {}", schema["$id"].as_str().unwrap())
    );
}

/// Goal: the annotated example is accepted and states the defaults. Method: loader and schema, then
/// compare with the minimal document except for the keys that the example sets (ARC-100).
#[test]
fn mission_example_is_accepted() {
    let environment = variables(&[("XMTP_DATABASE_URL", "postgres://db/xmtp")]);
    let mut example = Config::parse(EXAMPLE, &environment).unwrap();
    assert!(super::schema_accepts(EXAMPLE));
    assert_eq!(example.telemetry.resource_attributes.len(), 1);
    example.telemetry.resource_attributes.clear();
    assert!(example == load_with(&[]).unwrap());
}

/// Goal: the minimal document has the documented defaults. Method: compare with literals.
#[test]
fn defaults_are_the_documented_ones() {
    assert_accepted(&document(&[]));
    let config = load_with(&[]).unwrap();
    assert_eq!(config.server.min_libxmtp_version, None);
    assert_eq!(config.server.listen.to_string(), "0.0.0.0:5050");
    assert_eq!(config.server.log_level, LogLevel::Info);
    assert_eq!(config.server.log_format, LogFormat::Text);
    assert!(config.server.request_logger);
    assert_eq!(config.server.max_drain_duration, Duration::from_secs(10));
    assert_eq!(
        config.telemetry.metrics_listen.unwrap().to_string(),
        "0.0.0.0:9464"
    );
    assert!(config.telemetry.otlp_endpoint.is_none());
    assert!(!config.telemetry.otlp_logs);
    assert_eq!(config.telemetry.service_name, "xmtp-backend");
    assert!((config.telemetry.sample_ratio - 1.0).abs() < f64::EPSILON);
    assert!(config.telemetry.resource_attributes.is_empty());
    assert!(config.database.replica_url.is_none());
    assert_eq!(config.database.max_connections, 20);
    assert_eq!(
        config.database.max_statement_timeout,
        Duration::from_secs(5)
    );
    assert_eq!(
        config.publishing.max_publish_duration,
        Duration::from_secs(10)
    );
    assert_eq!(config.publishing.max_barrier_wait, Duration::from_secs(1));
    assert_eq!(config.streams.poll_interval, Duration::from_millis(100));
    assert_eq!(config.streams.max_gap_ranges, 10_000);
    assert_eq!(config.streams.keepalive_interval, Duration::from_secs(30));
    assert_eq!(config.streams.max_pong_wait, Duration::from_secs(90));
    assert_eq!(config.retention.group_message_seconds, 7_776_000);
    assert_eq!(config.retention.welcome_seconds, 7_776_000);
    assert_eq!(config.retention.key_package_seconds, 7_776_000);
    assert!(config.chains.is_empty());
    assert_eq!(config.validation.max_scw_cache_entries, 10_000);
    assert!(config.auth.is_none() && config.push.is_none());
    assert_eq!(config.mls.max_group_members, 250);
    assert_eq!(config.mls.max_installations_per_inbox, 10);
    assert!(config.mls.commit_log_enabled);
}

/// Goal: the public limits have the documented defaults. Method: compare with literals (ARC-102).
#[test]
fn default_limits_are_the_documented_ones() {
    let limits = load_with(&[]).unwrap().limits;
    assert_eq!(limits.max_query_topics, 1_000);
    assert_eq!(limits.default_query_limit, 100);
    assert_eq!(limits.max_query_limit, 1_000);
    assert_eq!(limits.max_newest_metadata_topics, 1_000);
    assert_eq!(limits.max_newest_full_topics, 100);
    assert_eq!(limits.max_publish_topics, 1_000);
    assert_eq!(limits.max_envelope_bytes, 1_048_576);
    assert_eq!(limits.max_request_bytes, 26_214_400);
    assert_eq!(limits.max_response_bytes, 26_214_400);
    assert_eq!(limits.max_update_adds, 100_000);
    assert_eq!(limits.max_update_removes, 100_000);
    assert_eq!(limits.max_stream_topics, 100_000);
    assert_eq!(limits.max_static_topics, 10_000);
    assert_eq!(limits.max_lookup_identifiers, 250);
    assert_eq!(limits.max_scw_signatures, 100);
    assert_eq!(limits.max_identity_entries, 256);
    assert_eq!(limits.max_http2_streams, 100);
    assert_eq!(limits.max_update_frames_per_second, 10);
    assert_eq!(limits.max_update_burst, 100);
    assert_eq!(limits.max_ping_frames_per_second, 10);
    assert_eq!(limits.max_ping_burst, 100);
    assert_eq!(limits.max_push_topics, 100_000);
}

/// Goal: `Default` of a table is what the loader uses when the table is absent. Method: compare.
#[test]
fn absent_table_is_its_default() {
    let config = load_with(&["push = {}"]).unwrap();
    assert!(config.publishing == Publishing::default());
    assert!(config.streams == Streams::default());
    assert!(config.retention == Retention::default());
    assert!(config.validation == Validation::default());
    assert!(config.limits == Limits::default());
    assert!(config.mls == Mls::default());
    assert!(config.push == Some(Push::default()));
    let webhooks = load_with(&["push.http = {}"]).unwrap().push.unwrap().http;
    assert!(webhooks == Some(Webhooks::default()));
}

/// Goal: every default in the schema is the loader's. Method: write each one into a document and
/// see that the loaded configuration stays the same.
#[test]
fn written_default_changes_nothing() {
    let schema: Value = serde_json::from_str(&schema()).unwrap();
    let mut defaults = Vec::new();
    collect_defaults(&schema, &mut Vec::new(), &mut defaults);
    assert!(
        defaults.len() > 50,
        "only {} defaults found",
        defaults.len()
    );
    let base = load(EVERY_TABLE).unwrap();
    for (path, default) in defaults {
        let mut table: Table = EVERY_TABLE.parse().unwrap();
        let (name, tables) = path.split_last().unwrap();
        let parent = tables.iter().fold(&mut table, |table, name| {
            table.get_mut(name).unwrap().as_table_mut().unwrap()
        });
        parent.insert(name.clone(), serde_json::from_value(default).unwrap());
        let text = toml::to_string(&table).unwrap();
        assert_accepted(&text);
        assert!(load(&text).unwrap() == base, "{path:?}");
    }
}

/// Collects every default of a schema with the names that lead to it.
fn collect_defaults(schema: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, Value)>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    for (name, property) in properties {
        path.push(name.clone());
        if let Some(default) = property.get("default") {
            found.push((path.clone(), default.clone()));
        }
        collect_defaults(property, path, found);
        path.pop();
    }
}
