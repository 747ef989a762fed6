//! `env:NAME` strings and the one implicit variable (ARC-097, ARC-101).

use std::ffi::OsString;

use super::super::{Config, Error, VariableProblem};
use super::{document, load, load_with, schema_accepts, variables};

/// Every place of a document that holds a string, with a legal value that is not its default, and
/// the lines its table needs beside it.
const PLACES: &[(&str, &str, &[&str])] = &[
    ("server.identifier = @", "org.example.other", &[]),
    ("server.min_libxmtp_version = @", "1.2.3", &[]),
    ("server.listen = @", "127.0.0.1:1", &[]),
    ("server.log_level = @", "trace", &[]),
    ("server.log_format = @", "json", &[]),
    ("telemetry.metrics_listen = @", "", &[]),
    ("telemetry.otlp_endpoint = @", "http://tempo:4317", &[]),
    ("telemetry.service_name = @", "other", &[]),
    ("telemetry.resource_attributes = { a = @ }", "b", &[]),
    ("database.url = @", "postgres://other/xmtp", &[]),
    ("database.replica_url = @", "postgres://replica/xmtp", &[]),
    (r#"chains."eip155:1" = @"#, "https://rpc.example", &[]),
    ("auth.jwks_url = @", "https://issuer.example", ENABLED),
    (
        "auth.api_keys.phone = @",
        "0123456789abcdef0123456789abcdef",
        ENABLED,
    ),
    ("auth.audiences = [\"a\", @]", "b", JWKS),
    ("auth.issuers = [@]", "i", JWKS),
    ("auth.required_scopes = [@]", "s", JWKS),
    (
        r#"auth.keys = [{ kid = @, alg = "ES256", public_key = "p" }]"#,
        "k",
        ENABLED,
    ),
    (
        r#"auth.keys = [{ kid = "k", alg = @, public_key = "p" }]"#,
        "ES256",
        ENABLED,
    ),
    (
        r#"auth.keys = [{ kid = "k", alg = "ES256", public_key = @ }]"#,
        "p",
        ENABLED,
    ),
    ("push.fcm.service_account = @", "{}", &[]),
    ("push.http.allowed_domains = [@]", "*.example.org", &[]),
    ("push.apns.key = @", "pem", APNS),
];
const ENABLED: &[&str] = &["auth.enabled = true"];
const JWKS: &[&str] = &[
    "auth.enabled = true",
    r#"auth.jwks_url = "https://issuer.example""#,
];
const APNS: &[&str] = &[
    r#"push.apns.key_id = "a""#,
    r#"push.apns.team_id = "b""#,
    r#"push.apns.bundle_id = "c""#,
    r#"push.apns.environment = "sandbox""#,
];

/// The document of one place with a string in it.
fn place(pattern: &str, string: &str, beside: &[&str]) -> String {
    let line = pattern.replace('@', &format!("\"{string}\""));
    document(&[&[line.as_str()], beside].concat())
}

/// Goal: a variable can stand at every string. Method: the document with the variable loads to the
/// same configuration as the one with the value, and not to the default (ARC-101).
#[test]
fn variable_stands_for_any_string() {
    for (pattern, value, beside) in PLACES {
        let text = place(pattern, "env:PLACE", beside);
        assert!(schema_accepts(&text), "{text}");
        let environment = |name: &str| (name == "PLACE").then(|| OsString::from(value));
        let resolved = Config::parse(&text, &environment).unwrap();
        let written = load(&place(pattern, &value.replace('"', "\\\""), beside)).unwrap();
        assert!(resolved == written, "{pattern}");
        assert!(
            load(&document(beside)).map_or(true, |default| default != resolved),
            "{pattern}"
        );
    }
}

/// Goal: an unset variable fails by its name and its key, everywhere. Method: all places, and a
/// table that is switched off (ARC-101).
#[test]
fn unset_variable_is_named_with_its_key() {
    for (pattern, _, beside) in PLACES {
        let error = load(&place(pattern, "env:PLACE", beside)).unwrap_err();
        let Error::Variable {
            key,
            variable,
            problem,
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(
            (variable.as_str(), *problem),
            ("PLACE", VariableProblem::Missing)
        );
        let table = pattern.split(['.', ' ']).next().unwrap();
        assert!(key.starts_with(table), "{key} is not in {table}");
        assert!(error.to_string().contains("PLACE is not set"), "{error}");
    }
    let off = [
        "auth.enabled = false",
        r#"auth.keys = [{ public_key = "env:PLACE" }]"#,
    ];
    let error = load_with(&off).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("configuration error: auth.keys[0].public_key: ")
    );
}

/// Goal: variables are resolved before anything is judged. Method: an unset variable wins over an
/// unknown key, a wrong type and a value out of range.
#[test]
fn variables_are_resolved_before_values_are_judged() {
    let lines = [
        "surprise = 1",
        "limits.max_query_topics = 0",
        r#"mls.max_group_members = "env:X""#,
    ];
    assert!(matches!(load_with(&lines), Err(Error::Variable { .. })));
}

/// Goal: a number or a switch cannot come from a variable. Method: it stays a string.
#[test]
fn number_cannot_come_from_a_variable() {
    for line in [
        r#"limits.max_query_topics = "env:N""#,
        r#"server.request_logger = "env:N""#,
    ] {
        for value in ["5", "true"] {
            let environment = |_: &str| Some(OsString::from(value));
            let error = Config::parse(&document(&[line]), &environment).unwrap_err();
            assert!(matches!(error, Error::WrongType { .. }), "{error}");
            assert!(!schema_accepts(&document(&[line])));
        }
    }
}

/// Goal: the name after `env:` must be one. Method: empty, with `=`, with NUL; loader and schema.
#[test]
fn variable_needs_a_name() {
    for string in ["env:", "env:A=B", "env:=", r"env:A\u0000B"] {
        for (pattern, _, beside) in PLACES {
            let text = place(pattern, string, beside);
            let environment = |_: &str| Some(OsString::from("x"));
            let error = Config::parse(&text, &environment).unwrap_err();
            assert!(
                matches!(error, Error::Invalid { .. }),
                "{string} {pattern}: {error}"
            );
            assert!(!schema_accepts(&text), "{text}");
        }
    }
}

/// Goal: one pass, no keys, prefix only. Method: a value that looks like a variable, an entry name
/// that looks like one, and `env:` inside a string.
#[test]
fn resolution_is_one_pass_over_values() {
    let environment = variables(&[("A", "env:B"), ("B", "never")]);
    let text = document(&[
        r#"telemetry.service_name = "env:A""#,
        r#"telemetry.resource_attributes = { "env:B" = "x env:B" }"#,
    ]);
    let telemetry = Config::parse(&text, &environment).unwrap().telemetry;
    assert_eq!(telemetry.service_name, "env:B");
    assert_eq!(telemetry.resource_attributes["env:B"].expose(), "x env:B");
}

/// Goal: an empty variable is the empty string. Method: legal for one key, illegal for another.
#[test]
fn empty_variable_is_the_empty_string() {
    let environment = variables(&[("EMPTY", "")]);
    let parse = |line| Config::parse(&document(&[line]), &environment);
    assert_eq!(
        parse(r#"telemetry.metrics_listen = "env:EMPTY""#)
            .unwrap()
            .telemetry
            .metrics_listen,
        None
    );
    let error = parse(r#"server.identifier = "env:EMPTY""#).unwrap_err();
    assert!(matches!(error, Error::Invalid { ref key, .. } if key == "server.identifier"));
}

/// Goal: a variable that is not Unicode is an error. Method: a key, the document's own variable and
/// the endpoint's.
#[cfg(unix)]
#[test]
fn variable_must_be_unicode() {
    use std::os::unix::ffi::OsStringExt;
    let environment = |_: &str| Some(OsString::from_vec(vec![b'c', 0xFF]));
    let endpoint = Config::parse(&document(&[]), &environment).unwrap_err();
    let key = Config::parse(
        &document(&[r#"server.identifier = "env:ID""#]),
        &environment,
    );
    let args = super::super::Args::from_command_line(["x"]).unwrap();
    let whole = super::super::load(&args, &environment, &super::super::read_file);
    for (error, name) in [
        (endpoint, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        (key.unwrap_err(), "ID"),
        (whole.unwrap_err(), "XMTP_CONFIG"),
    ] {
        let Error::Variable {
            variable, problem, ..
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!(
            (variable.as_str(), problem),
            (name, VariableProblem::NotUnicode)
        );
    }
}

/// Goal: the endpoint falls back to its variable, and only then. Method: key and variable in all
/// combinations, an empty and a malformed variable (ARC-097).
#[test]
fn endpoint_falls_back_to_its_variable() {
    let endpoint = |lines: &[&str], value: Option<&str>| {
        let environment = |name: &str| {
            let value = value.filter(|_| name == "OTEL_EXPORTER_OTLP_ENDPOINT");
            value.map(OsString::from)
        };
        let config = Config::parse(&document(lines), &environment)?;
        Ok::<_, Error>(
            config
                .telemetry
                .otlp_endpoint
                .map(|url| url.expose().to_string()),
        )
    };
    let key = [r#"telemetry.otlp_endpoint = "http://key:1""#];
    assert_eq!(endpoint(&[], None).unwrap(), None);
    assert_eq!(endpoint(&[], Some("")).unwrap(), None);
    assert_eq!(
        endpoint(&[], Some("http://variable:1")).unwrap().unwrap(),
        "http://variable:1/"
    );
    assert_eq!(
        endpoint(&key, Some("http://variable:1")).unwrap().unwrap(),
        "http://key:1/"
    );
    assert_eq!(
        endpoint(&key, Some("canary")).unwrap().unwrap(),
        "http://key:1/"
    );
    let error = endpoint(&[], Some("canary")).unwrap_err().to_string();
    assert!(
        error.starts_with("configuration error: OTEL_EXPORTER_OTLP_ENDPOINT: "),
        "{error}"
    );
    assert!(!error.contains("canary"), "{error}");
}
