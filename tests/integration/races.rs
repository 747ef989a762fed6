//! Publishes that meet: duplicates and histories that change while somebody works (ARC-111).
//!
//! Every race is set up by a lock that the test holds, or by a contract wallet that does not answer
//! until the test says so, and goes on when PostgreSQL shows who waits.

use std::collections::HashSet;

use envelope::fixtures::{
    ContractWallet, Installation, KeyPackageBuilder, UpdateBuilder, Wallet, update_envelope,
};
use envelope::scw::VerifierError;
use envelope::wire::xmtp::backend::v1::publish_error::Reason;
use harness::{AdvisoryLock, AskedWallets, TestServer, Transport};
use tonic::Code;
use xmtp_backend::db::GlobalLock;

use crate::given::{
    code, confirmation, creation, group_topic, id_of, ids, inbox_topic, message, metas, rejection,
};
use crate::storage::store_unchecked;

fn lock_of_group(group: u64) -> AdvisoryLock {
    AdvisoryLock::of_topic(group_topic(group).as_bytes())
}

/// Eight clients send the same envelope over all protocols and none finds it stored; all wait for
/// the topic. One row results, and all get its metadata (ARC-050, ARC-111, API-033).
#[tokio::test]
async fn identical_publishes_at_once_keep_one_row() {
    let server = TestServer::start().await;
    let locks = server.database().advisory_locks().await;
    let held = locks.hold(lock_of_group(1)).await;
    let publishes: Vec<_> = Transport::ALL
        .into_iter()
        .chain(Transport::ALL)
        .map(|transport| server.begin_publish(transport, vec![message(1, 1)]))
        .collect();
    locks.until_waiting(lock_of_group(1), 8).await;
    held.release().await;

    let mut answers = HashSet::new();
    for publish in publishes {
        let [meta] = metas(publish.await.unwrap()).try_into().unwrap();
        answers.insert((id_of(&meta), meta.server_ns, meta.expiry_ns));
    }
    assert_eq!(answers.len(), 1, "every publisher gets the same metadata");
    assert_eq!(server.database().count("envelopes").await, 1);
    let counted = async |outcome| {
        let series = format!("xmtp_publish_envelopes_total{{outcome=\"{outcome}\"}}");
        server.metric(&series).await
    };
    assert_eq!(counted("stored").await, 1);
    assert_eq!(counted("duplicate").await, 7);
    server.stop().await;
}

/// Two requests share one envelope and each has one of its own, on the same topic. Both succeed,
/// the shared one is stored once, and each answer follows its own input order (ARC-111, API-034).
#[tokio::test]
async fn a_race_of_overlapping_publishes_stores_each_envelope_once() {
    let server = TestServer::start().await;
    let locks = server.database().advisory_locks().await;
    let held = locks.hold(lock_of_group(1)).await;
    let requests = [[1, 2], [3, 2]];
    let mut publishes = Vec::new();
    for (waiting, numbers) in (1..).zip(requests) {
        let envelopes = numbers.map(|number| message(1, number)).to_vec();
        publishes.push(server.begin_publish(Transport::Native, envelopes));
        // One after the other, so that the first of them gets the lock first.
        locks.until_waiting(lock_of_group(1), waiting).await;
    }
    held.release().await;

    let mut answers = Vec::new();
    for publish in publishes {
        answers.push(ids(publish.await.unwrap()));
    }
    let [[one, two], [three, again]] =
        [0, 1].map(|i| <[u64; 2]>::try_from(&answers[i][..]).unwrap());
    assert_eq!(two, again, "the shared envelope has one id");
    assert!(one < two && two < three, "{answers:?}");
    assert_eq!(server.database().count("envelopes").await, 3);
    server.stop().await;
}

/// A key package that expired before its publisher looked is a duplicate all the same when another
/// server stored it meanwhile; without that it is rejected (ARC-111, API-036).
#[tokio::test]
async fn a_concurrent_duplicate_of_an_expired_key_package_succeeds() {
    let early = TestServer::builder().at_unix_seconds(1_000).start().await;
    let late = TestServer::builder()
        .at_unix_seconds(2_000)
        .database(early.database().share())
        .start()
        .await;
    let package = |number| {
        let builder = KeyPackageBuilder::new(&Installation::numbered(number), "inbox");
        builder.lifetime(500, 1_500).envelope()
    };
    let topic = [&[3][..], &Installation::numbered(1).public_key()].concat();
    let lock = AdvisoryLock::of_topic(&topic);

    let locks = early.database().advisory_locks().await;
    let held = locks.hold(lock).await;
    let valid = early.begin_publish(Transport::Native, vec![package(1)]);
    locks.until_waiting(lock, 1).await;
    let expired = late.begin_publish(Transport::Native, vec![package(1)]);
    locks.until_waiting(lock, 2).await;
    held.release().await;

    let stored = metas(valid.await.unwrap());
    assert_eq!(metas(expired.await.unwrap()), stored);
    let other = late.publish(vec![package(2)]).await;
    assert_eq!(rejection(other), (Some(0), Reason::InvalidKeyPackage));
    late.stop_keeping_database().await;
    early.stop().await;
}

/// Two publishes carry an update that a contract wallet must vouch for. The second is stored while
/// the first one's chain call is open, then that call fails: the first is a duplicate, and not
/// unavailable (ARC-111, API-044).
#[tokio::test]
async fn a_concurrent_duplicate_of_an_update_nobody_can_verify_succeeds() {
    for transport in Transport::ALL {
        let (wallets, mut questions) = AskedWallets::new();
        let server = TestServer::builder().wallets(wallets).start().await;
        let contract = ContractWallet::numbered(1, 1);
        let update = update_envelope(UpdateBuilder::creating(&contract, 0).build());

        let first = server.begin_publish(transport, vec![update.clone()]);
        let open = questions.next().await;
        let second = server.begin_publish(transport, vec![update.clone()]);
        questions.next().await.answer(Ok(true));
        let stored = metas(second.await.unwrap());
        open.answer(Err(VerifierError::Provider));

        assert_eq!(metas(first.await.unwrap()), stored, "{transport:?}");
        assert_eq!(server.database().count("envelopes").await, 1);
        server.stop().await;
    }
}

/// Without a duplicate the same failure of the chain is the publish's own, and retryable (ARC-091).
#[tokio::test]
async fn an_update_nobody_can_verify_is_unavailable_and_not_stored() {
    for error in [
        VerifierError::Provider,
        VerifierError::Io,
        VerifierError::NoRoute,
    ] {
        let (wallets, mut questions) = AskedWallets::new();
        let server = TestServer::builder().wallets(wallets).start().await;
        let contract = ContractWallet::numbered(1, 1);
        let update = update_envelope(UpdateBuilder::creating(&contract, 0).build());
        let publish = server.begin_publish(Transport::Native, vec![update, message(1, 1)]);
        questions.next().await.answer(Err(error));
        assert_eq!(code(publish.await.unwrap()), Code::Unavailable, "{error}");
        assert_eq!(server.database().count("envelopes").await, 0);
        server.stop().await;
    }
}

/// An update that is stored between a publish's look and its own check fails that check, because it
/// is part of the history by then. It is a duplicate nevertheless. The chain call of another update
/// of the request holds the check back (ARC-111, API-036).
#[tokio::test]
async fn a_concurrent_duplicate_of_an_update_already_applied_succeeds() {
    let (wallets, mut questions) = AskedWallets::new();
    let server = TestServer::builder().wallets(wallets).start().await;
    let vouched =
        update_envelope(UpdateBuilder::creating(&ContractWallet::numbered(1, 1), 0).build());
    let plain = update_envelope(creation(&Wallet::numbered(2)));

    let both = server.begin_publish(Transport::Native, vec![vouched, plain.clone()]);
    let open = questions.next().await;
    let [stored] = metas(server.publish(vec![plain]).await).try_into().unwrap();
    open.answer(Ok(true));

    let [vouched, duplicate] = metas(both.await.unwrap()).try_into().unwrap();
    assert_eq!(duplicate, stored);
    assert!(id_of(&vouched) > id_of(&stored));
    assert_eq!(server.database().count("envelopes").await, 2);
    server.stop().await;
}

/// An inbox that changes while an update of it is checked aborts the publish and everything in it,
/// whatever the check found: the verdict was about another history (ARC-111, API-051).
#[tokio::test]
async fn a_history_that_moves_during_the_check_aborts_the_publish() {
    for verdict in [Ok(true), Ok(false), Err(VerifierError::Provider)] {
        for transport in Transport::ALL {
            let (wallets, mut questions) = AskedWallets::new();
            let server = TestServer::builder().wallets(wallets).start().await;
            let wallet = Wallet::numbered(1);
            let created = creation(&wallet);
            let inbox_id = created.inbox_id.clone();
            metas(server.publish(vec![update_envelope(created)]).await);

            let adding = UpdateBuilder::new(&inbox_id)
                .add(&wallet, &ContractWallet::numbered(1, 1))
                .build();
            let late = vec![message(1, 1), update_envelope(adding)];
            let late = server.begin_publish(transport, late);
            let open = questions.next().await;
            metas(
                server
                    .publish(vec![confirmation(&wallet, &inbox_id, 1)])
                    .await,
            );
            open.answer(verdict);

            let answer = late.await.unwrap();
            let status = answer.expect_err("the history moved");
            assert_eq!(
                status.code(),
                Code::Aborted,
                "{transport:?}, {verdict:?}: {status}"
            );
            assert!(
                status.details().is_empty(),
                "no detail but with a rejection"
            );
            assert_eq!(server.database().count("envelopes").await, 2);
            assert_eq!(server.database().count("topic_watermark").await, 1);
            assert_eq!(server.database().count("identifier_association").await, 1);
            server.stop().await;
        }
    }
}

/// Two updates of one inbox are checked against the same history, then wait for their locks. The
/// first is stored; the second must notice (ARC-032, ARC-111).
#[tokio::test]
async fn a_history_that_moves_during_the_wait_for_locks_aborts_the_publish() {
    let server = TestServer::start().await;
    let wallet = Wallet::numbered(1);
    let created = creation(&wallet);
    let inbox_id = created.inbox_id.clone();
    metas(server.publish(vec![update_envelope(created)]).await);
    let topic = AdvisoryLock::of_topic(inbox_topic(&inbox_id).as_bytes());
    let identity = AdvisoryLock::from(GlobalLock::Identity);

    let locks = server.database().advisory_locks().await;
    let held = locks.hold(topic).await;
    let update = |number| vec![confirmation(&wallet, &inbox_id, number), message(1, number)];
    let first = server.begin_publish(Transport::Native, update(1));
    locks.until_waiting(topic, 1).await;
    let second = server.begin_publish(Transport::Native, update(2));
    locks.until_waiting(identity, 1).await;
    held.release().await;

    assert_eq!(metas(first.await.unwrap()).len(), 2);
    assert_eq!(code(second.await.unwrap()), Code::Aborted);
    assert_eq!(server.database().count("envelopes").await, 3);
    server.stop().await;
}

/// Fills an inbox up to one below a limit, then tries: the last that fits is stored, the next is not,
/// and a repetition of the last is a duplicate still (API-148, ARC-111).
async fn fill_inbox(server: &TestServer, limit: u64) {
    let wallet = Wallet::numbered(1);
    let created = creation(&wallet);
    let inbox_id = created.inbox_id.clone();
    let numbered = |number| match number {
        1 => update_envelope(created.clone()),
        number => confirmation(&wallet, &inbox_id, number),
    };
    // Every publish replays all that is there, so only the publishes that matter are made.
    store_unchecked(server.database(), (1..limit).map(numbered).collect()).await;

    let last = numbered(limit);
    let stored = metas(server.publish(vec![last.clone()]).await);
    let one_more = vec![message(1, 1), numbered(limit + 1)];
    let answer = server.publish(one_more).await;
    assert_eq!(rejection(answer), (Some(1), Reason::InvalidIdentityUpdate));
    assert_eq!(metas(server.publish(vec![last.clone()]).await), stored);
    let mixed = vec![message(1, 2), last];
    assert_eq!(metas(server.publish(mixed).await)[1..], stored);
    let updates = i64::try_from(limit).unwrap();
    assert_eq!(server.database().count("envelopes").await, updates + 1);
}

/// The limit on updates of an inbox, lowered, at its value and one past it (API-148).
#[tokio::test]
async fn an_inbox_takes_as_many_updates_as_the_limit() {
    for limit in [2, 5] {
        let lines = format!("max_identity_entries = {limit}");
        let server = TestServer::builder().table("limits", &lines).start().await;
        fill_inbox(&server, limit).await;
        server.stop().await;
    }
}

/// Unless configured otherwise, update 256 is stored and update 257 is not (API-148).
#[tokio::test]
async fn an_inbox_takes_256_updates_by_default() {
    let server = TestServer::start().await;
    fill_inbox(&server, 256).await;
    server.stop().await;
}

/// The last free place of an inbox is taken by another server while a duplicate of that update
/// waits: the duplicate's own check found room, and it succeeds at the cap (ARC-111).
#[tokio::test]
async fn a_concurrent_duplicate_at_the_cap_succeeds() {
    let server = TestServer::builder()
        .table("limits", "max_identity_entries = 2")
        .start()
        .await;
    let wallet = Wallet::numbered(1);
    let created = creation(&wallet);
    let inbox_id = created.inbox_id.clone();
    metas(server.publish(vec![update_envelope(created)]).await);
    let topic = AdvisoryLock::of_topic(inbox_topic(&inbox_id).as_bytes());
    let locks = server.database().advisory_locks().await;
    let held = locks.hold(topic).await;
    let last = || vec![confirmation(&wallet, &inbox_id, 2)];
    let first = server.begin_publish(Transport::Native, last());
    locks.until_waiting(topic, 1).await;
    let second = server.begin_publish(Transport::Native, last());
    locks.until_waiting(GlobalLock::Identity.into(), 1).await;
    held.release().await;
    assert_eq!(metas(first.await.unwrap()), metas(second.await.unwrap()));
    assert_eq!(server.database().count("envelopes").await, 2);
    server.stop().await;
}
