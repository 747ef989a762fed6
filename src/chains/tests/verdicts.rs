//! What wallets say: ERC-1271, ERC-6492, and keys of their own.

use envelope::fixtures::Wallet;
use envelope::scw::{Verdict, VerifierError, Verify as _};
use harness::chain::{ChainNode, owned_wallet, wallet_by_first_byte};
use serde_json::json;

use super::{
    BY_FIRST_BYTE, FACTORY, HASH, NOTHING, OWNED, account, chain, chains, deployed_at, deployment,
    judge, key_address, signature, wrap,
};

/// Deployed wallets: what they return is the verdict, and a call that fails is none (cases 114 to 116,
/// 126; ERC-1271).
#[tokio::test(flavor = "multi_thread")]
async fn deployed_wallets_judge_for_themselves() {
    let node = ChainNode::start(chain()).await;
    let chains = chains(&node);
    let provider = Err(VerifierError::Provider);
    let cases = [
        ("accepts", signature(1), Ok(true)),
        (
            "accepts a long signature",
            [&[1][..], &[7; 199]].concat(),
            Ok(true),
        ),
        ("accepts a word", [&[1][..], &[7; 31]].concat(), Ok(true)),
        ("less than a word is no signature", vec![1; 31], Ok(false)),
        ("nothing is no signature", vec![], Ok(false)),
        ("refuses", signature(0), Ok(false)),
        ("reverts", signature(2), provider),
        ("returns nothing", signature(3), provider),
        (
            "returns a word that is nearly right",
            signature(4),
            Ok(false),
        ),
        ("returns a byte too few", signature(5), provider),
        // Init code is bounded by the rules of the chain (EIP-3860), arguments included.
        (
            "is asked more than a node simulates",
            [&[1][..], &vec![7; 49_152]].concat(),
            provider,
        ),
    ];
    for (claim, signature, expected) in cases {
        let verdict = judge(&chains, BY_FIRST_BYTE, &signature).await;
        assert_eq!(verdict, expected, "{claim}");
    }
    let (owner, stranger) = (Wallet::numbered(1), Wallet::numbered(2));
    for (signer, expected) in [(owner, true), (stranger, false)] {
        let signature = signer.sign_digest(&HASH);
        assert_eq!(judge(&chains, OWNED, &signature).await, Ok(expected));
    }
}

/// Accounts without code: the signature of an ordinary key counts, in the forms that the chain itself
/// takes (case 115).
#[tokio::test(flavor = "multi_thread")]
async fn accounts_without_code_are_judged_by_their_key() {
    let node = ChainNode::start(chain()).await;
    let chains = chains(&node);
    let key = Wallet::numbered(3);
    let sound = key.sign_digest(&HASH);
    let with_v = |v: u8| [&sound[..64], &[v]].concat();
    let cases = [
        ("a signature", key_address(3), sound.to_vec(), true),
        ("of the other half", key_address(3), mirrored(&sound), true),
        ("v as a bit", key_address(3), with_v(sound[64] - 27), false),
        (
            "v with a chain",
            key_address(3),
            with_v(sound[64] + 8),
            false,
        ),
        ("of somebody else", NOTHING, sound.to_vec(), false),
        (
            "a byte too few",
            key_address(3),
            sound[..64].to_vec(),
            false,
        ),
        (
            "a byte too many",
            key_address(3),
            [&sound[..], &[0]].concat(),
            false,
        ),
        ("of the zero address", [0; 20], with_zeros(27), false),
    ];
    for (claim, address, signature, expected) in cases {
        assert_eq!(
            judge(&chains, address, &signature).await,
            Ok(expected),
            "{claim}"
        );
    }
}

fn with_zeros(v: u8) -> Vec<u8> {
    [&[0; 64][..], &[v]].concat()
}

/// The same signature with the other `s` and the other `v`.
fn mirrored(signature: &[u8; 65]) -> Vec<u8> {
    let order =
        hex::decode("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141").unwrap();
    let mut mirrored = signature.to_vec();
    let mut borrow = 0_i16;
    for index in (0..32).rev() {
        let digit = i16::from(order[index]) - i16::from(signature[32 + index]) - borrow;
        borrow = i16::from(digit < 0);
        mirrored[32 + index] = u8::try_from(digit.rem_euclid(256)).unwrap();
    }
    mirrored[64] = 55 - signature[64];
    mirrored
}

/// A wallet that is not there, and how to have the factory deploy it.
struct Promised {
    deployment: Vec<u8>,
    address: [u8; 20],
}

fn promised(salt: u8, code: &[u8]) -> Promised {
    Promised {
        deployment: deployment(salt, code),
        address: deployed_at(salt, code),
    }
}

/// Wrapped signatures of wallets that are not there: the factory deploys them first, for the question
/// alone; a factory that fails leaves it open (case 127; ERC-6492).
#[tokio::test(flavor = "multi_thread")]
async fn wrapped_signatures_deploy_their_wallet_first() {
    let node = ChainNode::start(chain()).await;
    let chains = chains(&node);
    let code = wallet_by_first_byte();
    let wallet = promised(7, &code);
    let elsewhere = promised(9, &code);
    let owned = promised(8, &owned_wallet(key_address(1)));
    let owners = Wallet::numbered(1).sign_digest(&HASH);
    let wrapped = |verdict| wrap(FACTORY, &wallet.deployment, &signature(verdict));
    let provider = Err(VerifierError::Provider);
    let cases = [
        ("accepts", wrapped(1), Ok(true)),
        ("refuses", wrapped(0), Ok(false)),
        ("reverts", wrapped(2), provider),
        (
            "deploys elsewhere",
            wrap(FACTORY, &elsewhere.deployment, &signature(1)),
            provider,
        ),
        (
            "the factory reverts",
            wrap(FACTORY, &[7; 32], &signature(1)),
            provider,
        ),
        (
            "the factory has no code",
            wrap(NOTHING, &wallet.deployment, &signature(1)),
            provider,
        ),
        (
            "no factory",
            wrap([0; 20], &wallet.deployment, &signature(1)),
            Ok(false),
        ),
    ];
    for (claim, signature, expected) in cases {
        let verdict = judge(&chains, wallet.address, &signature).await;
        assert_eq!(verdict, expected, "{claim}");
    }
    let signature_of_owner = wrap(FACTORY, &owned.deployment, &owners);
    let verdict = judge(&chains, owned.address, &signature_of_owner).await;
    assert_eq!(verdict, Ok(true));
    // Nothing was deployed for good.
    let verdict = judge(&chains, wallet.address, &signature(1)).await;
    assert_eq!(verdict, Ok(false));
}

/// Wrapped signatures of wallets that are there: the wallet is asked about the signature inside,
/// whatever its factory; what only ends like a wrapper is no signature (cases 128 and 129).
#[tokio::test(flavor = "multi_thread")]
async fn wrapped_signatures_of_deployed_wallets_need_no_factory() {
    let node = ChainNode::start(chain()).await;
    let chains = chains(&node);
    let deploy = deployment(7, &wallet_by_first_byte());
    let cases = [
        ("accepts", wrap(FACTORY, &deploy, &signature(1)), Ok(true)),
        ("bogus factory", wrap(NOTHING, &[], &signature(1)), Ok(true)),
        ("refuses", wrap(NOTHING, &[], &signature(0)), Ok(false)),
        (
            "reverts",
            wrap(FACTORY, &deploy, &signature(2)),
            Err(VerifierError::Provider),
        ),
        ("no wrapper", [0x64, 0x92].repeat(16), Ok(false)),
    ];
    for (claim, signature, expected) in cases {
        let verdict = judge(&chains, BY_FIRST_BYTE, &signature).await;
        assert_eq!(verdict, expected, "{claim}");
    }
}

/// The newest block is asked for and judged at by its number; a wallet that changes its mind is asked
/// at the block in question (case 120).
#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_is_of_its_block() {
    let node = ChainNode::start(chain()).await;
    let refusal = owned_wallet(key_address(9));
    node.chain(|chain| {
        chain.mine_to(6);
        chain.block(&[(OWNED, &refusal)])
    });
    let chains = chains(&node);
    let account = account(OWNED);
    let signature = Wallet::numbered(1).sign_digest(&HASH);
    let verdict = |is_valid, block_number| {
        Ok(Verdict {
            is_valid,
            block_number,
        })
    };
    for (block, expected) in [
        (Some(1), verdict(true, 1)),
        (Some(6), verdict(true, 6)),
        (Some(7), verdict(false, 7)),
        (None, verdict(false, 7)),
        // No such block, and one without the wallet.
        (Some(8), Err(VerifierError::Provider)),
        (Some(0), verdict(false, 0)),
    ] {
        let found = chains.verify(&account, &HASH, &signature, block).await;
        assert_eq!(found, expected, "{block:?}");
    }
    let asked = node.asked();
    let newest = asked
        .iter()
        .position(|asked| asked.method == "eth_blockNumber");
    assert_eq!(asked[newest.unwrap() + 1].params[1], json!("0x7"));
    // A signature that is none needs no call, but its answer still names the newest block.
    let calls = node.calls();
    let found = chains.verify(&account, &HASH, &[1], None).await;
    assert_eq!((found, node.calls()), (verdict(false, 7), calls + 1));
}
