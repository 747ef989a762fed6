//! What a deployment publishes of its configuration (API-260, ARC-102).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use envelope::fixtures::Installation;
use envelope::wire::xmtp::backend::v1::auth_configuration::SigningKey;
use envelope::wire::xmtp::backend::v1::{
    AuthConfiguration, GetConfigurationRequest, GetConfigurationResponse, LimitsConfiguration,
    MlsConfiguration, RetentionConfiguration,
};
use harness::{RawMessage, TestServer, TestServerBuilder, Transport};
use prost::Message as _;
use xmtp_backend::run;

const METHOD: &str = "ConfigurationService/GetConfiguration";

/// A secret that no answer may hold.
const CANARY: &str = "canary-0123456789-0123456789-0123456789";

/// The encoded answer, which must be the same over every protocol and every time.
async fn configuration(server: &TestServer) -> Vec<u8> {
    let request = GetConfigurationRequest {};
    let first: RawMessage = server.call(METHOD, &request).await.unwrap();
    for transport in Transport::ALL {
        for _ in 0..2 {
            let again: RawMessage = transport
                .call(server.address(), METHOD, &request)
                .await
                .unwrap();
            assert_eq!(again, first, "{transport:?}");
        }
    }
    first.0.to_vec()
}

/// A minimal deployment publishes the defaults, in exactly these bytes, every time.
#[tokio::test]
async fn a_minimal_deployment_publishes_the_defaults() {
    let expected = GetConfigurationResponse {
        identifier: "org.example.xmtp".to_owned(),
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
        min_libxmtp_version: String::new(),
        auth: Some(AuthConfiguration::default()),
        retention: Some(RetentionConfiguration {
            group_message_seconds: 7_776_000,
            welcome_seconds: 7_776_000,
            key_package_seconds: 7_776_000,
        }),
        limits: Some(LimitsConfiguration {
            max_envelope_bytes: 1_048_576,
            max_request_bytes: 26_214_400,
            max_response_bytes: 26_214_400,
            max_publish_topics: 1_000,
            max_query_topics: 1_000,
            max_query_limit: 1_000,
            default_query_limit: 100,
            max_newest_metadata_topics: 1_000,
            max_newest_full_topics: 100,
            max_update_adds: 100_000,
            max_update_removes: 100_000,
            max_stream_topics: 100_000,
            max_static_topics: 10_000,
            max_lookup_identifiers: 250,
            max_scw_signatures: 100,
            max_identity_entries: 256,
            max_update_frames_per_second: 10,
            max_update_burst: 100,
            max_ping_frames_per_second: 10,
            max_ping_burst: 100,
        }),
        mls: Some(MlsConfiguration {
            max_group_members: 250,
            max_installations_per_inbox: 10,
            commit_log_enabled: Some(true),
        }),
        smart_contract_wallet_chains: Vec::new(),
    };
    let server = TestServer::builder()
        .table("server", "identifier = \"org.example.xmtp\"")
        .start()
        .await;
    assert_eq!(configuration(&server).await, expected.encode_to_vec());
    server.stop().await;

    // A table that says that authentication is off publishes nothing of what it holds.
    let auth = format!("enabled = false\naudiences = [\"a\"]\napi_keys.k = \"{CANARY}\"");
    let server = TestServer::builder()
        .table("server", "identifier = \"org.example.xmtp\"")
        .table("auth", &auth)
        .start()
        .await;
    assert_eq!(configuration(&server).await, expected.encode_to_vec());
    server.stop().await;
}

/// The limits, each of another value than any other and than its default.
const LIMITS: &str = "
max_envelope_bytes = 2001
max_request_bytes = 9002
max_response_bytes = 9003
max_publish_topics = 2004
max_query_topics = 2005
max_query_limit = 2006
default_query_limit = 2000
max_newest_metadata_topics = 2008
max_newest_full_topics = 2009
max_update_adds = 2010
max_update_removes = 2011
max_stream_topics = 2012
max_static_topics = 2013
max_lookup_identifiers = 2014
max_scw_signatures = 2015
max_identity_entries = 2016
max_update_frames_per_second = 2017
max_update_burst = 2018
max_ping_frames_per_second = 2019
max_ping_burst = 2020
max_http2_streams = 4021
max_push_topics = 4022";

fn limits() -> LimitsConfiguration {
    LimitsConfiguration {
        max_envelope_bytes: 2_001,
        max_request_bytes: 9_002,
        max_response_bytes: 9_003,
        max_publish_topics: 2_004,
        max_query_topics: 2_005,
        max_query_limit: 2_006,
        default_query_limit: 2_000,
        max_newest_metadata_topics: 2_008,
        max_newest_full_topics: 2_009,
        max_update_adds: 2_010,
        max_update_removes: 2_011,
        max_stream_topics: 2_012,
        max_static_topics: 2_013,
        max_lookup_identifiers: 2_014,
        max_scw_signatures: 2_015,
        max_identity_entries: 2_016,
        max_update_frames_per_second: 2_017,
        max_update_burst: 2_018,
        max_ping_frames_per_second: 2_019,
        max_ping_burst: 2_020,
    }
}

/// An Ed25519 key as the base64 line of a PEM block.
fn pem_line(number: u64) -> String {
    let mut spki = hex::decode("302a300506032b6570032100").unwrap();
    spki.extend(Installation::numbered(number).public_key());
    STANDARD.encode(spki)
}

/// A deployment that differs from the defaults in every published key, and holds secrets.
fn deployment() -> TestServerBuilder {
    let pem = |number| {
        let line = pem_line(number);
        format!("\"\"\"-----BEGIN PUBLIC KEY-----\n{line}\n-----END PUBLIC KEY-----\"\"\"")
    };
    let auth = format!(
        "enabled = true
audiences = [\"audience-a\", \"audience-b\"]
issuers = [\"issuer-a\", \"issuer-b\"]
required_scopes = [\"scope-a\", \"scope-b\"]
leeway_seconds = 17
keys = [
  {{ kid = \"key-b\", alg = \"EdDSA\", public_key = {} }},
  {{ kid = \"key-a\", alg = \"EdDSA\", public_key = {} }},
]
api_keys.name-of-api-key = \"{CANARY}\"",
        pem(1),
        pem(2)
    );
    let url =
        |chain: u32| format!("\"eip155:{chain}\" = \"https://user:{CANARY}@{chain}.rpc.test/\"");
    TestServer::builder()
        .table(
            "server",
            "identifier = \"com.example.full\"\nmin_libxmtp_version = \"4.5.6-rc.1+b\"",
        )
        .table("auth", &auth)
        .table(
            "retention",
            "group_message_seconds = 61\nwelcome_seconds = 62\nkey_package_seconds = 63",
        )
        .table(
            "mls",
            "max_group_members = 71\nmax_installations_per_inbox = 72\ncommit_log_enabled = false",
        )
        .table("limits", LIMITS)
        .table("chains", &[url(10), url(8453), url(1)].join("\n"))
}

/// Every published value is the configured one: no field is forgotten or taken for another. A
/// `false` is present on the wire, chains are sorted as text, and no credential is asked for.
#[tokio::test]
async fn every_field_has_the_configured_value() {
    let key = |kid: &str| SigningKey {
        kid: kid.to_owned(),
        alg: "EdDSA".to_owned(),
    };
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let expected = GetConfigurationResponse {
        identifier: "com.example.full".to_owned(),
        server_version: run::VERSION.to_owned(),
        min_libxmtp_version: "4.5.6-rc.1+b".to_owned(),
        auth: Some(AuthConfiguration {
            enabled: true,
            keys: vec![key("key-b"), key("key-a")],
            audiences: owned(&["audience-a", "audience-b"]),
            issuers: owned(&["issuer-a", "issuer-b"]),
            required_scopes: owned(&["scope-a", "scope-b"]),
        }),
        retention: Some(RetentionConfiguration {
            group_message_seconds: 61,
            welcome_seconds: 62,
            key_package_seconds: 63,
        }),
        limits: Some(limits()),
        mls: Some(MlsConfiguration {
            max_group_members: 71,
            max_installations_per_inbox: 72,
            commit_log_enabled: Some(false),
        }),
        smart_contract_wallet_chains: owned(&["eip155:1", "eip155:10", "eip155:8453"]),
    };
    let server = deployment().start().await;
    let encoded = configuration(&server).await;
    assert_eq!(
        GetConfigurationResponse::decode(&encoded[..]).unwrap(),
        expected
    );
    assert_eq!(encoded, expected.encode_to_vec());
    // Field 7, of six bytes, whose field 3 is written although it is false.
    let mls = [0x3a, 0x06, 0x08, 71, 0x10, 72, 0x18, 0x00];
    assert!(encoded.windows(mls.len()).any(|window| window == mls));
    server.stop().await;
}

/// Nothing secret or private is in the answer: no URL, key, name of an API key, or key of a table
/// that is not published.
#[tokio::test]
async fn nothing_secret_is_published() {
    let server = deployment().start().await;
    let encoded = configuration(&server).await;
    let database = url::Url::parse(&server.database().url()).unwrap();
    let mut secrets = vec![
        CANARY.to_owned(),
        "name-of-api-key".to_owned(),
        "rpc.test".to_owned(),
        "http".to_owned(),
        "postgres".to_owned(),
        database.path()[1..].to_owned(),
        database.host_str().unwrap().to_owned(),
    ];
    secrets.extend(database.password().map(ToOwned::to_owned));
    secrets.extend([pem_line(1), pem_line(2)]);
    for secret in secrets {
        let found = encoded
            .windows(secret.len())
            .any(|window| window == secret.as_bytes());
        assert!(!found, "{secret}");
    }
    for number in [1, 2] {
        let key = Installation::numbered(number).public_key();
        assert!(!encoded.windows(32).any(|window| window == key));
    }
    server.stop().await;
}

/// A deployment with tiny answers still publishes its configuration, which has a bound of its own.
#[tokio::test]
async fn a_tiny_answer_limit_does_not_hide_the_configuration() {
    let scope = "s".repeat(2_000);
    let auth =
        format!("enabled = true\napi_keys.k = \"{CANARY}\"\nrequired_scopes = [\"{scope}\"]");
    let server = TestServer::builder()
        .table("limits", "max_response_bytes = 257\nmax_envelope_bytes = 1")
        .table("auth", &auth)
        .start()
        .await;
    let encoded = configuration(&server).await;
    assert!(encoded.len() > 2_000);
    let decoded = GetConfigurationResponse::decode(&encoded[..]).unwrap();
    assert_eq!(decoded.limits.unwrap().max_response_bytes, 257);
    server.stop().await;
}

/// The public configuration may have 65536 bytes; one more ends the start, with a message that
/// names the bound and nothing of the lists.
#[tokio::test]
async fn a_public_configuration_over_its_bound_is_refused_at_startup() {
    const BOUND: usize = 65_536;
    let with_scope = |length: usize| {
        let scope = "s".repeat(length);
        let keys = format!("api_keys.k = \"{CANARY}\"");
        let auth = format!("enabled = true\n{keys}\nrequired_scopes = [\"{scope}\"]");
        TestServer::builder().table("auth", &auth)
    };
    let server = with_scope(BOUND - 1_000).start().await;
    let bytes = configuration(&server).await.len();
    let longest = BOUND - 1_000 + (BOUND - bytes);
    server.stop().await;

    let server = with_scope(longest).start().await;
    assert_eq!(configuration(&server).await.len(), BOUND);
    server.stop().await;

    let error = with_scope(longest + 1).try_start().await.unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(error, run::Error::PublicConfiguration(_)),
        "{text}"
    );
    assert!(
        text.contains("public configuration") && text.contains("65536"),
        "{text}"
    );
    assert!(!text.contains("ssss") && !text.contains(CANARY), "{text}");
}
