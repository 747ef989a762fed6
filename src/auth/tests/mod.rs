//! The contract of authentication, row by row, without a port.
//!
//! Every table goes through a whole configuration document and [`Authenticator::judge`]; tokens are
//! really signed.

mod api_keys;
mod claims;
mod forms;
mod freshness;
mod inline_keys;
mod key_sets;
mod rejections;
mod tokens;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use harness::Signer;
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::{Access, Authenticator, Error, Principal, Rejection, open};
use crate::clock::Clock;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::outbound::Trust;

/// The time of every test, in seconds since the Unix epoch.
const NOW: u64 = 1_700_000_000;

/// The API keys `bot` and `bridge`, of the fewest bytes.
const BOT: &str = "bot-key-0123456789-abcdefghijklm";
const BRIDGE: &str = "bridge-key-0123456789-abcdefghij";

/// Lines that configure nothing but the two API keys.
const API: &str = "api_keys.bot = \"bot-key-0123456789-abcdefghijklm\"
api_keys.bridge = \"bridge-key-0123456789-abcdefghij\"";

/// Lines with one key of each kind and nothing required of claims.
fn min() -> String {
    let keys = [
        Signer::RsaA.inline("rs1", "RS256"),
        Signer::P256.inline("es1", "ES256"),
        Signer::P384.inline("es3", "ES384"),
        Signer::Ed25519.inline("ed1", "EdDSA"),
    ];
    format!("keys = [{}]", keys.join(", "))
}

/// [`min`], with an audience, an issuer and a scope required.
fn jwt() -> String {
    let required = "audiences = [\"xmtp\"]\nissuers = [\"https://iss.example\"]\n\
                    required_scopes = [\"xmtp:access\"]";
    format!("{}\n{required}", min())
}

/// [`min`] with two keys of one algorithm.
fn two() -> String {
    let keys = [
        Signer::RsaA.inline("a", "RS256"),
        Signer::RsaB.inline("b", "RS256"),
    ];
    format!("keys = [{}]", keys.join(", "))
}

fn both() -> String {
    format!("{}\n{API}", jwt())
}

/// Sets up an enabled table with these lines.
async fn access(lines: &str) -> Result<Access, Error> {
    let document = format!(
        "server.identifier = \"org.example.test\"\ndatabase.url = \"postgres://x/y\"\n\
         [auth]\nenabled = true\n{lines}"
    );
    let config = Config::parse(&document, &|_| None).unwrap();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
    let clock = Clock::from_fn(move || now);
    let metrics = Arc::new(Metrics::new("0"));
    open(
        config.auth.as_ref(),
        clock,
        Trust::Only(Vec::new()),
        &metrics,
    )
    .await
}

async fn authenticator(lines: &str) -> Arc<Authenticator> {
    access(lines).await.unwrap().authenticator().unwrap()
}

/// Judges a request with these values of the header.
fn judge_values(who: &Authenticator, values: &[&[u8]]) -> Result<Principal, Rejection> {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append("authorization", HeaderValue::from_bytes(value).unwrap());
    }
    who.judge(&headers)
}

/// Judges a request with this credential.
fn judge(who: &Authenticator, credential: &str) -> Result<Principal, Rejection> {
    judge_values(who, &[format!("Bearer {credential}").as_bytes()])
}

fn header() -> Value {
    json!({"alg": "RS256", "kid": "rs1"})
}

fn claims() -> Value {
    json!({
        "exp": NOW + 300,
        "aud": "xmtp",
        "iss": "https://iss.example",
        "scope": "xmtp:access other",
    })
}

/// A value with the members of another one in it; a member that is `DELETE` is taken out.
fn with(mut value: Value, changes: Value) -> Value {
    let object = value.as_object_mut().unwrap();
    let Value::Object(changes) = changes else {
        panic!("changes are members");
    };
    for (name, change) in changes {
        if change == DELETE {
            object.remove(&name);
        } else {
            object.insert(name, change);
        }
    }
    value
}

const DELETE: &str = "delete this member";

/// The reference token: what every row changes one thing of.
fn reference() -> String {
    Signer::RsaA.token(&header(), &claims())
}

/// The reference token with other members in its header.
fn with_header(changes: Value) -> String {
    Signer::RsaA.token_signed_with("RS256", &with(header(), changes), &claims())
}

/// The reference token with other claims.
fn with_claims(changes: Value) -> String {
    Signer::RsaA.token(&header(), &with(claims(), changes))
}

/// Whether a verdict is the expected one.
fn assert_verdict(row: &str, verdict: Result<Principal, Rejection>, expected: Option<Rejection>) {
    assert_eq!(verdict.err(), expected, "{row}");
}
