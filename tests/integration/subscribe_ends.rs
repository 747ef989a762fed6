//! Every way a stream ends, and that nothing of it is left: the registry gauges return to zero, and
//! each end counts once, under its reason (ARC-003, ARC-041, ARC-082, API-259).

use envelope::wire::xmtp::backend::v1::subscribe_response::Response;
use harness::{
    AdvisoryLock, StaticSubscription, Subscription, TestServer, Transport, channel, eventually,
};
use tonic::Code;

use crate::given::{group_topic, ids, message};
use crate::reading::{after, page_of, query};
use crate::subscribers::{
    all_ended, ended, received, registered, store, topic, until_all_ended, until_pong,
};

/// Requests in flight of a method of the subscription service.
fn in_flight(method: &str, kind: &str) -> String {
    format!(
        "grpc_server_in_flight{{grpc_method=\"{method}\",\
         grpc_service=\"xmtp.backend.v1.SubscriptionService\",grpc_type=\"{kind}\"}}"
    )
}

async fn until_none_in_flight(server: &TestServer) {
    let [bidi, fixed] = [
        in_flight("Subscribe", "bidi_stream"),
        in_flight("SubscribeStatic", "server_stream"),
    ];
    eventually("no stream is in flight", async || {
        server.metric(&bidi).await == 0 && server.metric(&fixed).await == 0
    })
    .await;
}

/// A half-close ends the stream with success, in the middle of a long history too, and without waiting
/// for it; what was promised by then is not owed any more (API-259).
#[tokio::test]
async fn a_half_close_ends_the_stream_with_success() {
    let server = TestServer::start().await;
    let stored = store(&server, 1, 0..5_000).await;
    // At once, after an Update that nobody waits for, and in the middle of its rows.
    let mut stream = Subscription::start(server.address()).await;
    stream.half_close();
    assert_eq!(stream.end().await.code(), Code::Ok);

    let mut stream = Subscription::start(server.address()).await;
    stream.update(1, vec![after(&topic(1), 0)], vec![]);
    stream.half_close();
    let first = stream.next().await.unwrap();
    assert!(matches!(first, Response::Applied(_)), "{first:?}");
    assert_eq!(stream.end().await.code(), Code::Ok);

    let mut stream = Subscription::start(server.address()).await;
    stream.update(1, vec![after(&topic(1), 0)], vec![]);
    stream.next().await.unwrap();
    let mut got = received(&stream.messages().await);
    stream.half_close();
    let status = loop {
        match stream.next().await {
            Ok(Response::Messages(messages)) => got.extend(received(&messages.envelopes)),
            Ok(other) => panic!("{other:?}"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::Ok);
    assert!(stored.starts_with(&got));
    until_all_ended(&server, "client", 3).await;
    until_none_in_flight(&server).await;
    server.stop().await;
}

/// A static stream outlives the end of its request, over every protocol, and ends when its client
/// leaves (API-108, API-259).
#[tokio::test]
async fn clients_that_leave_are_forgotten() {
    let server = TestServer::start().await;
    let stored = store(&server, 1, 0..10).await;
    let mut open = Vec::new();
    for transport in Transport::ALL {
        let topics = vec![after(&topic(1), 0), after(&topic(2), 0)];
        let mut stream = StaticSubscription::open(transport, server.address(), topics)
            .await
            .unwrap();
        assert_eq!(received(&stream.envelopes(10).await), stored);
        open.push(stream);
    }
    assert_eq!(registered(&server).await, [0, 4, 8]);
    drop(open);
    until_all_ended(&server, "client", 4).await;

    // Both kinds of streams on one connection: one that is cancelled, and all others with it.
    let shared = channel(server.address()).await;
    let mut streams = Vec::new();
    for _ in 0..5 {
        let mut stream = Subscription::open_on(shared.clone()).await.unwrap();
        stream.next().await.unwrap();
        stream
            .add(&[(&topic(1), 0), (&topic(2), 0), (&topic(3), 0)])
            .await;
        streams.push(stream);
    }
    assert_eq!(registered(&server).await, [5, 0, 15]);
    drop(streams.pop());
    eventually("one is gone", async || {
        registered(&server).await == [4, 0, 12]
    })
    .await;
    let mut rest = streams.pop().unwrap();
    assert!(until_pong(&mut rest, 1).await.len() <= 10);
    drop((shared, streams, rest));
    until_all_ended(&server, "client", 9).await;
    until_none_in_flight(&server).await;
    server.stop().await;
}

/// Streams whose clients vanish while the server is busy with their Update, or before it has answered
/// at all.
#[tokio::test]
async fn clients_that_leave_in_the_middle_are_forgotten() {
    let server = TestServer::builder()
        .table("database", "max_connections = 2")
        .start()
        .await;
    let pool = server.database().pool().await;
    // Nobody reads heads while this is held.
    let mut blocker = pool.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE topic_watermark IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *blocker)
        .await
        .unwrap();
    let stream = Subscription::start(server.address()).await;
    stream.update(1, vec![after(&topic(1), 0)], vec![]);
    eventually("the topic is registered", async || {
        registered(&server).await == [1, 0, 1]
    })
    .await;
    let address = server.address();
    let opening = tokio::spawn(async move {
        let topics = vec![after(&topic(1), 0), after(&topic(2), 0)];
        StaticSubscription::open(Transport::Native, address, topics).await
    });
    eventually("the static topics are registered", async || {
        registered(&server).await == [1, 1, 3]
    })
    .await;
    drop(stream);
    opening.abort();
    until_all_ended(&server, "client", 2).await;
    until_none_in_flight(&server).await;
    blocker.rollback().await.unwrap();

    let mut stream = Subscription::start(server.address()).await;
    assert_eq!(stream.add(&[(&topic(1), 0)]).await.0, [0]);
    server.stop().await;
}

/// Heads that cannot be read in time end the stream that asked, with `UNAVAILABLE`, and no other one; a
/// static stream is refused (ARC-082).
#[tokio::test]
async fn heads_that_cannot_be_read_end_only_the_stream_that_asked() {
    let server = TestServer::builder()
        .table("database", "max_statement_timeout_ms = 300")
        .start()
        .await;
    let mut other = Subscription::start(server.address()).await;
    other.add(&[(&topic(2), 0)]).await;
    let pool = server.database().pool().await;
    let mut blocker = pool.begin().await.unwrap();
    sqlx::raw_sql("LOCK TABLE topic_watermark IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *blocker)
        .await
        .unwrap();
    let mut stream = Subscription::start(server.address()).await;
    stream.update(1, vec![after(&topic(1), 0)], vec![]);
    assert_eq!(stream.end().await.code(), Code::Unavailable);
    for transport in Transport::ALL {
        let topics = vec![after(&topic(1), 0)];
        let refused = StaticSubscription::open(transport, server.address(), topics).await;
        assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
    }
    blocker.rollback().await.unwrap();
    let live = ids(server.publish(vec![message(2, 0)]).await);
    assert_eq!(received(&other.envelopes(1).await), live);
    assert_eq!(server.metric(&ended("database")).await, 5);
    assert_eq!(all_ended(&server).await, 5);
    assert_eq!(registered(&server).await, [1, 0, 1]);
    server.stop().await;
}

/// The tailer's connection breaks: every stream ends with `UNAVAILABLE`, everything else works on, and
/// who comes back with its own cursor loses nothing (ARC-041, ARC-082).
#[tokio::test]
async fn a_lost_tailer_ends_all_streams_and_clients_resume() {
    let server = TestServer::start().await;
    let stored = store(&server, 1, 0..3).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = Subscription::start(server.address()).await;
        stream.add(&[(&topic(1), 0)]).await;
        assert_eq!(received(&stream.envelopes(3).await), stored);
        streams.push(stream);
    }
    let topics = vec![after(&topic(2), 0)];
    let mut fixed = StaticSubscription::open(Transport::WebHttp1, server.address(), topics)
        .await
        .unwrap();
    fixed.next().await.unwrap();

    let pool = server.database().pool().await;
    // In two steps: PostgreSQL may ask a function in a condition before the others.
    let tailer: i32 = sqlx::query_scalar(
        "SELECT pid FROM pg_stat_activity
          WHERE datname = current_database() AND application_name = 'xmtp-backend tailer'",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    sqlx::query("SELECT pg_terminate_backend($1)")
        .bind(tailer)
        .execute(&pool)
        .await
        .unwrap();
    for stream in &mut streams {
        assert_eq!(stream.end().await.code(), Code::Unavailable);
    }
    assert_eq!(fixed.next().await.unwrap_err().code(), Code::Unavailable);
    let missed = store(&server, 1, 3..5).await;
    let page = query(&server, &page_of(vec![after(&topic(1), 0)], 0)).await;
    assert_eq!(page.unwrap().envelopes.len(), 5);
    assert_eq!(server.metric("xmtp_backend_ready").await, 1);

    let mut resumed = None;
    eventually("streams are served again", async || {
        match Subscription::open(server.address()).await {
            Ok(stream) => resumed = Some(stream),
            Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status}"),
        }
        resumed.is_some()
    })
    .await;
    let mut resumed = resumed.unwrap();
    resumed.next().await.unwrap();
    let (targets, _) = resumed.add(&[(&topic(1), stored[2])]).await;
    assert_eq!(targets, [missed[1]]);
    assert_eq!(received(&resumed.envelopes(2).await), missed);
    drop(resumed);
    eventually("nothing is registered", async || {
        registered(&server).await == [0; 3]
    })
    .await;
    assert_eq!(server.metric(&ended("tailer")).await, 4);
    server.stop().await;
}

/// Shutdown ends every stream at once with `UNAVAILABLE`, in the middle of a history too, while a
/// publish that runs is waited for; each counts once (ARC-003).
#[tokio::test]
async fn shutdown_ends_every_stream_at_once() {
    let server = TestServer::start().await;
    let stored = store(&server, 1, 0..5_000).await;
    let mut idle = Subscription::start(server.address()).await;
    let mut current = Subscription::start(server.address()).await;
    current.add(&[(&topic(1), stored[4_999])]).await;
    let mut reading = Subscription::start(server.address()).await;
    reading.add(&[(&topic(1), 0)]).await;
    let topics = vec![after(&topic(2), 0)];
    let mut fixed = StaticSubscription::open(Transport::WebTextHttp1, server.address(), topics)
        .await
        .unwrap();
    fixed.next().await.unwrap();

    let database = server.database().share();
    let locks = database.advisory_locks().await;
    let lock = AdvisoryLock::of_topic(group_topic(9).as_bytes());
    let held = locks.hold(lock).await;
    let publish = server.begin_publish(Transport::Native, vec![message(9, 0)]);
    locks.until_waiting(lock, 1).await;
    let stopping = tokio::spawn(server.stop_keeping_database());
    for stream in [&mut idle, &mut current, &mut reading] {
        assert_eq!(stream.end().await.code(), Code::Unavailable);
    }
    assert_eq!(fixed.next().await.unwrap_err().code(), Code::Unavailable);
    assert!(!publish.is_finished());
    held.release().await;
    assert_eq!(ids(publish.await.unwrap()).len(), 1);
    stopping.await.unwrap().drop().await;
}

/// Ten thousand sessions over a few connections, opened and left in every way a client has: nothing is
/// left of them (ARC-082).
#[tokio::test]
async fn ten_thousand_sessions_leave_nothing_behind() {
    const CONNECTIONS: u64 = 4;
    const EACH: u64 = 2_500;

    let server = TestServer::builder()
        .table("limits", "max_http2_streams = 3000")
        .start()
        .await;
    let mut tasks = Vec::new();
    for connection in 0..CONNECTIONS {
        let shared = channel(server.address()).await;
        tasks.push(tokio::spawn(async move {
            let mut streams = Vec::new();
            for number in 0..EACH {
                let mut stream = Subscription::open_on(shared.clone()).await.unwrap();
                stream.next().await.unwrap();
                // All follow one topic, and each one of its own.
                let own = topic(connection * EACH + number + 10);
                stream.update(1, vec![after(&topic(1), 0), after(&own, 0)], vec![]);
                streams.push(stream);
            }
            for stream in &mut streams {
                stream.next().await.unwrap();
            }
            (shared, streams)
        }));
    }
    let mut open = Vec::new();
    for task in tasks {
        open.push(task.await.unwrap());
    }
    let all = CONNECTIONS * EACH;
    assert_eq!(registered(&server).await, [all, 0, 2 * all]);

    // A row reaches every one of them.
    let live = ids(server.publish(vec![message(1, 0)]).await);
    for (_, streams) in &mut open {
        for stream in streams.iter_mut() {
            assert_eq!(received(&stream.messages().await), live);
        }
    }
    for (connection, (shared, mut streams)) in open.into_iter().enumerate() {
        match connection {
            0 => streams.iter_mut().for_each(Subscription::half_close),
            // Each one by itself, while its connection stays.
            1 | 2 => drop(streams.drain(..)),
            // All with their connection.
            _ => {}
        }
        for stream in &mut streams {
            if connection == 0 {
                assert_eq!(stream.end().await.code(), Code::Ok);
            }
        }
        drop((streams, shared));
    }
    until_all_ended(&server, "client", all).await;
    until_none_in_flight(&server).await;
    server.stop().await;
}
