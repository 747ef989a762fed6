//! The boundary task: it closes the log when it can, waits when it cannot, and is in nobody's way
//! for long (ARC-039, ARC-040, ARC-042).

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use harness::{
    AdvisoryLock, Relay, Sessions, Subscription, TestDatabase, TestServer, Transport, eventually,
};
use tonic::Code;
use xmtp_backend::clock::Clock;
use xmtp_backend::config;
use xmtp_backend::db::{Advance, Error, GlobalLock, Invariant, Operation};
use xmtp_backend::metrics::Metrics;
use xmtp_backend::streams::{Add, ClientFrame, Frame, Parts, Streams, Update};

use crate::following::{
    CLOSED, FAILED, GAPS, GENERATIONS, POLLS, READY, TIMED_OUT, assert_streams_are_refused,
    delivered, ended, follow, until_at_least, until_is,
};
use crate::given::{ids, message};
use crate::storage::open;
use crate::tailing::{OpenPublish, Publishers, close, text, topic};

const BARRIER: AdvisoryLock = AdvisoryLock::Global(GlobalLock::Barrier.number());

/// A stream of topics A and B, and publishers beside the server.
async fn followed(server: &TestServer) -> (Subscription, Publishers) {
    let (stream, _) = follow(server.address(), "AB", 0).await;
    (stream, Publishers::of(server.database()))
}

/// `A1+, B2 c`, and B2 has arrived.
async fn with_a_gap(stream: &mut Subscription, publishers: &mut Publishers) -> OpenPublish {
    let open = publishers.open("A").await;
    let published = publishers.publish("B").await;
    assert_eq!(delivered(&stream.envelopes(1).await), text(&published));
    open
}

/// The wait for the barrier ends by its own bound (55P03) or by that of every statement (57014),
/// whichever is shorter. Both say the same, and leave a connection that works: the pool has only it.
#[tokio::test]
async fn either_timeout_of_the_barrier_leaves_the_connection_usable() {
    const SHORT: Duration = Duration::from_millis(300);
    const LONG: Duration = Duration::from_secs(30);
    for (max_barrier_wait, max_statement_timeout) in [(SHORT, LONG), (LONG, SHORT)] {
        let database = TestDatabase::create().await;
        let (storage, released) = open(&database, |settings| {
            settings.max_barrier_wait = max_barrier_wait;
            settings.max_statement_timeout = max_statement_timeout;
        });
        let mut publishers = Publishers::of(&database);
        let a1 = publishers.open("A").await;
        let backend = "SELECT pg_backend_pid()";
        let pool = storage.pools().primary();
        let before: i32 = sqlx::query_scalar(backend).fetch_one(pool).await.unwrap();
        match storage.advance_boundary().await {
            Ok(Advance::LockTimeout { waited }) => assert!(waited >= SHORT, "{waited:?}"),
            other => panic!("{max_barrier_wait:?}: {other:?}"),
        }
        a1.commit().await;
        assert_eq!(close(&storage).await, 1);
        let after: i32 = sqlx::query_scalar(backend).fetch_one(pool).await.unwrap();
        assert_eq!((before, released.count()), (after, 0));
        database.drop().await;
    }
}

/// A publish that stays open makes attempts time out. The request is kept, streams go on, and the
/// first attempt after its end closes the log (ARC-042). Also when the statement timeout is the one
/// that ends the wait.
#[tokio::test]
async fn open_publish_delays_the_boundary_and_ends_no_stream() {
    for (barrier, statement) in [(100, 10_000), (10_000, 1_000)] {
        let server = TestServer::builder()
            .table(
                "publishing",
                &format!("max_barrier_wait_ms = {barrier}\nmax_publish_duration_ms = 20000"),
            )
            .table(
                "database",
                &format!("max_statement_timeout_ms = {statement}"),
            )
            .start()
            .await;
        let (mut stream, mut publishers) = followed(&server).await;
        let a1 = with_a_gap(&mut stream, &mut publishers).await;
        until_at_least(&server, TIMED_OUT, 2).await;
        let [id] = ids(server.publish(vec![publishers.client_envelope('B')]).await)[..] else {
            panic!("one id");
        };
        assert_eq!(delivered(&stream.envelopes(1).await), format!("B{id}"));
        a1.roll_back().await;
        until_is(&server, GAPS, 0).await;
        assert_eq!(server.metric(CLOSED).await, 2, "one at the start, one now");
        assert_eq!(server.metric(FAILED).await, 0);
        assert_eq!(server.metric(GENERATIONS).await, 1);
        let live = publishers.publish("A").await;
        assert_eq!(delivered(&stream.envelopes(1).await), text(&live));
        server.stop().await;
    }
}

/// An attempt that timed out stalled new publishes for that long; the next one leaves them alone for
/// as long again (ARC-042). PostgreSQL says when each attempt's wait began.
#[tokio::test]
async fn attempt_after_a_timeout_keeps_its_distance() {
    const WAIT: Duration = Duration::from_millis(400);
    let server = TestServer::builder()
        .table(
            "publishing",
            &format!("max_barrier_wait_ms = {}", WAIT.as_millis()),
        )
        .table("streams", "poll_interval_ms = 10")
        .start()
        .await;
    let (mut stream, mut publishers) = followed(&server).await;
    let _a1 = with_a_gap(&mut stream, &mut publishers).await;
    let pools = Sessions::of_pools(server.database()).await;
    let waits = pools.until_waited("advisory", 4).await;
    for pair in waits.windows(2) {
        let between = Duration::from_micros((pair[1].1 - pair[0].1).unsigned_abs());
        assert!(between >= 2 * WAIT, "{between:?} from wait to wait");
    }
    server.stop().await;
}

/// However many gaps come, an instance closes the log once per poll interval at most (ARC-040).
#[tokio::test]
async fn at_most_one_run_per_interval() {
    const INTERVAL: Duration = Duration::from_millis(250);
    let database = TestDatabase::create().await;
    let begun = Instant::now();
    let server = TestServer::builder()
        .database(database)
        .table(
            "streams",
            &format!("poll_interval_ms = {}", INTERVAL.as_millis()),
        )
        .start()
        .await;
    let mut publishers = Publishers::of(server.database());
    while server.metric(CLOSED).await < 4 {
        publishers.open("A").await.roll_back().await;
        publishers.publish("B").await;
    }
    let runs = u32::try_from(server.metric(CLOSED).await).unwrap();
    let elapsed = begun.elapsed();
    assert!(
        elapsed >= INTERVAL * (runs - 1),
        "{runs} runs in {elapsed:?}"
    );
    server.stop().await;
}

/// A boundary that somebody else has stored already serves a request as well: no run, and so nobody
/// waits for one (ARC-040). The publish stays open here, so that any run would time out and show.
#[tokio::test]
async fn stored_boundary_that_covers_the_request_saves_the_run() {
    let server = TestServer::builder()
        .table("publishing", "max_barrier_wait_ms = 50")
        .table("streams", "poll_interval_ms = 20")
        .start()
        .await;
    let (mut stream, mut publishers) = followed(&server).await;
    let a1 = with_a_gap(&mut stream, &mut publishers).await;
    until_at_least(&server, TIMED_OUT, 2).await;
    // It will roll back, so this is what a boundary run would find later.
    sqlx::query("UPDATE allocation_boundary SET closed_sequence_id = 2")
        .execute(&mut server.database().connection().await)
        .await
        .unwrap();
    until_is(&server, GAPS, 0).await;
    // One attempt may have begun before that.
    let pools = Sessions::of_pools(server.database()).await;
    let until_idle = async || {
        eventually("no attempt waits", async || {
            pools.waiting("advisory").await.is_empty()
        })
        .await;
    };
    let polls = server.metric(POLLS).await;
    until_at_least(&server, POLLS, polls + 10).await;
    until_idle().await;
    let before = server.metric(TIMED_OUT).await;
    until_at_least(&server, POLLS, polls + 40).await;
    assert_eq!(
        server.metric(TIMED_OUT).await,
        before,
        "it runs all the same"
    );
    assert_eq!(server.metric(CLOSED).await, 1, "the one of the start");
    a1.roll_back().await;
    server.stop().await;
}

/// A sequence that was set back below the boundary may hand ids out twice. Nothing is closed on that:
/// streams end, and none is served until it is mended (ARC-040).
#[tokio::test]
async fn sequence_that_was_set_back_is_an_invariant_failure() {
    let server = TestServer::builder()
        .table("publishing", "max_barrier_wait_ms = 50")
        .table("streams", "poll_interval_ms = 20")
        .start()
        .await;
    let (mut stream, mut publishers) = followed(&server).await;
    let (storage, _) = open(server.database(), |_| {});
    assert_eq!(text(&publishers.publish("AB").await), "A1 B2");
    stream.envelopes(2).await;
    assert_eq!(close(&storage).await, 2);
    let a3 = with_a_gap(&mut stream, &mut publishers).await;
    let mut connection = server.database().connection().await;
    let mut set = async |value: i64| {
        sqlx::query("SELECT setval('envelope_sequence', $1)")
            .bind(value)
            .execute(&mut connection)
            .await
            .unwrap();
    };
    set(1).await;
    a3.roll_back().await;
    let status = stream.end().await;
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    let broken = Err(Error::Invariant(Invariant::SequenceWentBack));
    assert_eq!(storage.advance_boundary().await, broken);
    let stored = storage.stored_boundary().await;
    assert_eq!(stored, Ok(2), "it was not touched");
    assert_eq!(ended(&server, "database").await, 1);
    assert_eq!(server.metric(READY).await, 0);
    assert_streams_are_refused(&server).await;

    set(4).await;
    until_is(&server, READY, 1).await;
    let (mut stream, targets) = follow(server.address(), "B", 2).await;
    assert_eq!(targets, [4]);
    assert_eq!(delivered(&stream.envelopes(1).await), "B4");
    server.stop().await;
}

/// No connection of the pool is free: the boundary has to wait, and nothing else does. The tailer has
/// a connection of its own (ARC-042).
#[tokio::test]
async fn without_a_free_connection_the_request_is_kept_and_no_stream_ends() {
    let database = TestDatabase::create().await;
    let (storage, _) = open(&database, |settings| {
        settings.max_connections = 2;
        settings.max_statement_timeout = Duration::from_millis(500);
    });
    let metrics = Arc::new(Metrics::new("test"));
    let parts = Parts {
        database: storage.clone(),
        max_connections: 2,
        settings: config::Streams {
            poll_interval: Duration::from_millis(20),
            ..config::Streams::default()
        },
        limits: config::Limits::default(),
        clock: Clock::system(),
        metrics: Arc::clone(&metrics),
    };
    let (streams, supervise) = Streams::start(parts).await.unwrap();
    let supervisor = tokio::spawn(supervise);
    let adds = ['A', 'B'].map(|letter| Add {
        topic: topic(letter).as_bytes().to_vec().into(),
        after: 0,
    });
    let update = ClientFrame::Update(Update {
        id: 1,
        adds: adds.to_vec(),
        removes: Vec::new(),
    });
    let inbound = stream::iter([update]).chain(stream::pending());
    let mut frames = streams.subscribe(inbound).unwrap();
    assert!(matches!(
        frames.next().await,
        Some(Ok(Frame::Started { .. }))
    ));
    assert!(matches!(
        frames.next().await,
        Some(Ok(Frame::Applied { .. }))
    ));

    let pool = storage.pools().route(Operation::Publish);
    let held = [pool.acquire().await.unwrap(), pool.acquire().await.unwrap()];
    assert_eq!(storage.advance_boundary().await, Ok(Advance::NoConnection));
    let mut publishers = Publishers::of(&database);
    publishers.open("A").await.roll_back().await;
    publishers.publish("B").await;
    assert!(matches!(frames.next().await, Some(Ok(Frame::Messages(_)))));
    let value = |series: &str| -> u64 {
        let text = metrics.exposition();
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().unwrap())
    };
    eventually("two attempts had no connection", async || {
        value(FAILED) >= 2
    })
    .await;
    assert_eq!(value(GAPS), 1);
    drop(held);
    eventually("the gap is closed", async || value(GAPS) == 0).await;
    assert_eq!(value(GENERATIONS), 1);
    publishers.publish("A").await;
    assert!(matches!(frames.next().await, Some(Ok(Frame::Messages(_)))));
    streams.stop();
    supervisor.await.unwrap();
    database.drop().await;
}

/// 20. Two instances see the same gaps. Whoever closes the log, both give the gaps up from the one
/// stored boundary; and streams of both go on.
#[tokio::test]
async fn instances_share_one_boundary() {
    let database = TestDatabase::create().await;
    let begin = async || {
        let server = TestServer::builder().database(database.share());
        server.start().await
    };
    let servers = [begin().await, begin().await];
    let mut streams = Vec::new();
    for server in &servers {
        streams.push(followed(server).await.0);
    }
    let mut publishers = Publishers::of(&database);
    for round in 0..3 {
        let open = publishers.open("A").await;
        let published = publishers.publish("B").await;
        for (server, stream) in servers.iter().zip(&mut streams) {
            assert_eq!(delivered(&stream.envelopes(1).await), text(&published));
            until_is(server, GAPS, 1).await;
        }
        open.roll_back().await;
        for server in &servers {
            until_is(server, GAPS, 0).await;
            // The start's, and at most one for each gap.
            assert!(server.metric(CLOSED).await <= 2 + round);
            assert_eq!(server.metric(GENERATIONS).await, 1);
        }
    }
    let [one, two] = servers;
    two.stop_keeping_database().await;
    one.stop().await;
}

/// 19. An instance that freezes while it holds the barrier stops every publisher; PostgreSQL ends its
/// transaction after the barrier wait and one statement's time. The frozen instance notices too, and
/// gives up instead of waiting for an answer that will not come.
#[tokio::test]
async fn a_frozen_holder_of_the_barrier_is_ended_by_the_database() {
    let server = TestServer::start().await;
    let database = server.database();
    let locks = database.advisory_locks().await;
    let relay = Relay::to(&database.url()).await;
    // The statement after the one that takes the barrier.
    relay.freeze_before("FROM envelope_sequence");
    let frozen = TestServer::builder()
        .database(database.share())
        .table(
            "database",
            &format!(
                "url = \"{}\"\nmax_statement_timeout_ms = 1000",
                relay.url(&database.url())
            ),
        )
        .table("publishing", "max_barrier_wait_ms = 500");
    let (started, ()) = tokio::join!(frozen.try_start(), async {
        relay.until_sent().await;
        let publish = server.begin_publish(Transport::Native, vec![message(1, 1)]);
        locks.until_waiting(BARRIER, 1).await;
        assert_eq!(ids(publish.await.unwrap()), [1]);
        locks.until_all_free().await;
    });
    assert!(started.is_err(), "it started without a boundary");
    server.stop().await;
}

/// An attempt that nobody waits for any more, because its instance stops or its generation ended,
/// leaves the queue for the barrier soon, and publishers with it. Its own bound would come after ten
/// minutes (ARC-042).
#[tokio::test]
async fn abandoned_attempt_gets_out_of_the_way() {
    const LONG: Duration = Duration::from_secs(600);
    let database = TestDatabase::create().await;
    let (storage, _) = open(&database, |settings| {
        settings.max_barrier_wait = LONG;
        settings.max_statement_timeout = LONG;
    });
    let mut publishers = Publishers::of(&database);
    let locks = database.advisory_locks().await;
    let a1 = publishers.open("A").await;
    tokio::select! {
        advance = storage.advance_boundary() => panic!("{advance:?}"),
        () = locks.until_waiting(BARRIER, 1) => {}
    }
    locks.until_waiting(BARRIER, 0).await;
    assert_eq!(text(&publishers.publish("B").await), "B2");
    a1.commit().await;
    assert_eq!(close(&storage).await, 2);
    database.drop().await;
}
