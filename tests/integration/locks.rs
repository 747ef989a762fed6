//! Which locks a publish takes, in which order, and how long it keeps them (ARC-030 to ARC-032,
//! ARC-039, ARC-040).

use std::sync::Arc;

use envelope::fixtures::{Wallet, update_envelope};
use harness::{AdvisoryLock, LockState, TestServer, Transport};
use xmtp_backend::db::GlobalLock;

use crate::given::{creation, group_topic, ids, inbox_topic, message};
use crate::storage::{FOREIGN_ID, UncommittedRow};

const IDENTITY: AdvisoryLock = AdvisoryLock::Global(GlobalLock::Identity.number());
const BARRIER: AdvisoryLock = AdvisoryLock::Global(GlobalLock::Barrier.number());

fn lock_of_group(group: u64) -> AdvisoryLock {
    AdvisoryLock::of_topic(group_topic(group).as_bytes())
}

/// Locks without the sessions that hold them, as lock, shared, granted.
fn without_sessions(states: &[LockState]) -> Vec<(AdvisoryLock, bool, bool)> {
    states
        .iter()
        .map(|state| (state.lock, state.shared, state.granted))
        .collect()
}

/// A publish is caught at its very end, when it has allocated its ids and inserts. It holds each
/// topic once, the identity lock only with an identity update, and the barrier shared; and all of
/// them are free when it is answered (ARC-031, ARC-032, ARC-039).
#[tokio::test]
async fn a_publish_holds_all_its_locks_to_its_end_and_none_after() {
    let server = TestServer::start().await;
    let database = server.database();
    let locks = database.advisory_locks().await;
    let created = creation(&Wallet::numbered(1));
    let inbox = AdvisoryLock::of_topic(inbox_topic(&created.inbox_id).as_bytes());
    for (round, update, extra) in [
        (1, None, vec![]),
        (
            2,
            Some(update_envelope(created)),
            vec![(IDENTITY, false, true), (inbox, false, true)],
        ),
    ] {
        let messages = [(1, 0), (2, 0), (1, 1), (3, 0)];
        let late = message(3, 100 + round);
        let envelopes = messages
            .map(|(group, number)| message(group, round * 10 + number))
            .into_iter()
            .chain(update)
            .chain([late.clone()])
            .collect();
        let row = UncommittedRow::insert(database, late, FOREIGN_ID).await;
        let publish = server.begin_publish(Transport::Native, envelopes);
        UncommittedRow::until_waiting(database, 1).await;

        let mut expected = extra;
        expected.push((BARRIER, true, true));
        expected.extend([1, 2, 3].map(|group| (lock_of_group(group), false, true)));
        expected.sort_unstable();
        let states = locks.states().await;
        assert_eq!(without_sessions(&states), expected);
        let pid = states[0].pid;
        assert!(
            states.iter().all(|state| state.pid == pid),
            "one connection"
        );

        row.roll_back().await;
        ids(publish.await.unwrap());
        assert_eq!(locks.states().await, [], "free when the answer is there");
    }
    server.stop().await;
}

/// A publish of eight topics is made to wait for each of its locks in turn. What comes before in the
/// order is held, what comes after is not touched: identity first, topics by key, the barrier last,
/// and nothing is allocated before that (ARC-030, ARC-031).
#[tokio::test]
async fn locks_are_taken_in_one_order() {
    let server = TestServer::start().await;
    let locks = server.database().advisory_locks().await;
    for place in 0..10 {
        let created = creation(&Wallet::numbered(place));
        let mut topics = vec![AdvisoryLock::of_topic(
            inbox_topic(&created.inbox_id).as_bytes(),
        )];
        topics.extend((1..=7).map(lock_of_group));
        topics.sort_unstable();
        let order = [&[IDENTITY][..], &topics, &[BARRIER]].concat();
        let (before, rest) = order.split_at(usize::try_from(place).unwrap());
        let allocated = server.database().last_allocated().await;

        let held = locks.hold(rest[0]).await;
        let messages = (1..=7).rev().map(|group| message(group, place));
        let envelopes = messages.chain([update_envelope(created)]).collect();
        let publish = server.begin_publish(Transport::Native, envelopes);
        locks.until_waiting(rest[0], 1).await;
        let mut states = locks.states().await;
        let waiter = states.iter().find(|state| !state.granted).unwrap().pid;
        states.retain(|state| state.pid == waiter && state.granted);
        let mut expected: Vec<_> = before.iter().map(|lock| (*lock, false, true)).collect();
        expected.sort_unstable();
        assert_eq!(
            without_sessions(&states),
            expected,
            "waiting for lock {place}"
        );
        assert_eq!(server.database().last_allocated().await, allocated);

        held.release().await;
        assert_eq!(ids(publish.await.unwrap()).len(), 8);
    }
    server.stop().await;
}

/// A request of stored envelopes only is answered while somebody holds every lock it could want
/// (API-036).
#[tokio::test]
async fn known_duplicates_wait_for_no_lock() {
    let server = TestServer::start().await;
    let locks = server.database().advisory_locks().await;
    let created = creation(&Wallet::numbered(1));
    let inbox = AdvisoryLock::of_topic(inbox_topic(&created.inbox_id).as_bytes());
    let envelopes = vec![message(1, 1), update_envelope(created)];
    let stored = ids(server.publish(envelopes.clone()).await);
    let mut held = Vec::new();
    for lock in [IDENTITY, inbox, lock_of_group(1), BARRIER] {
        held.push(locks.hold(lock).await);
    }
    assert_eq!(ids(server.publish(envelopes).await), stored);
    server.stop().await;
}

/// Publishes with the same topics in opposite orders, all at once: none of them may deadlock, by
/// their answers and by the database's own count (ARC-031).
#[tokio::test(flavor = "multi_thread")]
async fn publishes_with_opposite_topic_orders_never_deadlock() {
    const CLIENTS: u64 = 12;
    const ROUNDS: u64 = 20;
    let server = Arc::new(TestServer::start().await);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let server = Arc::clone(&server);
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let mut envelopes: Vec<_> = (0..10)
                        .map(|group| message(group, client * ROUNDS + round))
                        .collect();
                    if client % 2 == 1 {
                        envelopes.reverse();
                    }
                    assert_eq!(ids(server.publish(envelopes).await).len(), 10);
                }
            })
        })
        .collect();
    for client in clients {
        client.await.unwrap();
    }
    let deadlocks: i64 = sqlx::query_scalar(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
    )
    .fetch_one(&mut server.database().connection().await)
    .await
    .unwrap();
    assert_eq!(deadlocks, 0);
    Arc::into_inner(server).unwrap().stop().await;
}

/// While one identity publish is open, one of another inbox waits for it, and every other publish
/// passes. Ids follow the order of commits across inboxes (ARC-032, API-014).
#[tokio::test]
async fn identity_publishes_wait_for_each_other_and_others_for_none() {
    let server = TestServer::start().await;
    let locks = server.database().advisory_locks().await;
    let updates = [1, 2].map(|number| creation(&Wallet::numbered(number)));
    let topic = AdvisoryLock::of_topic(inbox_topic(&updates[0].inbox_id).as_bytes());
    let [one, two] = updates.map(update_envelope);

    let held = locks.hold(topic).await;
    let first = server.begin_publish(Transport::Native, vec![one]);
    locks.until_waiting(topic, 1).await;
    let second = server.begin_publish(Transport::Native, vec![two]);
    locks.until_waiting(IDENTITY, 1).await;
    let passed = ids(server.publish(vec![message(1, 1)]).await);
    held.release().await;

    let (first, second) = (ids(first.await.unwrap()), ids(second.await.unwrap()));
    assert!(
        passed < first && first < second,
        "{passed:?} {first:?} {second:?}"
    );
    server.stop().await;
}

/// While the boundary task's exclusive barrier is held, a publish waits for it last: its topics are
/// locked, and the sequence has not moved. Then it completes (ARC-030, ARC-039).
#[tokio::test]
async fn nothing_is_allocated_under_the_exclusive_barrier() {
    let server = TestServer::start().await;
    let locks = server.database().advisory_locks().await;
    let held = locks.hold(BARRIER).await;
    let publishes =
        [1, 2].map(|group| server.begin_publish(Transport::Native, vec![message(group, 1)]));
    locks.until_waiting(BARRIER, 2).await;
    for group in [1, 2] {
        assert!(locks.is_held(lock_of_group(group)).await);
    }
    assert_eq!(server.database().last_allocated().await, 0);
    held.release().await;
    let mut stored = Vec::new();
    for publish in publishes {
        stored.extend(ids(publish.await.unwrap()));
    }
    stored.sort_unstable();
    assert_eq!(stored, [1, 2]);
    server.stop().await;
}

/// Two publishers that have allocated hold the barrier together. A boundary task that comes now
/// waits for both, and those who come after it wait for it (ARC-039).
#[tokio::test]
async fn publishers_share_the_barrier_and_the_boundary_task_waits_for_them() {
    let server = TestServer::start().await;
    let database = server.database();
    let locks = database.advisory_locks().await;
    let mut rows = Vec::new();
    let mut publishes = Vec::new();
    for group in [1, 2] {
        let id = FOREIGN_ID + i64::try_from(group).unwrap();
        rows.push(UncommittedRow::insert(database, message(group, 1), id).await);
        publishes.push(server.begin_publish(Transport::Native, vec![message(group, 1)]));
    }
    UncommittedRow::until_waiting(database, 2).await;
    assert_eq!(database.last_allocated().await, 2, "both have their ids");

    // Does not come true if the barrier is given while publishers have ids open.
    let (held, ()) = tokio::join!(locks.hold(BARRIER), async {
        locks.until_waiting(BARRIER, 1).await;
        publishes.push(server.begin_publish(Transport::Native, vec![message(3, 1)]));
        locks.until_waiting(BARRIER, 2).await;
        for row in rows {
            row.roll_back().await;
        }
    });
    assert_eq!(
        database.last_allocated().await,
        2,
        "the late one has no id yet"
    );
    held.release().await;
    let mut stored = Vec::new();
    for publish in publishes {
        stored.extend(ids(publish.await.unwrap()));
    }
    assert_eq!(stored[2], 3);
    server.stop().await;
}
