//! Verdicts of real bytecode, behind a real node over TLS, sound and faulty (ARC-091, SEC-042).

mod nodes;
mod remembered;
mod verdicts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use envelope::fixtures::Wallet;
use envelope::scw::{AccountId, VerifierError, Verify as _};
use harness::chain::wallet_by_first_byte;
use harness::chain::{ChainNode, TestChain, creation, factory, owned_wallet};
use url::Url;

use super::{Chains, Parts};
use crate::config::{ChainId, Secret};
use crate::metrics::Metrics;
use crate::outbound::{Bounds, Outbound, Trust};

/// Where the tests deploy: a wallet by first byte, a wallet of key 1, a factory, and nothing.
const BY_FIRST_BYTE: [u8; 20] = [0x11; 20];
const OWNED: [u8; 20] = [0x12; 20];
const FACTORY: [u8; 20] = [0x22; 20];
const NOTHING: [u8; 20] = [0x33; 20];

/// What is signed.
const HASH: [u8; 32] = [0x42; 32];

const BOUNDS: Bounds = Bounds {
    timeout: Duration::from_secs(10),
    answer_bytes_max: 4096,
};

/// The address of the key of that number.
fn key_address(number: u64) -> [u8; 20] {
    let digits = Wallet::numbered(number).address();
    let mut address = [0; 20];
    hex::decode_to_slice(&digits[2..], &mut address).unwrap();
    address
}

fn chain() -> TestChain {
    let mut chain = TestChain::new();
    let owned = owned_wallet(key_address(1));
    chain.block(&[
        (BY_FIRST_BYTE, &wallet_by_first_byte()),
        (OWNED, &owned),
        (FACTORY, &factory()),
    ]);
    chain
}

fn chains_with(node: &ChainNode, cache_entries_max: u64, bounds: Bounds) -> Chains {
    counting_chains(node, cache_entries_max, bounds, Metrics::new("0").into())
}

fn counting_chains(
    node: &ChainNode,
    cache_entries_max: u64,
    bounds: Bounds,
    metrics: Arc<Metrics>,
) -> Chains {
    let url: Url = node.url().parse().unwrap();
    let nodes = BTreeMap::from([
        (ChainId(1), Secret::new(url.clone())),
        (ChainId(10), Secret::new(url)),
    ]);
    let parts = Parts {
        nodes: &nodes,
        cache_entries_max,
        outbound: Outbound::new(Trust::Only(vec![node.authority()])),
        metrics,
    };
    Chains::with_bounds(parts, bounds).unwrap()
}

fn chains(node: &ChainNode) -> Chains {
    chains_with(node, 100, BOUNDS)
}

fn account(address: [u8; 20]) -> AccountId {
    AccountId::parse(&format!("eip155:1:0x{}", hex::encode(address))).unwrap()
}

/// The verdict at block 1.
async fn judge(
    chains: &Chains,
    address: [u8; 20],
    signature: &[u8],
) -> Result<bool, VerifierError> {
    let account = account(address);
    let verdict = chains.verify(&account, &HASH, signature, Some(1)).await?;
    assert_eq!(verdict.block_number, 1);
    Ok(verdict.is_valid)
}

/// 65 bytes of which the first is a verdict.
fn signature(verdict: u8) -> Vec<u8> {
    [&[verdict][..], &[0xaa; 64]].concat()
}

fn word(number: usize) -> [u8; 32] {
    let mut word = [0; 32];
    word[24..].copy_from_slice(&(number as u64).to_be_bytes());
    word
}

/// A signature with what to call a factory with (ERC-6492).
fn wrap(factory: [u8; 20], deployment: &[u8], inner: &[u8]) -> Vec<u8> {
    let padded = |bytes: &[u8]| {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(32), 0);
        padded
    };
    let (deployment_padded, inner_padded) = (padded(deployment), padded(inner));
    [
        &[0; 12][..],
        &factory,
        &word(0x60),
        &word(0x80 + deployment_padded.len()),
        &word(deployment.len()),
        &deployment_padded,
        &word(inner.len()),
        &inner_padded,
        &[0x64, 0x92].repeat(16),
    ]
    .concat()
}

/// How to have the factory deploy a contract.
fn deployment(salt: u8, code: &[u8]) -> Vec<u8> {
    [&[salt; 32][..], &creation(code)].concat()
}

/// Where the factory deploys it (ERC-1014).
fn deployed_at(salt: u8, code: &[u8]) -> [u8; 20] {
    let code = envelope::ethereum::keccak256(&creation(code));
    let hash = envelope::ethereum::keccak256(&[&[0xff][..], &FACTORY, &[salt; 32], &code].concat());
    *hash.last_chunk().unwrap()
}
