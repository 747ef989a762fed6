//! Contract wallets end to end: published updates and questions, judged by real bytecode behind a
//! node over TLS (ARC-011, ARC-013, ARC-091, SEC-042).

mod account;

use std::time::Duration;

use envelope::Topic;
use envelope::fixtures::keys::erc_6492;
use envelope::fixtures::{Installation, UpdateBuilder, Wallet, update_envelope};
use envelope::scw::Address;
use envelope::wire::xmtp::backend::v1::publish_error::Reason;
use envelope::wire::xmtp::backend::v1::{
    VerifySmartContractWalletSignaturesRequest, VerifySmartContractWalletSignaturesResponse,
    verify_smart_contract_wallet_signatures_request::Signature as Question,
    verify_smart_contract_wallet_signatures_response::Response,
};
use envelope::wire::xmtp::identity::associations::{IdentityUpdate, Signature};
use harness::chain::{Asked, ChainNode, Fault, TestChain, factory, wallet_by_first_byte};
use harness::{TestServer, Transport, eventually};
use tonic::{Code, Status};

use self::account::Account;
use crate::given::{creation, ids, inbox_topic};
use crate::refusal::{assert_plain, assert_rejected, assert_silent_about};

const CHAIN: u64 = 8453;
const FACTORY: Address = [0x22; 20];
const BY_FIRST_BYTE: Address = [0x11; 20];

/// A chain with the factory, a wallet by first byte, and these wallets.
async fn node(accounts: &[&Account]) -> ChainNode {
    let codes: Vec<_> = accounts
        .iter()
        .map(|account| (account.address, account.code()))
        .collect();
    let (factory, by_first_byte) = (factory(), wallet_by_first_byte());
    let mut block: Vec<(Address, &[u8])> =
        vec![(FACTORY, &factory), (BY_FIRST_BYTE, &by_first_byte)];
    block.extend(codes.iter().map(|(address, code)| (*address, &code[..])));
    let mut chain = TestChain::new();
    chain.block(&block);
    ChainNode::start(chain).await
}

async fn server(node: &ChainNode) -> TestServer {
    TestServer::builder()
        .table("chains", &node.route(CHAIN))
        .trust(vec![node.authority()])
        .start()
        .await
}

/// How many envelopes a topic has.
async fn stored(server: &TestServer, topic: &Topic) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM envelopes WHERE topic = $1")
        .bind(topic.as_bytes())
        .fetch_one(&server.database().pool().await)
        .await
        .unwrap()
}

/// Deployed wallets, and wallets that exist only as a promise of their factory, create inboxes and add
/// installations; each signature is asked about once, whatever history it is in later (cases 121, 127).
#[tokio::test(flavor = "multi_thread")]
async fn contract_wallets_own_inboxes() {
    let deployed = Account::deployed(1, [0x31; 20]);
    let promised = Account::not_deployed(2);
    let node = node(&[&deployed]).await;
    let server = server(&node).await;
    for (transport, account) in [
        (Transport::Native, &deployed),
        (Transport::ALL[1], &promised),
    ] {
        let create = UpdateBuilder::creating(account, 0).build();
        let inbox = create.inbox_id.clone();
        let calls = node.calls();
        let created = server.begin_publish(transport, vec![update_envelope(create)]);
        ids(created.await.unwrap());
        assert_eq!(node.calls() - calls, 1);
        for number in 1..=3 {
            let add = UpdateBuilder::new(&inbox)
                .at(number * 1_000_000_000)
                .add(account, &Installation::numbered(number))
                .build();
            let added = server.begin_publish(transport, vec![update_envelope(add)]);
            ids(added.await.unwrap());
        }
        // One new signature for each update; those of the history are remembered.
        assert_eq!(node.calls() - calls, 4);
        assert_eq!(stored(&server, &inbox_topic(&inbox)).await, 4);
    }
    // Updates name a block, so nobody asks for the newest.
    let newest = |asked: &Asked| asked.method == "eth_blockNumber";
    assert!(!node.asked().iter().any(newest));
    server.stop().await;
}

/// What a wallet refuses is an invalid signature; what it cannot be asked is nobody's fault, and can
/// be sent again. Neither is stored (cases 114, 116, 117).
#[tokio::test(flavor = "multi_thread")]
async fn refused_signatures_and_missing_verdicts_differ() {
    let account = Account::deployed(1, [0x31; 20]);
    let promised = Account::not_deployed(2);
    let node = node(&[&account]).await;
    let server = server(&node).await;
    let of_first_byte = |verdict| {
        let wallet = Account::deployed(1, BY_FIRST_BYTE);
        let mut create = UpdateBuilder::creating(&wallet, 0).build();
        let signature = [&[verdict][..], &[7; 64]].concat();
        set_signature(&mut create, erc_6492(&wallet.account_id(), 1, &signature));
        create
    };
    let creating = |account: &Account| UpdateBuilder::creating(account, 0).build();
    let other_chain = {
        let mut create = creating(&account);
        let signature = account.signature(&[1; 32]);
        let id = account.account_id().replace("8453", "1");
        set_signature(&mut create, erc_6492(&id, 1, &signature));
        create
    };
    let refused = [
        ("another key", creating(&account.signed_by(9))),
        (
            "another key behind the factory",
            creating(&promised.signed_by(9)),
        ),
        ("before it was deployed", creating(&account.at(0))),
        ("refuses", of_first_byte(0)),
        ("a word that is nearly right", of_first_byte(4)),
    ];
    let unavailable = [
        ("reverts", of_first_byte(2)),
        ("returns nothing", of_first_byte(3)),
        ("returns too little", of_first_byte(5)),
        ("a block to come", creating(&account.at(2))),
        ("a chain without node", other_chain),
    ];
    for transport in [Transport::Native, Transport::ALL[1]] {
        for (claim, update) in &refused {
            let publish = server.begin_publish(transport, vec![update_envelope(update.clone())]);
            let status = publish.await.unwrap().expect_err(claim);
            assert_rejected(claim, &status, Some(0), Reason::InvalidSignature);
        }
        for (claim, update) in &unavailable {
            let publish = server.begin_publish(transport, vec![update_envelope(update.clone())]);
            let status = publish.await.unwrap().expect_err(claim);
            assert_plain(claim, &status, Code::Unavailable);
            assert_silent_about(claim, &status, &[node.url().as_bytes()]);
        }
    }
    for (_, update) in refused.iter().chain(&unavailable) {
        assert_eq!(stored(&server, &inbox_topic(&update.inbox_id)).await, 0);
    }
    server.stop().await;
}

fn set_signature(update: &mut IdentityUpdate, signature: Signature) {
    use envelope::wire::xmtp::identity::associations::identity_action::Kind as Action;
    let Some(Action::CreateInbox(create)) = &mut update.actions[0].kind else {
        panic!("the update creates an inbox");
    };
    create.initial_identifier_signature = Some(signature);
}

/// A wallet that changes hands: its old owner's signature is valid at the blocks before, and stays valid
/// in the history (SEC-042).
#[tokio::test(flavor = "multi_thread")]
async fn a_signature_is_judged_at_its_block() {
    let before = Account::deployed(1, [0x31; 20]);
    let node = node(&[&before]).await;
    let after = before.signed_by(2);
    let code = after.code();
    let change = node.chain(|chain| chain.block(&[(after.address, &code)]));
    let server = server(&node).await;
    let create = UpdateBuilder::creating(&before, 0).build();
    let inbox = create.inbox_id.clone();
    ids(server.publish(vec![update_envelope(create)]).await);
    let add = |account: &Account, number| {
        let installation = Installation::numbered(number);
        let update = UpdateBuilder::new(&inbox)
            .at(number * 1_000_000_000)
            .add(account, &installation)
            .build();
        vec![update_envelope(update)]
    };
    for (account, valid) in [
        (before.at(change), false),
        (after.at(change - 1), false),
        (after.at(change), true),
        (before.at(change - 1), true),
    ] {
        let answer = server
            .publish(add(&account, account.block + 10 * u64::from(valid)))
            .await;
        match answer {
            Ok(_) => assert!(valid),
            Err(status) => {
                assert!(!valid, "{status}");
                assert_rejected("owner", &status, Some(0), Reason::InvalidSignature);
            }
        }
    }
    server.stop().await;
}

/// A history with a contract wallet's signature can be replayed only while its chain can be asked or
/// is remembered: until then nothing is added to it, by nobody's fault (case 138).
#[tokio::test(flavor = "multi_thread")]
async fn a_history_waits_for_its_chain() {
    let account = Account::deployed(1, [0x31; 20]);
    let key = Wallet::numbered(5);
    let node = node(&[&account]).await;
    let first = server(&node).await;
    let create = creation(&key);
    let topic = inbox_topic(&create.inbox_id);
    let inbox = create.inbox_id.clone();
    ids(first.publish(vec![update_envelope(create)]).await);
    let add = UpdateBuilder::new(&inbox).add(&key, &account).build();
    ids(first.publish(vec![update_envelope(add)]).await);
    let next = |number| {
        let update = UpdateBuilder::new(&inbox)
            .at(number * 1_000_000_000)
            .add(&key, &Installation::numbered(number))
            .build();
        vec![update_envelope(update)]
    };
    // The first server remembers; a new one has to ask.
    node.fault(Fault::Status(503));
    ids(first.publish(next(1)).await);
    let database = first.stop_keeping_database().await;
    let second = TestServer::builder()
        .table("chains", &node.route(CHAIN))
        .trust(vec![node.authority()])
        .database(database)
        .start()
        .await;
    let status = second.publish(next(2)).await.expect_err("no chain");
    assert_plain("no chain", &status, Code::Unavailable);
    assert_eq!(stored(&second, &topic).await, 3);
    // What is stored is a duplicate, chain or not.
    ids(second.publish(next(1)).await);
    node.fault(None);
    ids(second.publish(next(2)).await);
    assert_eq!(stored(&second, &topic).await, 4);
    second.stop().await;
}

async fn verify(
    server: &TestServer,
    transport: Transport,
    signatures: Vec<Question>,
) -> Result<Vec<Response>, Status> {
    let request = VerifySmartContractWalletSignaturesRequest { signatures };
    let answer: Result<VerifySmartContractWalletSignaturesResponse, _> = transport
        .call(
            server.address(),
            "IdentityService/VerifySmartContractWalletSignatures",
            &request,
        )
        .await;
    answer.map(|answer| answer.responses)
}

/// Questions are answered at their index, with the block that was judged at: the one named, or the
/// newest (cases 118, 120, 130). The answers of the chain are counted.
#[tokio::test(flavor = "multi_thread")]
async fn questions_are_answered_by_the_chain() {
    let account = Account::deployed(1, [0x31; 20]);
    let promised = Account::not_deployed(2);
    let node = node(&[&account]).await;
    node.chain(|chain| chain.mine_to(7));
    let server = server(&node).await;
    let digest = [0x5a; 32];
    let question = |account: &Account, block_number| Question {
        account_id: account.account_id(),
        block_number,
        hash: digest.to_vec().into(),
        signature: account.signature(&digest).into(),
    };
    let answer = |is_valid, block_number| Response {
        is_valid,
        block_number: Some(block_number),
        error: None,
    };
    for transport in Transport::ALL {
        let questions = vec![
            question(&account, None),
            question(&account.signed_by(9), Some(1)),
            question(&promised, Some(7)),
            question(&account, Some(0)),
        ];
        assert_eq!(
            verify(&server, transport, questions).await.unwrap(),
            [
                answer(true, 7),
                answer(false, 1),
                answer(true, 7),
                answer(false, 0)
            ]
        );
        let bad_address = Question {
            account_id: format!("eip155:{CHAIN}:0x00"),
            ..question(&account, None)
        };
        let status = verify(&server, transport, vec![bad_address])
            .await
            .unwrap_err();
        assert_plain("no address", &status, Code::InvalidArgument);
        let reverting = Question {
            account_id: format!("eip155:{CHAIN}:0x{}", hex::encode(BY_FIRST_BYTE)),
            signature: vec![2; 65].into(),
            ..question(&account, None)
        };
        let both = vec![question(&account, Some(1)), reverting];
        let status = verify(&server, transport, both).await.unwrap_err();
        assert_plain("one reverts", &status, Code::Unavailable);
    }
    let counted = |result| format!("xmtp_scw_verifications_total{{result=\"{result}\"}}");
    let transports = Transport::ALL.len() as u64;
    for (result, times) in [("valid", 3), ("invalid", 2), ("error", 2)] {
        assert_eq!(
            server.metric(&counted(result)).await,
            times * transports,
            "{result}"
        );
    }
    server.stop().await;
}

/// A request puts a bounded number of questions at a time, an update as well as a list.
#[tokio::test(flavor = "multi_thread")]
async fn questions_of_a_request_are_asked_sixteen_at_a_time() {
    let account = Account::deployed(1, [0x31; 20]);
    let node = node(&[&account]).await;
    node.fault(Fault::Held);
    let server = server(&node).await;
    let questions = (0..40)
        .map(|number| Question {
            account_id: account.account_id(),
            block_number: Some(1),
            hash: vec![number; 32].into(),
            signature: vec![1; 65].into(),
        })
        .collect();
    let (answers, ()) = tokio::join!(verify(&server, Transport::Native, questions), async {
        eventually("sixteen questions", async || node.calls() == 16).await;
        node.release();
    });
    assert_eq!(answers.unwrap().len(), 40);
    assert_eq!((node.calls(), node.most_open()), (40, 16));
    server.stop().await;
}

/// A node that does not answer holds a request no longer than the time of its checks, for publishes
/// and questions alike.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_node_is_not_waited_for() {
    let account = Account::deployed(1, [0x31; 20]);
    let node = node(&[&account]).await;
    node.fault(Fault::Silence);
    let server = TestServer::builder()
        .table("chains", &node.route(CHAIN))
        .trust(vec![node.authority()])
        .max_check_duration(Duration::from_millis(500))
        .start()
        .await;
    let create = UpdateBuilder::creating(&account, 0).build();
    let status = server
        .publish(vec![update_envelope(create)])
        .await
        .unwrap_err();
    assert_plain("a publish", &status, Code::Unavailable);
    let question = Question {
        account_id: account.account_id(),
        block_number: Some(1),
        hash: vec![1; 32].into(),
        signature: vec![1; 65].into(),
    };
    let status = verify(&server, Transport::Native, vec![question])
        .await
        .unwrap_err();
    assert_plain("a question", &status, Code::Unavailable);
    server.stop().await;
}
