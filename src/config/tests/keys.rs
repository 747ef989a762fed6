//! Unknown, missing and mistyped keys, and documents that are no TOML (ARC-100).

use super::super::Error;
use super::{assert_refused, document, load};

/// Goal: an unknown key fails by its dotted name at every level. Method: one per table, with and
/// without a table that is switched off.
#[test]
fn unknown_key_fails_by_its_dotted_name() {
    let unknown = [
        "surprise",
        "attachments",
        "server.surprise",
        "telemetry.surprise",
        "database.surprise",
        "publishing.surprise",
        "streams.surprise",
        "retention.surprise",
        "validation.surprise",
        "limits.surprise",
        "mls.surprise",
        "push.surprise",
        "push.apns.surprise",
        "push.fcm.surprise",
        "push.http.surprise",
        "auth.surprise",
        "server.identifier_",
        "retention.identity_update_seconds",
    ];
    for key in unknown {
        for value in ["1", "\"x\"", "{}", "[]"] {
            let line = format!("{key} = {value}");
            assert_refused(&document(&["auth.enabled = false", &line]), key);
        }
    }
    let key = "auth.keys[0].surprise";
    assert_refused(
        &document(&["auth = { enabled = false, keys = [{ surprise = 1 }] }"]),
        key,
    );
    let key = r#"server."a b""#;
    assert_refused(&document(&[&format!("{key} = 1")]), key);
}

/// Goal: required keys are named when absent, whether or not their table is there. Method: table.
#[test]
fn required_key_is_named_when_absent() {
    let url = "[database]\nurl = \"postgres://db/xmtp\"\n";
    let identifier = "[server]\nidentifier = \"org.example.xmtp\"\n";
    let cases = [
        (String::new(), "server.identifier"),
        (url.to_owned(), "server.identifier"),
        (format!("{url}[server]\n"), "server.identifier"),
        (identifier.to_owned(), "database.url"),
        (format!("{identifier}[database]\n"), "database.url"),
        (format!("{identifier}{url}[auth]\n"), "auth.enabled"),
    ];
    for (text, key) in cases {
        assert_refused(&text, key);
        assert!(matches!(load(&text), Err(Error::Missing { key: named }) if named == key));
    }
}

/// Goal: a table is a table, and a value is none. Method: the wrong kind at each place.
#[test]
fn table_and_value_are_not_interchangeable() {
    let tables = [
        "server",
        "telemetry",
        "database",
        "publishing",
        "streams",
        "retention",
        "chains",
        "validation",
        "limits",
        "mls",
        "auth",
        "push",
    ];
    for table in tables {
        let text = format!("{table} = 1\n");
        assert_refused(&text, table);
        assert_refused(&format!("[[{table}]]\n"), table);
    }
    assert_refused(&document(&["server.listen = {}"]), "server.listen");
    assert_refused(
        &document(&["telemetry.service_name = [\"x\"]"]),
        "telemetry.service_name",
    );
}

/// Goal: a syntax error gives the place and nothing of the document. Method: errors at known
/// places, one of them behind characters of several bytes.
#[test]
fn syntax_error_gives_line_and_column_only() {
    let cases = [
        ("a = canary\n", 1, 5),
        ("[server]\nidentifier = \"canary\n", 2, 21),
        ("a = 1\né = 1\n", 2, 1),
        ("a = \"éé\" canary\n", 1, 10),
        ("a = 1\na = \"canary\"\n", 2, 1),
    ];
    for (text, line, column) in cases {
        let error = load(text).unwrap_err();
        assert!(
            !format!("{error} {error:?}").contains("canary"),
            "{error:?}"
        );
        let place = format!("line {line}, column {column}");
        assert!(
            error.to_string().ends_with(&place),
            "{text:?}: {error}, not {place}"
        );
    }
}

/// Goal: nesting cannot exhaust the stack, so walking a parsed document needs no bound of its own.
/// Method: deep arrays, dotted keys and table headers are no TOML to the parser.
#[test]
fn deep_nesting_is_refused_by_the_parser() {
    let depth = 100_000;
    for text in [
        format!("a = {}{}", "[".repeat(depth), "]".repeat(depth)),
        format!("a{} = 1", ".a".repeat(depth)),
        format!("[a{}]", ".a".repeat(depth)),
    ] {
        assert!(matches!(load(&text), Err(Error::Syntax { .. })));
    }
}
