//! What is remembered and counted.

use std::sync::Arc;

use envelope::scw::{AccountId, Verify as _};
use harness::chain::ChainNode;

use super::{
    BOUNDS, BY_FIRST_BYTE, HASH, OWNED, account, chain, chains_with, counting_chains, judge,
    signature,
};
use crate::metrics::Metrics;

/// What is remembered: verdicts of either kind at numbered blocks, by chain, address, hash, signature
/// and block, however the address is spelled, until others need the room (cases 121 to 125).
#[tokio::test(flavor = "multi_thread")]
async fn numbered_verdicts_are_remembered() {
    let node = ChainNode::start(chain()).await;
    node.chain(|chain| chain.mine_to(3));
    let chains = chains_with(&node, 2, BOUNDS);
    let upper = format!("eip155:1:{}", hex::encode(BY_FIRST_BYTE).to_uppercase());
    let (yes, no) = (signature(1), signature(0));
    let id = |text: &str| AccountId::parse(text).unwrap();
    let wallet = account(BY_FIRST_BYTE);
    let other_chain = id(&wallet.as_str().replace("eip155:1:", "eip155:10:"));
    // Each question, and whether the node is asked about it.
    let questions = [
        ("first", &wallet, HASH, &yes, Some(1), true),
        ("again", &wallet, HASH, &yes, Some(1), false),
        ("other letters", &id(&upper), HASH, &yes, Some(1), false),
        ("refused", &wallet, HASH, &no, Some(1), true),
        ("refused again", &wallet, HASH, &no, Some(1), false),
        ("both are kept", &wallet, HASH, &yes, Some(1), false),
        (
            "another block evicts the refusal",
            &wallet,
            HASH,
            &yes,
            Some(2),
            true,
        ),
        (
            "the first was used since",
            &wallet,
            HASH,
            &yes,
            Some(1),
            false,
        ),
        ("the refusal is gone", &wallet, HASH, &no, Some(1), true),
        ("another chain", &other_chain, HASH, &yes, Some(1), true),
        ("another hash", &wallet, [0x43; 32], &yes, Some(1), true),
        (
            "another account",
            &account(OWNED),
            HASH,
            &yes,
            Some(1),
            true,
        ),
    ];
    for (claim, account, hash, signature, block, asks) in questions {
        let calls = node.calls();
        let verdict = chains.verify(account, &hash, signature, block).await;
        verdict.expect(claim);
        assert_eq!(node.calls() - calls, usize::from(asks), "{claim}");
    }
    // Without a block nothing is remembered, neither way.
    for _ in 0..2 {
        let calls = node.calls();
        chains.verify(&wallet, &HASH, &yes, None).await.unwrap();
        assert_eq!(node.calls() - calls, 2);
    }
}

/// Every verification is counted once, remembered ones and those without verdict included.
#[tokio::test(flavor = "multi_thread")]
async fn every_verification_is_counted() {
    let node = ChainNode::start(chain()).await;
    let metrics = Arc::new(Metrics::new("0"));
    let chains = counting_chains(&node, 100, BOUNDS, Arc::clone(&metrics));
    for (verdict, times) in [(1, 3), (0, 2), (2, 1)] {
        for _ in 0..times {
            let _ = judge(&chains, BY_FIRST_BYTE, &signature(verdict)).await;
        }
    }
    let unknown = AccountId::parse("eip155:5:0x00").unwrap();
    let _ = chains.verify(&unknown, &HASH, &[], None).await;
    let text = metrics.exposition();
    for (result, count) in [("valid", 3), ("invalid", 2), ("error", 2)] {
        let line = format!("xmtp_scw_verifications_total{{result=\"{result}\"}} {count}");
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}
