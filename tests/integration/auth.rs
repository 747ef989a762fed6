//! Credentials as clients send them, and refusals as clients see them (ARC-002, ARC-003, ARC-101).
//!
//! What is a good credential is tested where it is decided; here a few of each kind travel.

use std::fmt::Write as _;

use envelope::wire::xmtp::backend::v1::{QueryRequest, QueryResponse};
use harness::{
    AdvisoryLock, Answer, KeyServer, Signer, TestServer, TestServerBuilder, Transport, eventually,
};
use http::HeaderMap;
use serde_json::{Value, json};
use tonic::{Code, Status};
use xmtp_backend::config::Config;

use crate::given::message;

/// The time of the servers here, in seconds since the Unix epoch.
pub(crate) const NOW: u64 = 1_700_000_000;

/// An API key.
pub(crate) const BOT: &str = "bot-key-0123456789-abcdefghijklm";

/// An RPC that needs a credential and no data.
pub(crate) const QUERY: &str = "/xmtp.backend.v1.QueryService/Query";

/// A table with both mechanisms, and something required of every claim.
pub(crate) fn table() -> String {
    let mut lines = format!("enabled = true\napi_keys.bot = \"{BOT}\"\nkeys = [\n");
    for (signer, kid, algorithm) in KEYS {
        writeln!(lines, "{},", signer.inline(kid, algorithm)).unwrap();
    }
    lines.push_str(
        "]\naudiences = [\"xmtp\"]\nissuers = [\"https://iss.example\"]\n\
         required_scopes = [\"xmtp:access\"]",
    );
    lines
}

const KEYS: [(Signer, &str, &str); 4] = [
    (Signer::RsaA, "rs1", "RS256"),
    (Signer::P256, "es1", "ES256"),
    (Signer::P384, "es3", "ES384"),
    (Signer::Ed25519, "ed1", "EdDSA"),
];

pub(crate) fn deployment() -> TestServerBuilder {
    TestServer::builder()
        .at_unix_seconds(NOW)
        .table("auth", &table())
}

/// Claims that are accepted, with changes.
pub(crate) fn claims(changes: Value) -> Value {
    let mut claims = json!({
        "exp": NOW + 300,
        "aud": "xmtp",
        "iss": "https://iss.example",
        "scope": "xmtp:access",
    });
    let Value::Object(changes) = changes else {
        panic!("changes are members");
    };
    claims.as_object_mut().unwrap().extend(changes);
    claims
}

/// A token of the first key with these changes to its claims.
pub(crate) fn token(changes: Value) -> String {
    let header = json!({"alg": "RS256", "kid": "rs1"});
    Signer::RsaA.token(&header, &claims(changes))
}

/// Headers with this value of `authorization`, or without it.
pub(crate) fn authorization(value: Option<&str>) -> HeaderMap {
    let pair = |value: &str| ("authorization".parse().unwrap(), value.parse().unwrap());
    value.map(pair).into_iter().collect()
}

/// Queries nothing with this credential, which the server refuses for its emptiness once it has
/// admitted the caller.
pub(crate) async fn query(
    server: &TestServer,
    transport: Transport,
    value: Option<&str>,
) -> Result<QueryResponse, Status> {
    let headers = authorization(value);
    let request = QueryRequest::default();
    transport
        .call_with(server.address(), QUERY, &headers, &request)
        .await
}

/// Whether somebody was let in: whatever the answer is, it does not come from authentication.
pub(crate) fn is_admitted(answer: &Result<QueryResponse, Status>) -> bool {
    !matches!(
        answer.as_ref().map_err(Status::code),
        Err(Code::Unauthenticated | Code::PermissionDenied)
    )
}

/// Goal: every kind of credential is good over every protocol. Method: an API key and one token of
/// each algorithm, over all transports; nothing is counted as a rejection.
#[tokio::test]
async fn good_credentials_are_admitted_over_every_protocol() {
    let server = deployment().start().await;
    let token = |(signer, kid, algorithm): (Signer, &str, &str)| {
        let header = json!({"alg": algorithm, "kid": kid});
        signer.token(&header, &claims(json!({})))
    };
    let mut credentials: Vec<String> = KEYS.into_iter().map(token).collect();
    credentials.push(BOT.to_owned());
    for credential in &credentials {
        for transport in Transport::ALL {
            let value = format!("Bearer {credential}");
            let answer = query(&server, transport, Some(&value)).await;
            assert!(
                is_admitted(&answer),
                "{transport:?} {credential}: {answer:?}"
            );
        }
    }
    let exposition = server.exposition().await;
    assert!(
        !exposition.contains("xmtp_auth_rejections_total{"),
        "{exposition}"
    );
    assert_eq!(server.metric("xmtp_auth_keys").await, 4);
    server.stop().await;
}

/// A credential, the reason to refuse it, and what the caller is told.
type Refused = (Option<String>, &'static str, &'static str);

/// One credential for every reason.
fn refused() -> [Refused; 10] {
    let not_bearer = "authorization header is not a bearer token";
    let not_supported = "token is not a supported JWT";
    let not_trusted = "token signature is not trusted";
    let changed = |changes: Value| Some(format!("Bearer {}", token(changes)));
    let unsigned = |header: Value| {
        let unsigned = harness::unsigned(&header, &claims(json!({})));
        Some(format!("Bearer {unsigned}."))
    };
    let basic = Some("Basic eDp5".to_owned());
    let nonsense = Some("Bearer nonsense".to_owned());
    let none = unsigned(json!({"alg": "none"}));
    let forged = unsigned(json!({"alg": "EdDSA"}));
    let expired = changed(json!({"exp": NOW - 61}));
    let early = changed(json!({"nbf": NOW + 61}));
    let audience = changed(json!({"aud": "x"}));
    let issuer = changed(json!({"iss": "x"}));
    let scope = changed(json!({"scope": "x"}));
    [
        (None, "missing", "missing bearer token"),
        (basic, "malformed", not_bearer),
        (nonsense, "malformed", not_supported),
        (none, "unsupported_alg", not_supported),
        (forged, "untrusted", not_trusted),
        (expired, "expired", "token has expired"),
        (early, "not_yet_valid", "token is not yet valid"),
        (audience, "audience", "token audience is not allowed"),
        (issuer, "issuer", "token issuer is not allowed"),
        (scope, "scope", "token is missing a required scope"),
    ]
}

/// Goal: every refusal has its status and text over every protocol, and is counted by its reason and
/// as a request. Method: one credential for every reason, over all transports.
#[tokio::test]
async fn every_refusal_reaches_every_client() {
    let server = deployment().start().await;
    for (value, reason, text) in &refused() {
        for transport in Transport::ALL {
            let answer = query(&server, transport, value.as_deref()).await;
            let status = answer.unwrap_err();
            let code = match *reason {
                "scope" => Code::PermissionDenied,
                _ => Code::Unauthenticated,
            };
            let found = (status.code(), status.message(), status.details());
            assert_eq!(found, (code, *text, &b""[..]), "{transport:?} {reason}");
        }
    }
    let labels =
        "grpc_method=\"Query\",grpc_service=\"xmtp.backend.v1.QueryService\",grpc_type=\"unary\"";
    let handled =
        |code: &str| format!("grpc_server_handled_total{{grpc_code=\"{code}\",{labels}}}");
    eventually("all are counted", async || {
        server.metric(&handled("Unauthenticated")).await == 36
            && server.metric(&handled("PermissionDenied")).await == 4
    })
    .await;
    for (_, reason, _) in refused() {
        let series = format!("xmtp_auth_rejections_total{{reason=\"{reason}\"}}");
        let count = if reason == "malformed" { 8 } else { 4 };
        assert_eq!(server.metric(&series).await, count, "{reason}");
    }
    server.stop().await;
}

/// Goal: without a table, or with one that is off, no credential is read and no key fetched. Method:
/// garbage and nothing over all transports; a key server that must not hear anything.
#[tokio::test]
async fn without_authentication_no_credential_is_read() {
    let keys = KeyServer::start(Answer::document("{}")).await;
    let off = format!(
        "enabled = false\njwks_url = \"{}\"\nkeys = [{{}}]",
        keys.url("/keys")
    );
    for table in [None, Some(off)] {
        let mut builder = TestServer::builder().trust(vec![keys.authority()]);
        if let Some(lines) = &table {
            builder = builder.table("auth", lines);
        }
        let server = builder.start().await;
        for value in [None, Some("garbage"), Some("Bearer x")] {
            for transport in Transport::ALL {
                let answer = query(&server, transport, value).await;
                assert!(is_admitted(&answer), "{transport:?} {value:?}: {answer:?}");
            }
        }
        assert_eq!(server.metric("xmtp_auth_keys").await, 0);
        server.stop().await;
    }
    assert_eq!(keys.requests(), 0);
}

/// Goal: what the documentation shows can be configured. Method: load each of its examples, with its
/// variables set; each has authentication on.
#[test]
fn the_examples_of_the_documentation_are_accepted() {
    let text = include_str!("../../docs/authentication.md");
    let examples = text.split("```toml\n").skip(1);
    let examples: Vec<_> = examples
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        let document = format!(
            "server.identifier = \"org.example\"\ndatabase.url = \"postgres://x/y\"\n{example}"
        );
        let key = |name: &str| format!("{name}-0123456789-0123456789-0123456789").into();
        let variable = |name: &str| name.ends_with("_KEY").then(|| key(name));
        let config = Config::parse(&document, &variable).unwrap();
        assert!(config.auth.is_some_and(|auth| auth.enabled), "{example}");
    }
}

/// Goal: during shutdown a bad credential is still told so, and a good one is told of the shutdown.
/// Method: a publish that waits for a lock keeps the server in its drain.
#[tokio::test]
async fn a_draining_server_still_judges_credentials() {
    let server = deployment().start().await;
    let address = server.address();
    let locks = server.database().advisory_locks().await;
    let envelope = message(1, 1);
    let lock = AdvisoryLock::of_topic(crate::given::group_topic(1).as_bytes());
    let held = locks.hold(lock).await;
    let good = authorization(Some(&format!("Bearer {BOT}")));
    let running = tokio::spawn({
        let headers = good.clone();
        async move {
            let request = envelope::wire::xmtp::backend::v1::PublishRequest {
                envelopes: vec![envelope],
            };
            let path = "/xmtp.backend.v1.PublishService/Publish";
            Transport::Native
                .call_with::<_, envelope::wire::xmtp::backend::v1::PublishResponse>(
                    address, path, &headers, &request,
                )
                .await
        }
    });
    locks.until_waiting(lock, 1).await;
    drop(locks);

    let stopping = tokio::spawn(server.stop_keeping_database());
    let query = async |headers: &HeaderMap| -> Result<QueryResponse, Status> {
        Transport::WebHttp1
            .call_with(address, QUERY, headers, &QueryRequest::default())
            .await
    };
    eventually("a good credential is told of the shutdown", async || {
        query(&good).await.unwrap_err().code() == Code::Unavailable
    })
    .await;
    let missing = query(&authorization(None)).await.unwrap_err();
    assert_eq!(missing.code(), Code::Unauthenticated);
    assert_eq!(missing.message(), "missing bearer token");
    let configuration: Result<QueryResponse, Status> = Transport::WebHttp1
        .call_with(
            address,
            "/xmtp.backend.v1.ConfigurationService/GetConfiguration",
            &authorization(None),
            &QueryRequest::default(),
        )
        .await;
    assert_eq!(configuration.unwrap_err().code(), Code::Unavailable);
    held.release().await;
    assert_eq!(running.await.unwrap().unwrap().envelope_metas.len(), 1);
    stopping.await.unwrap().drop().await;
}
