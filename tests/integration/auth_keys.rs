//! Key sets of a URL, from a real HTTPS server: loading, refreshing, and growing too old (ARC-003,
//! ARC-005, ARC-101).
//!
//! The exact schedule is tested on a clock that stands still; here the shortest legal one runs.

use std::net::TcpStream;

use client::health::HealthCheckRequest;
use client::health::health_check_response::ServingStatus;
use client::health::health_client::HealthClient;
use envelope::wire::xmtp::backend::v1::{GetConfigurationRequest, GetConfigurationResponse};
use harness::{
    AdvisoryLock, Answer, KeyServer, Signer, TestDatabase, TestServer, TestServerBuilder,
    Transport, channel, eventually,
};
use serde_json::{Value, json};
use tonic::Code;
use xmtp_backend::auth;
use xmtp_backend::db::GlobalLock;
use xmtp_backend::run::Error;

use crate::auth::{NOW, is_admitted, query};
use crate::process::{Process, document, free_address};

/// What a key server answers when it is broken.
fn broken() -> Answer {
    Answer::Now(500, "out of order".into())
}

/// A document with these keys.
fn keys(items: &[Value]) -> Answer {
    Answer::document(json!({"keys": items}).to_string())
}

/// A table that takes its keys from a server, with these lines.
fn table(keys: &KeyServer, lines: &str) -> String {
    let url = keys.url("/keys.json");
    format!("enabled = true\njwks_url = \"{url}\"\n{lines}")
}

fn deployment(keys: &KeyServer, lines: &str) -> TestServerBuilder {
    TestServer::builder()
        .at_unix_seconds(NOW)
        .trust(vec![keys.authority()])
        .table("auth", &table(keys, lines))
}

/// The shortest schedule that may be configured.
const SHORTEST: &str = "jwks_refresh_seconds = 1\njwks_max_stale_seconds = 12";

/// Whether a token of this key is accepted.
async fn accepts(server: &TestServer, signer: Signer, kid: &str) -> bool {
    let header = json!({"alg": "RS256", "kid": kid});
    let token = signer.token(&header, &json!({"exp": NOW}));
    let answer = query(server, Transport::Native, Some(&format!("Bearer {token}"))).await;
    let admitted = is_admitted(&answer);
    assert!(admitted || answer.unwrap_err().message() == "token signature is not trusted");
    admitted
}

/// The keys of the public configuration.
async fn published(server: &TestServer) -> Vec<(String, String)> {
    let answer: GetConfigurationResponse = server
        .call(
            "ConfigurationService/GetConfiguration",
            &GetConfigurationRequest {},
        )
        .await
        .unwrap();
    let keys = answer.auth.unwrap().keys.into_iter();
    keys.map(|key| (key.kid, key.alg)).collect()
}

async fn refreshes(server: &TestServer, result: &str) -> u64 {
    let series = format!("xmtp_auth_jwks_refresh_total{{result=\"{result}\"}}");
    server.metric(&series).await
}

/// Goal: a refresh replaces the set whole, a failed one keeps it, and neither changes what was
/// published. Method: a server whose document goes from key A to key B and then breaks.
#[tokio::test]
async fn a_refresh_replaces_the_keys_only_when_it_succeeds() {
    let a = Signer::RsaA.jwk("a", "RS256");
    let b = Signer::RsaB.jwk("b", "RS256");
    let other = Signer::P256.jwk("p", "ES256");
    let source = KeyServer::start(keys(&[a, other])).await;
    let server = deployment(&source, SHORTEST).start().await;
    assert_eq!(server.metric("xmtp_auth_keys").await, 2);
    assert!(accepts(&server, Signer::RsaA, "a").await);
    assert!(!accepts(&server, Signer::RsaB, "b").await);
    let summary = [("a", "RS256"), ("p", "ES256")].map(|(k, a)| (k.to_owned(), a.to_owned()));
    assert_eq!(published(&server).await, summary);

    source.answer(keys(&[b]));
    eventually("b is known", async || {
        accepts(&server, Signer::RsaB, "b").await
    })
    .await;
    assert!(!accepts(&server, Signer::RsaA, "a").await);
    assert_eq!(server.metric("xmtp_auth_keys").await, 1);
    assert!(refreshes(&server, "ok").await >= 1);
    assert_eq!(refreshes(&server, "error").await, 0);

    for (failures, answer) in [
        (1, keys(&[])),
        (2, broken()),
        (3, Answer::document("<html>")),
    ] {
        source.answer(answer);
        eventually("the refresh fails", async || {
            refreshes(&server, "error").await >= failures
        })
        .await;
        assert!(accepts(&server, Signer::RsaB, "b").await);
    }
    assert_eq!(published(&server).await, summary);
    server.stop().await;
}

/// Goal: no request makes the server ask for keys, and what is asked says nothing of callers. Method:
/// tokens with unknown keys; the headers of the one request that loaded the set.
#[tokio::test]
async fn an_unknown_key_is_not_asked_for() {
    let source = KeyServer::start(keys(&[Signer::RsaA.jwk("a", "RS256")])).await;
    let server = deployment(&source, "").start().await;
    for kid in ["nope", "b", ""] {
        assert!(!accepts(&server, Signer::RsaB, kid).await);
    }
    let heads = source.heads();
    let [head] = &heads[..] else {
        panic!("{heads:?}");
    };
    let mut names: Vec<_> = head.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "host"]);
    assert_eq!(head["accept"], "application/json");
    server.stop().await;
}

/// Goal: the third try of the start is as good as the first. Method: a server that breaks twice.
#[tokio::test]
async fn the_third_try_starts_the_server() {
    let source = KeyServer::start(broken()).await;
    let mend = async {
        eventually("two tries failed", async || source.requests() == 2).await;
        source.answer(keys(&[Signer::RsaA.jwk("a", "RS256")]));
    };
    let (started, ()) = tokio::join!(deployment(&source, "").try_start(), mend);
    let server = started.unwrap();
    assert_eq!(source.requests(), 3);
    // Only background refreshes are counted.
    assert_eq!(refreshes(&server, "error").await, 0);
    server.stop().await;
}

/// Goal: a set that cannot be had ends the start after three tries, whatever is wrong and although
/// there are API keys. Method: table of answers with the cause; the longest document is still good.
#[tokio::test]
async fn three_failures_end_the_start() {
    let good = json!({"keys": [Signer::RsaA.jwk("a", "RS256")]}).to_string();
    let sized = |bytes: usize| format!("{good}{}", " ".repeat(bytes - good.len()));
    let elsewhere = KeyServer::start(Answer::document(good.clone())).await;
    let cases = [
        (broken(), "status"),
        (Answer::Now(204, "".into()), "status"),
        (Answer::Redirect(elsewhere.url("/keys.json")), "status"),
        (Answer::document(sized(262_145)), "too_large"),
        (Answer::document("[]"), "parse"),
        (keys(&[]), "no_usable_keys"),
    ];
    let cases = cases.map(|(answer, word)| {
        let authority = elsewhere.authority();
        async move {
            let source = KeyServer::start(answer).await;
            let api_key = "api_keys.a = \"0123456789012345678901234567890123\"";
            let builder = TestServer::builder()
                .trust(vec![source.authority(), authority])
                .table("auth", &table(&source, api_key));
            let Err(Error::Auth(auth::Error::KeySet(cause))) = builder.try_start().await else {
                panic!("{word}");
            };
            assert_eq!(cause.word(), word);
            assert_eq!(source.requests(), 3, "{word}");
        }
    });
    futures_util::future::join_all(cases).await;
    assert_eq!(elsewhere.requests(), 0, "a redirect was followed");

    let source = KeyServer::start(Answer::document(sized(262_144))).await;
    deployment(&source, "").start().await.stop().await;
}

/// Goal: a key server that is not trusted is not believed. Method: start with another authority.
#[tokio::test]
async fn an_untrusted_key_server_ends_the_start() {
    let source = KeyServer::start(keys(&[Signer::RsaA.jwk("a", "RS256")])).await;
    let other = KeyServer::start(broken()).await;
    let builder = TestServer::builder()
        .trust(vec![other.authority()])
        .table("auth", &table(&source, ""));
    let error = builder.try_start().await.unwrap_err();
    assert!(
        matches!(error, Error::Auth(auth::Error::KeySet(_))),
        "{error}"
    );
    assert_eq!(source.requests(), 0);
}

/// A process whose keys come from a server.
fn process(source: &KeyServer, document: &str) -> Process {
    Process::trusting(source.authority_pem(), document, &[])
}

/// A document of a process that listens at this address.
fn listening(url: &str, address: &str, source: &KeyServer, lines: &str) -> String {
    let auth = table(source, lines);
    document(url, &format!("[auth]\n{auth}")).replace(
        "server.listen = \"127.0.0.1:0\"",
        &format!("server.listen = \"{address}\""),
    )
}

/// Goal: without keys the process ends with 1 after three tries about a second apart, and its port is
/// never open. Method: a broken server, and attempts to connect all the while.
#[tokio::test]
async fn a_process_without_keys_never_serves() {
    let source = KeyServer::start(broken()).await;
    let address = free_address();
    let database = TestDatabase::create_bare().await;
    let document = listening(&database.url(), &address.to_string(), &source, "");
    let start = std::time::Instant::now();
    let mut process = process(&source, &document);
    eventually("the process ends", async || {
        assert!(TcpStream::connect(address).is_err(), "the port is open");
        process.has_ended()
    })
    .await;
    assert!(start.elapsed().as_secs() >= 2, "{:?}", start.elapsed());
    let ended = process.end().await;
    ended.check(1, "the key set of auth.jwks_url could not be loaded");
    let tries = ended
        .output()
        .matches("the key set could not be fetched cause=\"status\"");
    assert_eq!(tries.count(), 3, "{}", ended.output());
    assert!(!ended.output().contains("localhost"), "{}", ended.output());
    assert_eq!(source.requests(), 3);
    database.drop().await;
}

/// Goal: a list of authorities that was named and cannot be used does not make the server trust
/// others. Method: a process with a file that holds none.
#[tokio::test]
async fn an_empty_list_of_authorities_trusts_nobody() {
    let source = KeyServer::start(keys(&[Signer::RsaA.jwk("a", "RS256")])).await;
    let database = TestDatabase::create_bare().await;
    let document = listening(&database.url(), "127.0.0.1:0", &source, "");
    let ended = Process::trusting("", &document, &[]).end().await;
    ended.check(1, "no certificate authority can be read");
    ended.check(1, "the key set could not be fetched cause=\"connect\"");
    assert_eq!(source.requests(), 0);
    database.drop().await;
}

/// Goal: keys that are too old end the process like a signal, but with 1: watchers hear of it, open
/// calls end. Method: a server that breaks once the process serves.
#[tokio::test]
async fn stale_keys_end_the_process() {
    let source = KeyServer::start(keys(&[Signer::RsaA.jwk("a", "RS256")])).await;
    let database = TestDatabase::create_bare().await;
    let document = listening(&database.url(), "127.0.0.1:0", &source, SHORTEST);
    let process = process(&source, &document);
    let address = process.until_serving().await;
    let mut health = HealthClient::new(channel(address).await);
    let watched = health.watch(HealthCheckRequest::default()).await;
    let mut watched = watched.unwrap().into_inner();
    let next = watched.message().await.unwrap().unwrap();
    assert_eq!(next.status(), ServingStatus::Serving);
    source.answer(Answer::Silence);

    let next = watched.message().await.unwrap().unwrap();
    assert_eq!(next.status(), ServingStatus::NotServing);
    assert_eq!(
        watched.message().await.unwrap_err().code(),
        Code::Unavailable
    );
    let ended = process.end().await;
    ended.check(1, "shutting down reason=\"stale_keys\"");
    ended.check(
        1,
        "the key set could not be refreshed within auth.jwks_max_stale_seconds",
    );
    let errors = ended.output().matches("ERROR");
    assert_eq!(errors.count(), 1, "{}", ended.output());
    database.drop().await;
}

/// Goal: keys can grow too old before anything is served. Method: a process that waits for the lock
/// of migrations.
#[tokio::test]
async fn stale_keys_end_the_start() {
    let source = KeyServer::start(keys(&[Signer::RsaA.jwk("a", "RS256")])).await;
    let database = TestDatabase::create_bare().await;
    let locks = database.advisory_locks().await;
    let held = locks.hold(AdvisoryLock::from(GlobalLock::Migration)).await;
    let address = free_address();
    let document = listening(&database.url(), &address.to_string(), &source, SHORTEST);
    let mut process = process(&source, &document);
    process.until_logged("key set loaded").await;
    source.answer(broken());
    eventually("the process ends", async || {
        assert!(TcpStream::connect(address).is_err(), "the port is open");
        process.has_ended()
    })
    .await;
    process
        .end()
        .await
        .check(1, "within auth.jwks_max_stale_seconds");
    held.release().await;
    drop(locks);
    database.drop().await;
}
