//! What a stranger can make the server spend on one request: memory while it is decoded, and time
//! while it is checked (ARC-010, ARC-051).

use std::fs;
use std::path::Path;
use std::time::Duration;

use envelope::fixtures::{ContractWallet, Installation, UpdateBuilder, Wallet, update_envelope};
use envelope::wire::xmtp::backend::v1::publish_error::Reason;
use envelope::wire::xmtp::identity::associations::IdentityUpdate;
use envelope::wire::xmtp::identity::associations::identity_action::Kind;
use harness::{AskedWallets, RawMessage, TestServer, Transport};
use tonic::{Code, Status};

use crate::given::{creation, ids, message};
use crate::refusal::{assert_plain, assert_rejected};

const PUBLISH: &str = "PublishService/Publish";

/// A field with a length: one of number below 16, around `content`.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    prost::encoding::encode_varint(content.len() as u64, &mut bytes);
    bytes.extend_from_slice(content);
    bytes
}

async fn refusal(server: &TestServer, transport: Transport, method: &str, body: Vec<u8>) -> Status {
    let request = RawMessage::from(body);
    let answer: Result<RawMessage, _> = transport.call(server.address(), method, &request).await;
    answer.expect_err(method)
}

/// Two mebibytes of empty elements in every list of every served request: refused before they are
/// decoded, as a request that is too large, and with the reason where a publish has one. What
/// would be refused for its number of elements anyway is refused alike.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_would_grow_far_beyond_their_length_are_refused() {
    let server = TestServer::start().await;
    let many = |element: Vec<u8>| element.repeat((2 << 20) / element.len());
    let actions = field(1, &field(4, &many(field(1, &[]))));
    let additions = field(1, &field(4, &many(field(1, &field(2, &[])))));
    let envelopes = many(field(1, &[]));
    for transport in Transport::ALL {
        for (claim, body) in [
            ("actions", &actions),
            ("additions", &additions),
            ("envelopes", &envelopes),
        ] {
            let status = refusal(&server, transport, PUBLISH, body.clone()).await;
            assert_rejected(claim, &status, None, Reason::TooLarge);
        }
        for method in [
            "QueryService/Query",
            "QueryService/QueryNewest",
            "IdentityService/GetInboxIds",
            "IdentityService/VerifySmartContractWalletSignatures",
        ] {
            let status = refusal(&server, transport, method, many(field(1, &[]))).await;
            assert_plain(method, &status, Code::InvalidArgument);
            assert_eq!(
                status.message(),
                "message has too many elements for its length",
                "{method}"
            );
        }
    }
    ids(server.publish(vec![message(1, 1)]).await);
    server.stop().await;
}

/// Publishes what takes far less than the time of the checks, however busy the machine is.
async fn publish_in_time(server: &TestServer, update: IdentityUpdate) {
    for _ in 0..100 {
        match server.publish(vec![update_envelope(update.clone())]).await {
            Ok(_) => return,
            Err(status) => assert_plain("busy", &status, Code::DeadlineExceeded),
        }
    }
    panic!("a core was never free");
}

/// Two thousand signatures, each by another wallet, with no time to verify them: the
/// publish ends when its time is up, nothing is stored, and the core that verified is free again for
/// others (ARC-051).
#[tokio::test(flavor = "multi_thread")]
async fn checks_end_when_their_time_is_up() {
    let owner = Wallet::numbered(1);
    let others: Vec<_> = (2..2_000).map(Wallet::numbered).collect();
    let inbox = creation(&owner);
    let additions = others
        .iter()
        .fold(UpdateBuilder::new(&inbox.inbox_id), |update, other| {
            update.add(&owner, other)
        })
        .build();
    let server = TestServer::builder()
        .max_check_duration(Duration::from_millis(50))
        .start()
        .await;
    publish_in_time(&server, inbox.clone()).await;
    for transport in [Transport::Native, Transport::ALL[1]] {
        // More of them than there are cores: none keeps its core beyond its time.
        let running: Vec<_> = (0..4)
            .map(|_| server.begin_publish(transport, vec![update_envelope(additions.clone())]))
            .collect();
        for publish in running {
            let status = publish.await.unwrap().expect_err("no time");
            assert_plain("no time to check", &status, Code::DeadlineExceeded);
        }
    }
    let update = UpdateBuilder::new(&inbox.inbox_id)
        .add(&owner, &Installation::numbered(1))
        .build();
    publish_in_time(&server, update).await;
    server.stop().await;
}

/// Checks of long updates take turns on half of the cores, and the check of a short one does not wait
/// behind them: with every turn of the long ones taken, somebody else publishes (ARC-051).
#[tokio::test(flavor = "multi_thread")]
async fn long_checks_keep_nobody_else_waiting() {
    let (wallets, mut questions) = AskedWallets::new();
    let server = TestServer::builder().wallets(wallets).start().await;
    let turns = std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1));
    let long: Vec<_> = (0..turns + 2)
        .map(|number| {
            let wallet = ContractWallet::numbered(number as u64, 1);
            let mut update = UpdateBuilder::creating(&wallet, 0).build();
            let Some(Kind::CreateInbox(create)) = &mut update.actions[0].kind else {
                panic!("the update creates an inbox");
            };
            // For display only: it makes the update long and changes nothing else.
            create.relying_party = Some("x".repeat(300 * 1024));
            server.begin_publish(Transport::Native, vec![update_envelope(update)])
        })
        .collect();
    let mut held = Vec::new();
    for _ in 0..turns {
        held.push(questions.next().await);
    }
    let short = creation(&Wallet::numbered(1));
    ids(server.publish(vec![update_envelope(short)]).await);
    assert!(questions.waiting().is_none(), "the others wait for a turn");
    for question in held {
        question.answer(Ok(true));
    }
    for _ in 0..2 {
        questions.next().await.answer(Ok(true));
    }
    for publish in long {
        ids(publish.await.unwrap());
    }
    server.stop().await;
}

/// A contract wallet that does not answer within the time of the checks is one that cannot be asked
/// (ARC-091).
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_contract_wallet_is_waited_for_as_long_as_checks_may_take() {
    let (wallets, mut questions) = AskedWallets::new();
    let server = TestServer::builder()
        .wallets(wallets)
        .max_check_duration(Duration::from_millis(250))
        .start()
        .await;
    let wallet = ContractWallet::numbered(1, 1);
    let update = UpdateBuilder::creating(&wallet, 0).build();
    let publish = server.begin_publish(Transport::Native, vec![update_envelope(update)]);
    let question = questions.next().await;
    let status = publish.await.unwrap().expect_err("no verdict");
    assert_plain("no verdict in time", &status, Code::Unavailable);
    drop(question);
    server.stop().await;
}

/// Every test that the table of limits names is there, so that the table cannot promise more than is
/// shown.
#[test]
fn every_limit_of_the_table_has_its_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = fs::read_to_string(root.join("docs/limits.md")).unwrap();
    let mut sources = String::new();
    for folder in ["tests", "src", "envelope/tests"] {
        read_sources(&root.join(folder), &mut sources);
    }
    let rows: Vec<_> = table
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| ---"))
        .filter_map(|line| line.trim_end_matches(" |").rsplit_once(" | "))
        .filter(|(_, tests)| *tests != "Test")
        .collect();
    assert!(rows.len() > 20, "the table is read: {} rows", rows.len());
    for (row, tests) in rows {
        for test in tests.split(", ") {
            let definition = format!("fn {}()", test.trim_matches('`'));
            assert!(sources.contains(&definition), "{row}: {test}");
        }
    }
}

fn read_sources(folder: &Path, sources: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}
