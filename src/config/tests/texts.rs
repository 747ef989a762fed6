//! Forms of string values, in the loader and in the schema (ARC-100).

use super::{assert_accepted, assert_load_refused, assert_refused, document, load_with};

/// Asserts the verdict of loader and schema on TOML literals of one key.
fn judge(key: &str, legal: &[&str], illegal: &[&str]) {
    for value in legal {
        assert_accepted(&document(&[&format!("{key} = {value}")]));
    }
    for value in illegal {
        assert_refused(&document(&[&format!("{key} = {value}")]), key);
    }
}

/// Goal: the identifier's length is in bytes and it has no space of any kind. Method: table.
#[test]
fn identifier_is_one_short_word() {
    let quoted = |text: &str| format!("\"{text}\"");
    let longest = quoted(&"x".repeat(256));
    let too_long = quoted(&"x".repeat(257));
    let illegal = [
        r#""""#,
        &too_long,
        r#""a b""#,
        r#"" a""#,
        r#""a\tb""#,
        r#""a\u00A0b""#,
        r#""a\u2003b""#,
        r#""a\u0000b""#,
        r#""a\u007Fb""#,
        r#""a\u0085b""#,
        "5",
    ];
    judge(
        "server.identifier",
        &[r#""a""#, r#""org.example.xmtp""#, &longest, r#""é""#],
        &illegal,
    );
    // 128 characters of two bytes are legal, 129 are not; the schema counts characters.
    assert_accepted(&document(&[&format!(
        "server.identifier = \"{}\"",
        "é".repeat(128)
    )]));
    let over = document(&[&format!("server.identifier = \"{}\"", "é".repeat(129))]);
    assert_load_refused(&over, "server.identifier");
}

/// Goal: the version is a semantic one and is kept as written. Method: table.
#[test]
fn client_version_is_semantic() {
    let legal = [
        r#""1.2.3""#,
        r#""1.2.3-dev+b""#,
        r#""0.0.0""#,
        r#""10.20.30-rc.1""#,
    ];
    let illegal = [
        r#""1.2""#,
        r#""v1.2.3""#,
        r#""""#,
        r#""1.2.3.4""#,
        r#""01.2.3""#,
        r#""1.2.3-01""#,
    ];
    judge("server.min_libxmtp_version", &legal, &illegal);
    let config = load_with(&[r#"server.min_libxmtp_version = "1.2.3-dev+b""#]).unwrap();
    assert_eq!(
        config.server.min_libxmtp_version.unwrap().to_string(),
        "1.2.3-dev+b"
    );
}

/// Goal: a listener address is an IP address with a port. Method: table.
#[test]
fn listener_is_an_ip_address_with_a_port() {
    let legal = [
        r#""127.0.0.1:0""#,
        r#""0.0.0.0:65535""#,
        r#""[::1]:5050""#,
        r#""[2001:db8::7]:1""#,
    ];
    let illegal = [
        r#""localhost:5050""#,
        r#""127.0.0.1""#,
        r#""127.0.0.1:65536""#,
        r#""127.0.0.1:-1""#,
        r#""256.0.0.1:1""#,
        r#""127.0.0.1:""#,
        r#""::1:5050""#,
        r#""127.0.0.1:5050 ""#,
    ];
    judge("server.listen", &legal, &illegal);
    judge("telemetry.metrics_listen", &legal, &illegal);
    assert_refused(&document(&[r#"server.listen = """#]), "server.listen");
    assert_load_refused(
        &document(&[r#"server.listen = "[::g]:1""#]),
        "server.listen",
    );
    // Only the metrics listener can be switched off.
    let off = r#"telemetry.metrics_listen = """#;
    assert_accepted(&document(&[off]));
    assert_eq!(load_with(&[off]).unwrap().telemetry.metrics_listen, None);
}

/// Goal: levels and formats are lower-case words of a list. Method: table.
#[test]
fn log_keys_are_words_of_a_list() {
    let levels = [
        r#""off""#,
        r#""error""#,
        r#""warn""#,
        r#""info""#,
        r#""debug""#,
        r#""trace""#,
    ];
    judge(
        "server.log_level",
        &levels,
        &[r#""INFO""#, r#""warning""#, r#""""#, "3"],
    );
    judge(
        "server.log_format",
        &[r#""text""#, r#""json""#],
        &[r#""JSON""#, r#""""#, r#""pretty""#],
    );
}

/// Goal: database URLs have one of two schemes. Method: table.
#[test]
fn database_url_is_a_postgres_url() {
    let legal = [
        r#""postgres://db/xmtp""#,
        r#""postgresql://user:p%40ss@db:5432/xmtp?sslmode=require""#,
        r#""postgres:///xmtp?host=/run/postgresql""#,
    ];
    let illegal = [
        r#""mysql://db/xmtp""#,
        r#""db/xmtp""#,
        r#""""#,
        r#""postgres:db""#,
        r#"" postgres://db""#,
        r#""postgres://db/a b""#,
    ];
    judge("database.url", &legal, &illegal);
    judge("database.replica_url", &legal, &illegal);
    assert_load_refused(
        &document(&[r#"database.url = "postgres://db:port/x""#]),
        "database.url",
    );
}

/// Goal: endpoints are http(s) URLs with a host. Method: table over the three kinds of keys.
#[test]
fn endpoint_is_an_http_url_with_a_host() {
    let legal = [
        r#""http://tempo:4317""#,
        r#""https://user:pw@[::1]:1/p?q#f""#,
    ];
    let illegal = [
        r#""ftp://tempo""#,
        r#""tempo:4317""#,
        r#""http://""#,
        r#""http:///path""#,
        r#""http:tempo""#,
        r#""http://?q""#,
        r#""http://a b""#,
        r#""""#,
    ];
    judge("telemetry.otlp_endpoint", &legal, &illegal);
    judge(r#"chains."eip155:1""#, &legal, &illegal);
    assert_load_refused(
        &document(&[r#"chains."eip155:1" = "http://:80""#]),
        r#"chains."eip155:1""#,
    );
}

/// Goal: chains are CAIP-2 ids of one namespace. Method: table; an invalid id is not repeated in
/// the error, because it may be a URL on the wrong side.
#[test]
fn chain_is_a_canonical_eip155_id() {
    let line = |id: &str| format!(r#"chains."{id}" = "https://rpc.example""#);
    for id in ["eip155:0", "eip155:1", "eip155:18446744073709551615"] {
        assert_accepted(&document(&[&line(id)]));
    }
    let illegal = [
        "eip155:",
        "eip155:01",
        "eip155:00",
        "eip155:+1",
        "eip155:-1",
        "eip155:1 ",
        "EIP155:1",
        "1",
        "solana:1",
        "eip155:0x1",
        "eip155:184467440737095516150",
        "",
    ];
    for id in illegal {
        assert_refused(&document(&[&line(id)]), "chains");
    }
    assert_load_refused(&document(&[&line("eip155:18446744073709551616")]), "chains");
    let config = load_with(&[&line("eip155:8453")]).unwrap();
    let (id, url) = config.chains.first_key_value().unwrap();
    assert_eq!((id.0, id.to_string().as_str()), (8453, "eip155:8453"));
    assert_eq!(url.expose().as_str(), "https://rpc.example/");
}

/// Goal: the service has a name, and attributes of the server cannot be overridden. Method: table.
#[test]
fn service_attributes_stay_the_servers_own() {
    judge(
        "telemetry.service_name",
        &[r#""x""#, r#"" ""#],
        &[r#""""#, "7"],
    );
    let key = "telemetry.resource_attributes";
    judge(
        key,
        &[
            "{}",
            r#"{ "a.b" = "" }"#,
            r#"{ "service.namespace" = "x" }"#,
        ],
        &["[]", r#""a=b""#],
    );
    for reserved in ["service.name", "service.version", "xmtp.backend.identifier"] {
        let text = document(&[&format!(r#"{key} = {{ "{reserved}" = "x" }}"#)]);
        assert_refused(&text, &format!("{key}.\"{reserved}\""));
    }
    assert_refused(
        &document(&[&format!("{key} = {{ a = 1 }}")]),
        &format!("{key}.a"),
    );
}
