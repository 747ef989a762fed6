//! Nodes that fail, are slow, or are not there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use envelope::scw::{AccountId, VerifierError, Verify as _};
use harness::chain::{ChainNode, Fault};
use harness::eventually;
use serde_json::json;
use url::Url;

use super::super::node::OPEN_CALLS_MAX;
use super::super::{Chains, Parts};
use super::{
    BOUNDS, BY_FIRST_BYTE, HASH, account, chain, chains, chains_with, judge, signature, word,
};
use crate::config::{ChainId, Secret};
use crate::metrics::Metrics;
use crate::outbound::{Bounds, Outbound, Trust};

/// Every way in which a node fails leaves the question open, is tried once, and is not remembered:
/// afterwards the same question gets its verdict (case 116).
#[tokio::test(flavor = "multi_thread")]
async fn a_failing_node_gives_no_verdict() {
    let node = ChainNode::start(chain()).await;
    let elsewhere = ChainNode::start(chain()).await;
    let short = Bounds {
        timeout: Duration::from_millis(300),
        ..BOUNDS
    };
    let body = |text: &'static str| Fault::Body(Bytes::from_static(text.as_bytes()));
    let (provider, io) = (VerifierError::Provider, VerifierError::Io);
    let faults = [
        (Fault::Silence, provider),
        (Fault::Status(500), provider),
        (Fault::Status(429), provider),
        (Fault::Status(201), provider),
        (Fault::Redirect(elsewhere.url()), provider),
        (Fault::Cut, io),
        (Fault::OtherId, provider),
        (Fault::Error, provider),
        (Fault::Result(json!(null)), provider),
        (Fault::Result(json!(1)), provider),
        (Fault::Result(json!("1")), provider),
        (Fault::Result(json!("0x1")), provider),
        (Fault::Result(json!("0xzz")), provider),
        (body(""), provider),
        (body("<html>"), provider),
        (body("[]"), provider),
        (Fault::Body(vec![b' '; 4097].into()), provider),
    ];
    for (fault, expected) in faults {
        let patient = fault != Fault::Silence;
        let chains = chains_with(&node, 100, if patient { BOUNDS } else { short });
        node.fault(fault.clone());
        let calls = node.calls();
        let verdict = judge(&chains, BY_FIRST_BYTE, &signature(1)).await;
        assert_eq!(verdict, Err(expected), "{fault:?}");
        assert_eq!(node.calls() - calls, 1, "{fault:?}");
        node.fault(None);
        let verdict = judge(&chains, BY_FIRST_BYTE, &signature(1)).await;
        assert_eq!(verdict, Ok(true), "{fault:?}");
    }
    assert_eq!(elsewhere.calls(), 0, "redirects are not followed");
    // A newest block that is none.
    for result in [json!("latest"), json!("0x"), json!("0x10000000000000000")] {
        node.fault(Fault::Result(result));
        let chains = chains(&node);
        let account = account(BY_FIRST_BYTE);
        let verdict = chains.verify(&account, &HASH, &signature(1), None).await;
        assert_eq!(verdict, Err(provider));
    }
}

/// An answer may be as long as its bound and no longer (the bound is the caller's here).
#[tokio::test(flavor = "multi_thread")]
async fn the_length_of_an_answer_is_bounded() {
    let node = ChainNode::start(chain()).await;
    for (length, expected) in [(4096, Ok(true)), (4097, Err(VerifierError::Provider))] {
        // The first question of a verifier has number 1.
        let mut body = br#"{"jsonrpc":"2.0","id":1,"result":"0x01"}"#.to_vec();
        body.resize(length, b' ');
        node.fault(Fault::Body(body.into()));
        let verdict = judge(&chains(&node), BY_FIRST_BYTE, &signature(0)).await;
        assert_eq!(verdict, expected, "{length}");
    }
}

/// A node that is not there, and one with another authority.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_cannot_be_reached_gives_no_verdict() {
    let node = ChainNode::start(chain()).await;
    let stranger = ChainNode::start(chain()).await;
    let url: Url = node.url().parse().unwrap();
    let nodes = BTreeMap::from([(ChainId(1), Secret::new(url))]);
    let untrusting = Chains::new(Parts {
        nodes: &nodes,
        cache_entries_max: 1,
        outbound: Outbound::new(Trust::Only(vec![stranger.authority()])),
        metrics: Arc::new(Metrics::new("0")),
    })
    .unwrap();
    let io = Err(VerifierError::Io);
    assert_eq!(judge(&untrusting, BY_FIRST_BYTE, &signature(1)).await, io);
    assert_eq!(node.calls(), 0);
    let chains = chains(&node);
    drop(node);
    assert_eq!(judge(&chains, BY_FIRST_BYTE, &signature(1)).await, io);
}

/// Chains without a node, and accounts that are no addresses, cost no call (case 117). The names of
/// chains are compared as text.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_node_can_judge_is_not_asked() {
    let node = ChainNode::start(chain()).await;
    let chains = chains(&node);
    let digits = hex::encode(BY_FIRST_BYTE);
    let cases = [
        (format!("eip155:137:0x{digits}"), VerifierError::NoRoute),
        (format!("eip155:01:0x{digits}"), VerifierError::NoRoute),
        (
            "cosmos:cosmoshub-3:cosmos1t2uf".to_owned(),
            VerifierError::NoRoute,
        ),
        ("eip155:137:0x00".to_owned(), VerifierError::NoRoute),
        ("eip155:1:0x00".to_owned(), VerifierError::MalformedAddress),
        (
            format!("eip155:1:0x{digits}0"),
            VerifierError::MalformedAddress,
        ),
        (
            format!("eip155:1:0X{digits}"),
            VerifierError::MalformedAddress,
        ),
    ];
    for (text, expected) in cases {
        let account = AccountId::parse(&text).unwrap();
        for block in [None, Some(1)] {
            let verdict = chains.verify(&account, &HASH, &signature(1), block).await;
            assert_eq!(verdict, Err(expected), "{text}");
        }
    }
    assert_eq!(node.calls(), 0);
}

/// Calls of one process are bounded, whoever makes them; the others wait and are answered.
#[tokio::test(flavor = "multi_thread")]
async fn calls_in_flight_are_bounded() {
    let node = ChainNode::start(chain()).await;
    node.fault(Fault::Held);
    let chains = Arc::new(chains(&node));
    let questions: Vec<_> = (0..OPEN_CALLS_MAX + 16)
        .map(|number| {
            let chains = Arc::clone(&chains);
            let signature = [&[1][..], &word(number)].concat();
            tokio::spawn(async move { judge(&chains, BY_FIRST_BYTE, &signature).await })
        })
        .collect();
    eventually("as many calls as may be", async || {
        node.calls() == OPEN_CALLS_MAX
    })
    .await;
    node.release();
    for question in questions {
        assert_eq!(question.await.unwrap(), Ok(true));
    }
    assert_eq!(node.most_open(), OPEN_CALLS_MAX);
}

/// Nothing that is printed of the verifier shows the address of a node (ARC-101).
#[tokio::test(flavor = "multi_thread")]
async fn nothing_shows_the_address_of_a_node() {
    let node = ChainNode::start(chain()).await;
    let chains = chains(&node);
    let port = node
        .url()
        .split(':')
        .nth(2)
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    let said = format!("{chains:?}");
    for secret in ["localhost", "secret-key", port.as_str()] {
        assert!(!said.contains(secret), "{said}");
    }
}
