//! What a subscription delivers: history above its cursor, then what comes, each envelope once and in
//! order (ARC-074 to ARC-078, API-100, API-103).

use envelope::wire::xmtp::backend::v1::ServerEnvelope;
use envelope::wire::xmtp::backend::v1::subscribe_static_response::Response as StaticFrame;
use harness::{StaticSubscription, Subscription, TestServer, Transport};
use sqlx::AssertSqlSafe;
use xmtp_backend::db::{GlobalLock, LOCK_CLASS};

use crate::given::{ids, message};
use crate::reading::{after, page_of, query};
use crate::storage::parsed;
use crate::subscribers::{of, received, received_on, store, topic, until_pong};

/// History first, then what is published while the stream is open, each once and in order: the
/// targets say where the history ended (ARC-075, ARC-076, API-100).
#[tokio::test]
async fn history_comes_first_and_then_live_envelopes() {
    let server = TestServer::start().await;
    let stored = store(&server, 1, 0..3).await;

    let mut stream = Subscription::start(server.address()).await;
    let (targets, early) = stream.add(&[(&topic(1), 0)]).await;
    assert_eq!((targets, early), (vec![stored[2]], vec![]));
    assert_eq!(received(&stream.envelopes(3).await), stored);

    let live = ids(server.publish(vec![message(1, 3), message(1, 4)]).await);
    assert_eq!(received(&stream.envelopes(2).await), live);
    server.stop().await;
}

/// Cursors at, below and above the head, and the greatest there is. The target is the head whatever
/// the cursor says, rows up to the cursor never come, also not those that are published later, and
/// every later row does (ARC-075, ARC-076).
#[tokio::test]
async fn the_cursor_filters_history_and_live_rows_and_the_target_is_the_head() {
    let server = TestServer::start().await;
    let before = store(&server, 1, 0..3).await;
    let head = before[2];
    let fence = topic(2);
    let cursors = [
        0,
        1,
        before[0],
        before[1],
        head - 1,
        head,
        head + 1,
        head + 3,
        i64::MAX.unsigned_abs(),
    ];
    let mut streams = Vec::new();
    for cursor in cursors {
        let mut stream = Subscription::start(server.address()).await;
        let (targets, early) = stream.add(&[(&topic(1), cursor), (&fence, 0)]).await;
        assert_eq!(targets, [head, 0], "after {cursor}");
        assert!(early.is_empty(), "{early:?}");
        streams.push((cursor, stream));
    }
    let later = store(&server, 1, 3..8).await;
    let last = ids(server.publish(vec![message(2, 0)]).await)[0];
    let all = [before, later].concat();
    for (cursor, mut stream) in streams {
        let expected: Vec<u64> = all.iter().copied().filter(|id| *id > cursor).collect();
        // Topics have no order between them: the fence may come while the other one catches up.
        let envelopes = stream.envelopes(expected.len() + 1).await;
        assert_eq!(
            received_on(&topic(1), &envelopes),
            expected,
            "after {cursor}"
        );
        assert_eq!(received_on(&fence, &envelopes), [last], "after {cursor}");
        assert!(until_pong(&mut stream, 0).await.is_empty());
    }
    server.stop().await;
}

/// The same over a static stream and every protocol: targets in request order, empty topics with 0,
/// and rows only above each cursor (ARC-084).
#[tokio::test]
async fn a_static_stream_obeys_its_cursors_too() {
    let server = TestServer::start().await;
    for (index, transport) in (0..).zip(Transport::ALL) {
        let (full, empty) = (10 + 2 * index, 11 + 2 * index);
        let before = store(&server, full, 0..3).await;
        let topics = vec![
            after(&topic(empty), 0),
            after(&topic(full), before[1]),
            after(&topic(1), before[2] + 2),
        ];
        let mut stream = StaticSubscription::open(transport, server.address(), topics)
            .await
            .unwrap();
        let StaticFrame::Started(started) = stream.next().await.unwrap() else {
            panic!("{transport:?}: the first frame is Started");
        };
        let targets = started.targets.iter();
        let targets: Vec<_> = targets
            .map(|target| {
                let topic = target.topic.as_ref().unwrap().topic.to_vec();
                (topic, target.through_sequence_id)
            })
            .collect();
        let head_of_one = newest(&server, 1).await;
        assert_eq!(
            targets,
            [
                (topic(empty), 0),
                (topic(full), before[2]),
                (topic(1), head_of_one)
            ],
            "{transport:?}"
        );
        // Two rows that the third cursor hides, and one that it does not.
        let hidden = store(&server, 1, index * 3..index * 3 + 3).await;
        let live = ids(server.publish(vec![message(empty, 3)]).await);
        let envelopes = stream.envelopes(3).await;
        assert_eq!(received_on(&topic(full), &envelopes), [before[2]]);
        assert_eq!(received_on(&topic(1), &envelopes), [hidden[2]]);
        assert_eq!(received_on(&topic(empty), &envelopes), live);
    }
    server.stop().await;
}

async fn newest(server: &TestServer, group: u64) -> u64 {
    let page = query(server, &page_of(vec![after(&topic(group), 0)], 0)).await;
    page.unwrap().envelopes.last().map_or(0, of)
}

/// A static stream over every protocol: the first frame with its targets leaves before anything is
/// published, and later envelopes come one by one on the open response (ARC-084, ARC-113).
#[tokio::test]
async fn a_static_stream_delivers_while_it_is_open() {
    let server = TestServer::start().await;
    for (group, transport) in (1..).zip(Transport::ALL) {
        let topics = vec![after(&topic(group), 0)];
        let mut stream = StaticSubscription::open(transport, server.address(), topics)
            .await
            .unwrap();
        let StaticFrame::Started(started) = stream.next().await.unwrap() else {
            panic!("{transport:?}: the first frame is Started");
        };
        assert_eq!(started.keepalive_interval_ms, 30_000);
        assert_eq!(started.targets[0].through_sequence_id, 0);
        for number in 0..2 {
            let published = ids(server.publish(vec![message(group, number)]).await);
            assert_eq!(received(&stream.envelopes(1).await), published);
        }
    }
    server.stop().await;
}

/// Everything a Query returns of an envelope, a subscription does too, from history and live: the
/// five kinds, key packages included, whose topics a Query refuses.
#[tokio::test]
async fn every_kind_is_delivered_with_complete_metadata() {
    let server = TestServer::start().await;
    let envelopes = envelope::fixtures::valid(1);
    let metas = crate::given::metas(server.publish(envelopes.to_vec()).await);
    let topics: Vec<Vec<u8>> = metas
        .iter()
        .map(|meta| meta.topic.as_ref().unwrap().topic.to_vec())
        .collect();
    let adds: Vec<(&[u8], u64)> = topics.iter().map(|topic| (topic.as_slice(), 0)).collect();
    let mut stream = Subscription::start(server.address()).await;
    let (targets, _) = stream.add(&adds).await;
    let stored: Vec<u64> = metas.iter().map(crate::given::id_of).collect();
    assert_eq!(targets, stored);
    let mut history = stream.envelopes(5).await;
    history.sort_by_key(of);
    let expected: Vec<_> = metas
        .iter()
        .zip(envelopes)
        .map(|(meta, envelope)| ServerEnvelope {
            meta: Some(meta.clone()),
            envelope: Some(envelope),
        })
        .collect();
    assert_eq!(history, expected);

    // Another installation's package is on another topic; a second message is live.
    let live = crate::given::metas(server.publish(vec![message(1, 1)]).await);
    let delivered = stream.envelopes(1).await;
    assert_eq!(delivered[0].meta.as_ref(), Some(&live[0]));
    assert_eq!(delivered[0].envelope, Some(message(1, 1)));
    server.stop().await;
}

/// Publishes race registrations: whichever side of the target a row falls on, it comes once and in
/// order, and the target is the last history row (ARC-076).
#[tokio::test]
async fn a_publish_that_races_the_registration_is_delivered_once() {
    let server = TestServer::builder()
        .table("streams", "poll_interval_ms = 1")
        .start()
        .await;
    for group in 1..=40 {
        let first = store(&server, group, 0..2).await;
        let mut stream = Subscription::start(server.address()).await;
        let racing = server.begin_publish(Transport::Native, vec![message(group, 2)]);
        let (targets, early) = stream.add(&[(&topic(group), 0)]).await;
        assert!(early.is_empty(), "{early:?}");
        let racing = ids(racing.await.unwrap());
        let after = ids(server.publish(vec![message(group, 3)]).await);
        let all = [first.clone(), racing.clone(), after].concat();
        assert_eq!(received(&stream.envelopes(4).await), all);
        assert!(
            targets[0] == first[1] || targets[0] == racing[0],
            "{targets:?} of {all:?}"
        );
    }
    server.stop().await;
}

/// A row that commits late, below one that was delivered already on another topic, is found and
/// delivered; the row above it did not wait. Method: a session of the test publishes as a server
/// does, barrier included, and keeps its transaction open (ARC-036, ARC-040).
#[tokio::test]
async fn a_late_commit_is_delivered_and_nothing_waits_for_it() {
    let server = TestServer::start().await;
    let mut stream = Subscription::start(server.address()).await;
    stream.add(&[(&topic(1), 0), (&topic(2), 0)]).await;
    let late = parsed(message(1, 0));
    let mut session = server.database().connection().await;
    let begin = format!(
        "BEGIN; SELECT pg_advisory_xact_lock_shared({LOCK_CLASS}, {})",
        GlobalLock::Barrier.number()
    );
    sqlx::raw_sql(AssertSqlSafe(begin))
        .execute(&mut session)
        .await
        .unwrap();
    let open: i64 = sqlx::query_scalar(
        "INSERT INTO envelopes
         VALUES (nextval('envelope_sequence'), $1, 1, null, $2, false, $3)
         RETURNING sequence_id",
    )
    .bind(late.topic.as_bytes())
    .bind(late.hash.as_bytes().as_slice())
    .bind(late.canonical.as_ref())
    .fetch_one(&mut session)
    .await
    .unwrap();

    let above = ids(server.publish(vec![message(2, 0)]).await);
    assert!(above[0] > open.unsigned_abs());
    assert_eq!(received(&stream.envelopes(1).await), above);
    sqlx::raw_sql("COMMIT").execute(&mut session).await.unwrap();
    assert_eq!(received(&stream.envelopes(1).await), [open.unsigned_abs()]);
    server.stop().await;
}
