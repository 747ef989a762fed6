//! The `[auth]` table: switched on, off and absent (ARC-100).

use super::{assert_accepted, assert_load_refused, assert_refused, document, load_with};

const KEY: &str = "0123456789abcdef0123456789abcdef";

/// The minimal document with an enabled table and lines in it.
fn enabled(lines: &[&str]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| format!("auth.{line}")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    document(&[&["auth.enabled = true"], &lines[..]].concat())
}

/// A document with one API key beside the lines.
fn keyed(lines: &[&str]) -> String {
    let key = format!("api_keys.phone = \"{KEY}\"");
    enabled(&[&[key.as_str()], lines].concat())
}

/// Goal: a table that is off is not judged. Method: nonsense of the right types loads, nonsense of
/// the wrong type does not.
#[test]
fn disabled_table_is_typed_and_not_judged() {
    let nonsense = [
        r#"auth.api_keys = { "-" = "short" }"#,
        r#"auth.jwks_url = "nowhere""#,
        r#"auth.keys = [{ kid = "" }, {}]"#,
        "auth.audiences = []",
        r#"auth.issuers = [""]"#,
        r#"auth.required_scopes = ["a b"]"#,
        "auth.leeway_seconds = -1",
        "auth.jwks_refresh_seconds = 0",
        "auth.jwks_max_stale_seconds = 0",
    ];
    let lines = [&["auth.enabled = false"], &nonsense[..]].concat();
    assert!(load_with(&lines).unwrap().auth.is_none());
    for (line, key) in [
        ("auth.leeway_seconds = \"1\"", "auth.leeway_seconds"),
        ("auth.audiences = [1]", "auth.audiences[0]"),
        ("auth.keys = [{ kid = 1 }]", "auth.keys[0].kid"),
        ("auth.api_keys = { a = { b = 1 } }", "auth.api_keys.a"),
    ] {
        assert_refused(&document(&["auth.enabled = false", line]), key);
    }
}

/// Goal: an enabled table has one or two mechanisms and one source of signing keys. Method: table.
#[test]
fn enabled_table_needs_a_mechanism() {
    let jwks = r#"jwks_url = "https://issuer.example/keys""#;
    let inline = r#"keys = [{ kid = "a", alg = "EdDSA", public_key = "p" }]"#;
    assert_load_refused(&enabled(&[]), "auth");
    assert_load_refused(&enabled(&["keys = []", "api_keys = {}"]), "auth");
    for lines in [&[jwks][..], &[inline], &[jwks, "keys = []"]] {
        assert_accepted(&enabled(lines));
        assert_accepted(&keyed(lines));
    }
    assert_load_refused(&enabled(&[jwks, inline]), "auth.jwks_url");
    let auth = super::load(&keyed(&[])).unwrap().auth.unwrap();
    assert!(auth.enabled);
    assert_eq!(auth.api_keys["phone"].expose(), KEY);
}

/// Goal: API keys and their names are bounded, and no two are equal. Method: at and beyond each
/// bound.
#[test]
fn api_key_is_bounded_and_unique() {
    let named = |name: &str, value: &str| enabled(&[&format!("api_keys.\"{name}\" = \"{value}\"")]);
    for value in ["x".repeat(32), "~".repeat(8192)] {
        assert_accepted(&named("phone", &value));
    }
    let spaced = format!("{KEY} {KEY}");
    let delete = format!("{KEY}\\u007F");
    let accent = format!("{KEY}é");
    for value in [
        &"x".repeat(31),
        &"x".repeat(8193),
        &spaced,
        &delete,
        &accent,
    ] {
        assert_refused(&named("phone", value), "auth.api_keys.phone");
    }
    for name in ["a", "A.b_c-9", &"n".repeat(64)] {
        assert_accepted(&named(name, KEY));
    }
    for name in ["", "-x", ".x", "a/b", "a b", "é", &"n".repeat(65)] {
        assert_refused(&named(name, KEY), "auth.api_keys");
    }
    let many = |count: usize| {
        let keys: Vec<String> = (0..count)
            .map(|index| format!("api_keys.k{index} = \"{KEY}{index}\""))
            .collect();
        enabled(&keys.iter().map(String::as_str).collect::<Vec<_>>())
    };
    assert_accepted(&many(256));
    assert_refused(&many(257), "auth.api_keys");
    assert_load_refused(
        &keyed(&[&format!("api_keys.tablet = \"{KEY}\"")]),
        "auth.api_keys.tablet",
    );
}

/// Goal: lists that are given say something. Method: empty lists and entries.
#[test]
fn given_list_is_not_empty() {
    for key in ["audiences", "issuers"] {
        assert_accepted(&keyed(&[&format!("{key} = [\"a\"]")]));
        assert_refused(&keyed(&[&format!("{key} = []")]), &format!("auth.{key}"));
        assert_refused(
            &keyed(&[&format!("{key} = [\"a\", \"\"]")]),
            &format!("auth.{key}[1]"),
        );
    }
    for legal in ["[]", r#"["read"]"#] {
        assert_accepted(&keyed(&[&format!("required_scopes = {legal}")]));
    }
    for illegal in [r#"[""]"#, r#"["a b"]"#, r#"["a\tb"]"#] {
        assert_refused(
            &keyed(&[&format!("required_scopes = {illegal}")]),
            "auth.required_scopes[0]",
        );
    }
}

/// Goal: the key set becomes stale only after a refresh had time to fail and be repeated. Method:
/// the formula at its bound, with rounding, and where it overflows.
#[test]
fn stale_window_holds_a_refresh() {
    let window = |refresh: u64, stale: u64| {
        keyed(&[
            &format!("jwks_refresh_seconds = {refresh}"),
            &format!("jwks_max_stale_seconds = {stale}"),
        ])
    };
    for (refresh, least) in [(300, 340), (1, 12), (11, 23), (3_000, 3_310)] {
        assert_accepted(&window(refresh, least));
        assert_load_refused(&window(refresh, least - 1), "auth.jwks_max_stale_seconds");
    }
}

/// Goal: the key set comes over https, or from this machine. Method: table.
#[test]
fn key_set_url_is_protected_or_local() {
    let at = |url: &str| enabled(&[&format!("jwks_url = \"{url}\"")]);
    for url in [
        "https://issuer.example/keys?v=1",
        "http://localhost:8080/keys",
        "http://LOCALHOST/keys",
        "http://127.9.9.9/keys",
        "http://[::1]:1/keys",
    ] {
        assert_accepted(&at(url));
    }
    for url in [
        "http://issuer.example/",
        "http://127.0.0.1.example/",
        "http://localhost./",
        "http://[::ffff:127.0.0.1]/",
        "https://user@issuer.example/",
    ] {
        assert_load_refused(&at(url), "auth.jwks_url");
    }
    for url in [
        "ftp://issuer.example/",
        "https://",
        "https://issuer.example/#f",
        "",
    ] {
        assert_refused(&at(url), "auth.jwks_url");
    }
}

/// Goal: inline keys are complete and have distinct ids. Method: table.
#[test]
fn inline_key_is_complete_and_distinct() {
    let keys = |entries: &[(&str, &str, &str)]| {
        let entries: Vec<String> = entries
            .iter()
            .map(|(kid, alg, key)| {
                format!("{{ kid = \"{kid}\", alg = \"{alg}\", public_key = \"{key}\" }}")
            })
            .collect();
        enabled(&[&format!("keys = [{}]", entries.join(", "))])
    };
    for alg in ["RS256", "RS384", "RS512", "ES256", "ES384", "EdDSA"] {
        assert_accepted(&keys(&[("k", alg, "p")]));
    }
    for alg in ["HS256", "none", "es256", ""] {
        assert_refused(&keys(&[("k", alg, "p")]), "auth.keys[0].alg");
    }
    assert_accepted(&keys(&[
        (&"k".repeat(256), "ES256", "p"),
        ("l", "ES256", "p"),
    ]));
    assert_refused(
        &keys(&[(&"k".repeat(257), "ES256", "p")]),
        "auth.keys[0].kid",
    );
    assert_refused(&keys(&[("", "ES256", "p")]), "auth.keys[0].kid");
    assert_refused(&keys(&[("k", "ES256", "")]), "auth.keys[0].public_key");
    assert_load_refused(
        &keys(&[("k", "ES256", "p"), ("k", "ES384", "q")]),
        "auth.keys[1].kid",
    );
    for (entry, key) in [
        (r#"alg = "ES256", public_key = "p""#, "kid"),
        (r#"kid = "k", public_key = "p""#, "alg"),
        (r#"kid = "k", alg = "ES256""#, "public_key"),
    ] {
        let text = enabled(&[&format!("keys = [{{ {entry} }}]")]);
        assert_refused(&text, &format!("auth.keys[0].{key}"));
    }
}
