//! Tests of the room: each file one part of the contract, all of them over the public functions.
//!
//! A document under test is the minimal one plus lines; what the loader refuses about one key, the
//! published schema must refuse too, so most tables run against both.

mod auth;
mod defaults;
mod keys;
mod push;
mod ranges;
mod redaction;
mod relations;
mod sources;
mod texts;
mod variables;

use std::ffi::OsString;
use std::sync::LazyLock;

use jsonschema::Validator;
use toml::Table;

use super::{Config, Error, schema};

/// The smallest legal document, one dotted line per required key.
const REQUIRED: [&str; 2] = [
    r#"server.identifier = "org.example.xmtp""#,
    r#"database.url = "postgres://db/xmtp""#,
];

/// The published schema as a validator.
static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
    let schema = serde_json::from_str(&schema()).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
});

/// The minimal document plus lines; a line for a required key takes its place.
fn document(lines: &[&str]) -> String {
    let name = |line: &str| line.split(" = ").next().unwrap().to_owned();
    let replaced = |required: &&&str| !lines.iter().any(|line| name(line) == name(required));
    let required = REQUIRED.iter().filter(replaced);
    required
        .chain(lines)
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Loads a document without any variable set.
fn load(text: &str) -> Result<Config, Error> {
    Config::parse(text, &|_| None)
}

/// Loads the minimal document plus lines.
fn load_with(lines: &[&str]) -> Result<Config, Error> {
    load(&document(lines))
}

/// Whether the published schema accepts a document.
fn schema_accepts(text: &str) -> bool {
    let table: Table = text.parse().unwrap();
    SCHEMA.is_valid(&serde_json::to_value(table).unwrap())
}

/// An environment of fixed variables.
fn variables(set: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<OsString> {
    |name| {
        set.iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| OsString::from(value))
    }
}

/// Asserts that loader and schema accept a document.
fn assert_accepted(text: &str) {
    if let Err(error) = load(text) {
        panic!("{error}\n{text}");
    }
    assert!(schema_accepts(text), "the schema refuses:\n{text}");
}

/// Asserts that loader and schema refuse a document, the loader with a text that starts with the
/// key.
fn assert_refused(text: &str, key: &str) {
    assert_load_refused(text, key);
    assert!(!schema_accepts(text), "the schema accepts:\n{text}");
}

/// Asserts that the loader refuses a document with a text that starts with the key, for rules that
/// a schema cannot state.
fn assert_load_refused(text: &str, key: &str) {
    let Err(error) = load(text) else {
        panic!("accepted:\n{text}")
    };
    let error = error.to_string();
    let prefix = format!("configuration error: {key}: ");
    assert!(
        error.starts_with(&prefix),
        "{error:?} does not name {key}:\n{text}"
    );
}
