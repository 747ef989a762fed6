//! API keys: who has one, and what it costs to find out.

use std::collections::BTreeMap;

use subtle::ConstantTimeEq as _;

use super::super::api_keys::ApiKeys;
use super::{
    API, BOT, BRIDGE, Principal, Rejection, assert_verdict, authenticator, both, judge, reference,
    with_claims,
};
use crate::config::Secret;
use serde_json::json;

fn named(name: &str) -> Principal {
    Principal::ApiKey { name: name.into() }
}

/// Goal: a key admits with its name, and nothing else does. Method: table of credentials.
#[tokio::test]
async fn a_key_admits_with_its_name() {
    let who = authenticator(API).await;
    assert_eq!(judge(&who, BOT), Ok(named("bot")), "20");
    assert_eq!(judge(&who, BRIDGE), Ok(named("bridge")), "21");
    let last_byte = format!("{}x", &BOT[..BOT.len() - 1]);
    for (row, credential) in [
        ("22 last byte", last_byte.as_str()),
        ("22 first byte", &format!("x{}", &BOT[1..])),
        ("22 one byte less", &BOT[..BOT.len() - 1]),
        ("22 one byte more", &format!("{BOT}x")),
        ("23 other case", &BOT.to_uppercase()),
        ("24 no syntax is looked at", "not.a.jwt"),
        ("24 a good token", &reference()),
    ] {
        assert_verdict(row, judge(&who, credential), Some(Rejection::Untrusted));
    }
}

/// Goal: the longest key works. Method: 8192 bytes, which is also the longest credential.
#[tokio::test]
async fn the_longest_key_admits() {
    let key = "k".repeat(8192);
    let who = authenticator(&format!("api_keys.long = \"{key}\"")).await;
    assert_eq!(judge(&who, &key), Ok(named("long")), "19");
    assert_verdict("19", judge(&who, &key[1..]), Some(Rejection::Untrusted));
}

/// Goal: beside tokens, a key still admits without a check of claims, and what is no key is a token.
/// Method: a table under a configuration that requires a scope; one key looks like a token.
#[tokio::test]
async fn keys_come_before_tokens() {
    let lookalike = with_claims(json!({"exp": 1, "scope": "none"}));
    let lines = format!("{}\napi_keys.lookalike = \"{lookalike}\"", both());
    let who = authenticator(&lines).await;
    assert_eq!(judge(&who, BOT), Ok(named("bot")), "25");
    assert_eq!(judge(&who, &lookalike), Ok(named("lookalike")));
    let admitted = judge(&who, &reference()).unwrap();
    let Principal::Jwt { claims } = admitted else {
        panic!("26: {admitted:?}");
    };
    assert_eq!(claims["scope"], "xmtp:access other");
    assert_verdict("27", judge(&who, "nonsense"), Some(Rejection::NotToken));
}

/// Goal: the work does not depend on which key matches, or whether one does. Method: count the
/// comparisons over the most keys there may be, for the first, the last and none.
#[test]
fn every_search_compares_with_every_key() {
    let key = |number: usize| format!("key-{number:028}");
    let keys: BTreeMap<_, _> = (0..256)
        .map(|number| (format!("name-{number:03}"), Secret::new(key(number))))
        .collect();
    let keys = ApiKeys::new(&keys);
    for (credential, name) in [
        (key(0), Some("name-000")),
        (key(128), Some("name-128")),
        (key(255), Some("name-255")),
        (key(256), None),
    ] {
        let mut comparisons = 0;
        let found = keys.find_by(&credential, |a, b| {
            comparisons += 1;
            a.ct_eq(b)
        });
        assert_eq!(found.as_deref(), name);
        assert_eq!(comparisons, 256, "{credential}");
    }
    assert_eq!(ApiKeys::new(&BTreeMap::new()).find("anything"), None);
}

/// Goal: nothing of a key or a claim is in `Debug` output. Method: print everything that holds one.
#[tokio::test]
async fn keys_and_claims_are_not_printed() {
    let who = authenticator(&both()).await;
    let principals = [judge(&who, BOT), judge(&who, &reference())];
    let printed = format!("{who:?} {principals:?}");
    for secret in [
        &BOT[..12],
        &BRIDGE[..12],
        "xmtp:access other",
        "MCow",
        "MIIB",
    ] {
        assert!(!printed.contains(secret), "{secret} is in {printed}");
    }
    assert!(
        printed.contains("bridge"),
        "names may be printed: {printed}"
    );
}
