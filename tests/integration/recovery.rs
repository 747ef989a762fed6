//! Generations of recovery: what ends them, what goes on meanwhile, and that a client that comes back
//! with its own cursors has lost nothing (ARC-041, ARC-042, ARC-082).

use std::collections::BTreeMap;
use std::net::TcpStream;

use harness::{Sessions, Subscription, TestDatabase, TestServer, Transport, eventually};
use tonic::{Code, Status};

use crate::following::{
    GAPS, GENERATIONS, POLLS, READY, assert_healthy, assert_streams_are_refused, behind_a_relay,
    delivered, ended, follow, follow_static, log, row, until_at_least, until_is,
};
use crate::given::{code, ids, message};
use crate::process::{Process, document, free_address};
use crate::reading::after;
use crate::tailing::{OpenPublish, Publishers, text, topic};

/// The tailer's connection goes: every stream ends, and none is opened until the next generation is
/// ready, which an open publish delays here. Reads, publishes and health checks go on. Afterwards a
/// client continues where it was (E20 of the contract; ARC-041).
#[tokio::test]
async fn lost_tailer_ends_every_stream_and_loses_no_envelope() {
    let server = TestServer::builder()
        .table("publishing", "max_barrier_wait_ms = 100")
        .start()
        .await;
    let mut publishers = Publishers::of(server.database());
    let (mut stream, _) = follow(server.address(), "A", 0).await;
    let mut fixed = follow_static(&server, 'A').await.unwrap();
    assert_eq!(text(&publishers.publish("A").await), "A1");
    assert_eq!(delivered(&stream.envelopes(1).await), "A1");
    assert_eq!(delivered(&fixed.envelopes(1).await), "A1");
    let b2 = publishers.open("B").await;
    Sessions::of_tailers(server.database())
        .await
        .terminate()
        .await;

    assert_eq!(stream.end().await.code(), Code::Unavailable);
    assert_eq!(fixed.next().await.unwrap_err().code(), Code::Unavailable);
    assert_eq!(ended(&server, "tailer").await, 2);
    assert_streams_are_refused(&server).await;
    assert_eq!(server.metric(READY).await, 0);
    assert_healthy(&server).await;
    let envelope = publishers.client_envelope('A');
    assert_eq!(ids(server.publish(vec![envelope]).await), [3]);
    assert_eq!(log(&server, 'A').await.unwrap(), [1, 3]);

    b2.commit().await;
    until_is(&server, READY, 1).await;
    assert_eq!(server.metric(GENERATIONS).await, 2);
    let (mut stream, targets) = follow(server.address(), "AB", 1).await;
    assert_eq!(targets, [3, 2]);
    let mut rest: Vec<_> = stream.envelopes(2).await.iter().map(row).collect();
    rest.sort_unstable();
    assert_eq!(text(&rest), "A3 B2");
    publishers.publish("A").await;
    assert_eq!(delivered(&stream.envelopes(1).await), "A4");
    server.stop().await;
}

/// 16. Six publishes stay open with a row above each: as many gaps as may be tracked change nothing,
/// one more ends every stream with RESOURCE_EXHAUSTED and loses no row (ARC-042).
#[tokio::test]
async fn one_gap_more_than_may_be_tracked_ends_every_stream() {
    for (max_gap_ranges, fits) in [(6, true), (5, false)] {
        let server = TestServer::builder()
            .table("streams", &format!("max_gap_ranges = {max_gap_ranges}"))
            .table("publishing", "max_barrier_wait_ms = 100")
            .start()
            .await;
        let mut publishers = Publishers::of(server.database());
        let (mut stream, _) = follow(server.address(), "Z", 0).await;
        let mut open: Vec<OpenPublish> = Vec::new();
        for gap in 1..=6 {
            open.push(
                publishers
                    .open(["A", "B", "C", "D", "E", "F"][gap - 1])
                    .await,
            );
            let published = publishers.publish("Z").await;
            if gap <= max_gap_ranges {
                assert_eq!(delivered(&stream.envelopes(1).await), text(&published));
            }
        }
        if fits {
            until_is(&server, GAPS, 6).await;
        } else {
            let status = stream.end().await;
            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
            assert_eq!(ended(&server, "capacity").await, 1);
        }
        for publish in open {
            publish.roll_back().await;
        }
        if fits {
            until_is(&server, GAPS, 0).await;
        } else {
            until_is(&server, READY, 1).await;
            stream = follow(server.address(), "Z", 10).await.0;
            assert_eq!(delivered(&stream.envelopes(1).await), "Z12");
        }
        assert_eq!(server.metric(GENERATIONS).await, if fits { 1 } else { 2 });
        publishers.publish("Z").await;
        assert_eq!(delivered(&stream.envelopes(1).await), "Z13");
        server.stop().await;
    }
}

/// 9. An instance that starts while a publish is open tries again and again, says so, and does not
/// open its port. The row is history then.
#[tokio::test]
async fn the_port_stays_closed_while_a_publish_is_open() {
    let database = TestDatabase::create().await;
    let mut publishers = Publishers::of(&database);
    publishers.publish("B").await;
    let a2 = publishers.open("A").await;
    publishers.publish("B").await;

    let address = free_address();
    let document = document(&database.url(), "publishing.max_barrier_wait_ms = 100").replace(
        "server.listen = \"127.0.0.1:0\"",
        &format!("server.listen = \"{address}\""),
    );
    let process = Process::with_document(&document);
    process
        .until_logged("the allocation barrier was not free in time")
        .await;
    let pools = Sessions::of_pools(&database).await;
    pools.until_waited("advisory", 2).await;
    assert!(TcpStream::connect(address).is_err(), "the port is open");

    a2.commit().await;
    assert_eq!(process.until_serving().await, address);
    let (mut stream, targets) = follow(address, "A", 0).await;
    assert_eq!(targets, [2]);
    assert_eq!(delivered(&stream.envelopes(1).await), "A2");
    process.signal("TERM");
    process.end().await.check(0, "drained");
    database.drop().await;
}

/// 18. The tailer has read a page and loses its connection when it asks for the payloads: the page
/// counts as delivered, so everything ends. A client that comes back gets the row (ARC-041).
#[tokio::test]
async fn a_page_that_was_not_dispatched_is_not_lost() {
    let (server, relay) = behind_a_relay("").await;
    let (mut stream, _) = follow(server.address(), "A", 0).await;
    // The first load of payloads since the start: no subscriber has read history yet.
    relay.cut_before("JOIN envelopes e ON e.sequence_id = wanted.id");
    Publishers::of(server.database()).publish("A").await;
    relay.until_sent().await;
    let status = stream.next().await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    until_is(&server, READY, 1).await;
    let (mut stream, targets) = follow(server.address(), "A", 0).await;
    assert_eq!(targets, [1]);
    assert_eq!(delivered(&stream.envelopes(1).await), "A1");
    server.stop().await;
}

/// The database goes away and comes back. Requests fail with UNAVAILABLE and streams end meanwhile,
/// the server stays in rotation, and everything works again by itself (ARC-041).
#[tokio::test]
async fn outage_of_the_database_passes() {
    let (server, relay) = behind_a_relay("max_statement_timeout_ms = 1000").await;
    assert_eq!(
        ids(server.publish(vec![message(u64::from('A'), 1)]).await),
        [1]
    );
    let (mut stream, _) = follow(server.address(), "A", 1).await;
    relay.shut();
    assert_eq!(stream.end().await.code(), Code::Unavailable);
    let late = vec![message(u64::from('A'), 2)];
    assert_eq!(code(server.publish(late.clone()).await), Code::Unavailable);
    assert_eq!(
        log(&server, 'A').await.unwrap_err().code(),
        Code::Unavailable
    );
    assert_streams_are_refused(&server).await;
    assert_healthy(&server).await;

    relay.turn_to(&server.database().url());
    until_is(&server, READY, 1).await;
    eventually("publishes succeed", async || {
        server.publish(late.clone()).await.is_ok()
    })
    .await;
    let (mut stream, targets) = follow(server.address(), "A", 1).await;
    assert_eq!(targets, [2]);
    assert_eq!(delivered(&stream.envelopes(1).await), "A2");
    server.stop().await;
}

/// The database's side of every connection goes silent without closing it, as when a machine or a path
/// to it is lost. Nobody waits for ever: streams end, and new connections take over (ARC-041).
#[tokio::test]
async fn silent_connections_are_given_up() {
    let (server, relay) = behind_a_relay("max_statement_timeout_ms = 500").await;
    let (mut stream, _) = follow(server.address(), "A", 0).await;
    relay.freeze();
    let status = stream.end().await;
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    eventually("publishes succeed", async || {
        let publish = server.publish(vec![message(u64::from('A'), 1)]);
        publish.await.is_ok()
    })
    .await;
    until_is(&server, READY, 1).await;
    let (mut stream, _) = follow(server.address(), "A", 0).await;
    assert_eq!(delivered(&stream.envelopes(1).await), "A1");
    server.stop().await;
}

/// One connection of a pool goes silent, amid what a stream reads for itself: its heads, and a turn of
/// its history. The stream says that it failed; the others and the tailer go on.
#[tokio::test]
async fn stream_on_a_silent_connection_ends() {
    for statement in [
        "LEFT JOIN topic_watermark w ON w.topic = wanted.topic",
        "WHERE topic = wanted.topic AND sequence_id > wanted.after",
    ] {
        let (server, relay) =
            behind_a_relay("max_statement_timeout_ms = 500\nmax_connections = 2").await;
        Publishers::of(server.database()).publish("A").await;
        let polls = server.metric(POLLS).await;
        until_at_least(&server, POLLS, polls + 2).await;
        for _ in 0..3 {
            relay.freeze_before(statement);
            let mut stream = Subscription::start(server.address()).await;
            let adds = vec![after(topic('A').as_bytes(), 0)];
            stream.update(1, adds, vec![]);
            relay.until_sent().await;
            let status = stream.end().await;
            assert_eq!(status.code(), Code::Unavailable, "{statement}: {status}");
        }
        assert_eq!(ended(&server, "database").await, 3);
        assert_eq!(server.metric(GENERATIONS).await, 1);
        let (mut stream, _) = follow(server.address(), "A", 0).await;
        assert_eq!(delivered(&stream.envelopes(1).await), "A1");
        server.stop().await;
    }
}

/// A poll whose statement times out is repeated twice, on the same connection, because it changed
/// nothing; the third time ends the generation. A lock on the table brings that about, and PostgreSQL
/// tells one attempt from the next.
#[tokio::test]
async fn polls_that_time_out_are_repeated_twice() {
    const LOCK: &str = "LOCK TABLE envelopes IN ACCESS EXCLUSIVE MODE";
    let server = TestServer::builder()
        .table("database", "max_statement_timeout_ms = 1000")
        .start()
        .await;
    let mut publishers = Publishers::of(server.database());
    let (mut stream, _) = follow(server.address(), "A", 0).await;
    let tailers = Sessions::of_tailers(server.database()).await;

    let lock = server.database().within_transaction(LOCK).await;
    tailers.until_waited("relation", 2).await;
    drop(lock);
    publishers.publish("A").await;
    assert_eq!(delivered(&stream.envelopes(1).await), "A1");
    assert_eq!(server.metric(GENERATIONS).await, 1);

    let lock = server.database().within_transaction(LOCK).await;
    let polls = tailers.until_waited("relation", 4).await;
    let pids: Vec<i32> = polls.iter().map(|(pid, _)| *pid).collect();
    assert!(pids[..3].iter().all(|pid| *pid == pids[0]), "{pids:?}");
    assert_ne!(pids[3], pids[0], "a fourth attempt");
    assert_eq!(stream.end().await.code(), Code::Unavailable);
    drop(lock);
    until_is(&server, READY, 1).await;
    publishers.publish("A").await;
    eventually("a stream lives", async || {
        let (mut stream, _) = follow(server.address(), "A", 1).await;
        matches!(stream.envelopes(1).await.as_slice(), [one] if row(one).id == 2)
    })
    .await;
    server.stop().await;
}

/// A signal during a recovery that cannot succeed, as a publish is open and the wait for it is bounded
/// by ten minutes, ends the process like any other.
#[tokio::test]
async fn shutdown_does_not_wait_for_recovery() {
    let database = TestDatabase::create().await;
    let lines = "publishing.max_barrier_wait_ms = 600000\n\
                 publishing.max_publish_duration_ms = 600001\n\
                 database.max_statement_timeout_ms = 600000";
    let process = Process::with_document(&document(&database.url(), lines));
    process.until_serving().await;
    let a1 = Publishers::of(&database).open("A").await;
    Sessions::of_tailers(&database).await.terminate().await;
    process.until_logged("stream recovery starts").await;
    let pools = Sessions::of_pools(&database).await;
    pools.until_waited("advisory", 1).await;
    process.signal("TERM");
    process.end().await.check(0, "drained");
    a1.commit().await;
    database.drop().await;
}

/// Publishes of one envelope each on a server, all at once, over every protocol.
async fn publish_all(server: &TestServer, from: u64) -> Result<(), Status> {
    let letters = ['A', 'B', 'C'].into_iter().cycle();
    let publishes: Vec<_> = (from..from + 60)
        .zip(letters)
        .zip(Transport::ALL.into_iter().cycle())
        .map(|((number, letter), transport)| {
            server.begin_publish(transport, vec![message(u64::from(letter), number)])
        })
        .collect();
    for publish in publishes {
        publish.await.unwrap()?;
    }
    Ok(())
}

/// Ids by topic in the order in which a stream delivers so many envelopes.
async fn orders(stream: &mut Subscription, envelopes: usize) -> BTreeMap<char, Vec<u64>> {
    let mut orders: BTreeMap<char, Vec<u64>> = BTreeMap::new();
    for envelope in stream.envelopes(envelopes).await {
        let row = row(&envelope);
        let ids = orders.entry(row.topic).or_default();
        ids.push(row.id.unsigned_abs());
    }
    orders
}

/// Two servers on one database with publishers on both: each delivers every envelope of either, and
/// every topic in the one order in which it is stored (ARC-001, ARC-033, ARC-041).
#[tokio::test]
async fn subscribers_of_two_servers_see_one_order() {
    let one = TestServer::start().await;
    let two = TestServer::builder()
        .database(one.database().share())
        .start()
        .await;
    let (mut first, _) = follow(one.address(), "ABC", 0).await;
    let (mut second, _) = follow(two.address(), "ABC", 0).await;
    let (published, also, first, second) = tokio::join!(
        publish_all(&one, 0),
        publish_all(&two, 1_000),
        orders(&mut first, 120),
        orders(&mut second, 120),
    );
    published.unwrap();
    also.unwrap();
    assert_eq!(first, second);
    assert_eq!(first.len(), 3);
    for (letter, ids) in first {
        assert_eq!(ids, log(&one, letter).await.unwrap(), "{letter}");
    }
    two.stop_keeping_database().await;
    one.stop().await;
}
