//! Streams that are read from a real standby: they show what it shows, wait while it waits, and end
//! when it is another server than before (ARC-033, ARC-041, ARC-060).

use std::net::TcpStream;

use envelope::wire::xmtp::backend::v1::subscribe_response::Response;
use harness::{
    Relay, Replicated, Sessions, Subscription, TestDatabase, TestServer, TestServerBuilder,
    eventually,
};
use tonic::Code;
use xmtp_backend::db::Database;

use crate::following::{
    GENERATIONS, POLLS, READY, assert_healthy, assert_streams_are_refused, delivered, ended,
    follow, log, until_at_least, until_is,
};
use crate::given::ids;
use crate::process::{Process, document, free_address};
use crate::reading::{after, newest_of, query_newest};
use crate::tailing::{Publishers, close, open_storage, text, topic};

/// A migrated database that the standby shows too.
async fn database_on(replicated: &Replicated) -> TestDatabase {
    let database = replicated.create_bare().await;
    Database::migrate(&database.options()).await.unwrap();
    replicated.catch_up().await;
    database
}

/// A server that reads streams from this URL.
fn reading_from(replica_url: &str, database: &TestDatabase) -> TestServerBuilder {
    TestServer::builder()
        .database(database.share())
        .table("database", &format!("replica_url = \"{replica_url}\""))
        .table("publishing", "max_barrier_wait_ms = 100")
}

/// A stream of topic A, from a server that may still have connections which are dead.
async fn until_followed(server: &TestServer, cursor: u64) -> (Subscription, Vec<u64>) {
    let topic = topic('A');
    let mut followed = None;
    eventually("a stream opens", async || {
        let Ok(mut stream) = Subscription::open(server.address()).await else {
            return false;
        };
        stream.update(1, vec![after(topic.as_bytes(), cursor)], vec![]);
        let Ok(Response::Started(_)) = stream.next().await else {
            return false;
        };
        let Ok(Response::Applied(applied)) = stream.next().await else {
            return false;
        };
        let targets = applied.added_targets.iter();
        let targets = targets.map(|target| target.through_sequence_id).collect();
        followed = Some((stream, targets));
        true
    })
    .await;
    followed.unwrap()
}

/// While replay is paused, targets and envelopes are those of the standby, though the primary has
/// more and `Query` shows it. When it goes on, every stream gets the rest, in order.
#[tokio::test]
async fn streams_show_what_the_standby_shows() {
    let replicated = Replicated::start().await;
    let database = database_on(&replicated).await;
    let server = reading_from(&replicated.standby_url(&database), &database)
        .start()
        .await;
    let mut publishers = Publishers::of(&database);
    let (mut early, _) = follow(server.address(), "A", 0).await;
    publishers.publish("A").await;
    assert_eq!(delivered(&early.envelopes(1).await), "A1");

    replicated.pause_replay().await;
    let b2 = publishers.open("B").await;
    assert_eq!(text(&publishers.publish("AA").await), "A3 A4");
    b2.commit().await;
    let (mut late, targets) = follow(server.address(), "A", 0).await;
    assert_eq!(targets, [1]);
    assert_eq!(delivered(&late.envelopes(1).await), "A1");
    assert_eq!(log(&server, 'A').await.unwrap(), [1, 3, 4]);
    let polls = server.metric(POLLS).await;
    until_at_least(&server, POLLS, polls + 3).await;
    for stream in [&mut early, &mut late] {
        stream.ping(7);
        let next = stream.next().await.unwrap();
        assert!(matches!(next, Response::Pong(_)), "{next:?}");
    }

    replicated.resume_replay().await;
    for stream in [&mut early, &mut late] {
        assert_eq!(delivered(&stream.envelopes(2).await), "A3 A4");
    }
    assert_eq!(server.metric(GENERATIONS).await, 1);
    server.stop_keeping_database().await;
}

/// 13. The standby has the schema and not the boundary that the start closed on the primary: the port
/// stays closed until it shows that, and every envelope up to there is history.
#[tokio::test]
async fn the_port_stays_closed_until_the_standby_shows_the_boundary() {
    let replicated = Replicated::start().await;
    let database = database_on(&replicated).await;
    replicated.pause_replay().await;
    let mut publishers = Publishers::of(&database);
    publishers.publish("A").await;
    let address = free_address();
    let replica = format!(
        "database.replica_url = \"{}\"",
        replicated.standby_url(&database)
    );
    let document = document(&database.url(), &replica).replace(
        "server.listen = \"127.0.0.1:0\"",
        &format!("server.listen = \"{address}\""),
    );
    let process = Process::with_document(&document);
    process
        .until_logged("waiting for the read database to show the boundary")
        .await;
    assert!(TcpStream::connect(address).is_err(), "the port is open");
    replicated.resume_replay().await;
    assert_eq!(process.until_serving().await, address);
    let (mut stream, targets) = follow(address, "A", 0).await;
    assert_eq!(targets, [1]);
    assert_eq!(delivered(&stream.envelopes(1).await), "A1");
    process.signal("TERM");
    process.end().await.check(0, "drained");
}

/// The connection to the standby is cut, and then the standby is restarted: streams end, publishes
/// and reads on the primary go on, and the next generation continues (E20 of the contract).
#[tokio::test]
async fn streams_come_back_after_the_standby_did() {
    let mut replicated = Replicated::start().await;
    let database = database_on(&replicated).await;
    let server = reading_from(&replicated.standby_url(&database), &database)
        .start()
        .await;
    let mut publishers = Publishers::of(&database);
    let (mut stream, _) = follow(server.address(), "A", 0).await;
    for (round, restart) in [(0, false), (1, true)] {
        let before = publishers.publish("A").await;
        assert_eq!(delivered(&stream.envelopes(1).await), text(&before));
        if restart {
            replicated.restart_standby().await;
        } else {
            let tailers = Sessions::of_tailers_on_standby(&replicated, &database).await;
            tailers.terminate().await;
        }
        assert_eq!(stream.end().await.code(), Code::Unavailable);
        assert_eq!(ended(&server, "tailer").await, round + 1);
        assert_healthy(&server).await;
        let envelope = publishers.client_envelope('A');
        let published = ids(server.publish(vec![envelope]).await);
        assert!(log(&server, 'A').await.unwrap().ends_with(&published));

        until_at_least(&server, GENERATIONS, round + 2).await;
        replicated.catch_up().await;
        let targets;
        (stream, targets) = until_followed(&server, before[0].id.unsigned_abs()).await;
        assert_eq!(targets, published);
        let rest = delivered(&stream.envelopes(1).await);
        assert_eq!(rest, format!("A{}", published[0]));
    }
    server.stop_keeping_database().await;
}

/// 17. The standby becomes a primary of its own. Its connections stay, and it will never show what is
/// published from now on: all streams end, and none is opened on what it shows. Publishes and reads
/// go on.
#[tokio::test]
async fn a_promotion_ends_every_stream() {
    let replicated = Replicated::start().await;
    let database = database_on(&replicated).await;
    let server = reading_from(&replicated.standby_url(&database), &database)
        .start()
        .await;
    let mut publishers = Publishers::of(&database);
    let (mut stream, _) = follow(server.address(), "A", 0).await;
    publishers.publish("A").await;
    assert_eq!(delivered(&stream.envelopes(1).await), "A1");
    replicated.promote().await;
    assert_eq!(stream.end().await.code(), Code::Unavailable);
    assert_eq!(ended(&server, "tailer").await, 1);
    publishers.publish("A").await;
    assert_eq!(log(&server, 'A').await.unwrap(), [1, 2]);
    assert_eq!(server.metric(READY).await, 0);
    assert_streams_are_refused(&server).await;
    assert_healthy(&server).await;
    server.stop_keeping_database().await;
}

/// A standby that was promoted may show the very boundary that the primary has, when nothing was
/// published in between. It still will not show what comes, so streams must not be served from it:
/// they would be open, and silent for ever.
#[tokio::test]
async fn no_stream_is_read_from_a_promoted_standby() {
    let replicated = Replicated::start().await;
    let database = database_on(&replicated).await;
    let replica = format!(
        "database.replica_url = \"{}\"",
        replicated.standby_url(&database)
    );
    let process = Process::with_document(&document(&database.url(), &replica));
    let address = process.until_serving().await;
    let (mut stream, _) = follow(address, "A", 0).await;
    Publishers::of(&database).publish("A").await;
    assert_eq!(delivered(&stream.envelopes(1).await), "A1");
    assert_eq!(close(&open_storage(&database, |_| {})).await, 1);
    replicated.catch_up().await;
    replicated.promote().await;
    assert_eq!(stream.end().await.code(), Code::Unavailable);
    process
        .until_logged("the replica neither is the primary nor follows one")
        .await;
    let refused = Subscription::open(address).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    process.signal("TERM");
    process.end().await.check(0, "drained");
}

/// Another server answers under the replica's name than the one that the tailer reads from. It may be
/// behind or ahead, so what a session reads there proves nothing: the generation ends, and the next
/// one reads from one server again.
#[tokio::test]
async fn sessions_and_tailer_must_read_from_one_server() {
    let replicated = Replicated::start().await;
    let database = database_on(&replicated).await;
    let relay = Relay::to(&replicated.standby_url(&database)).await;
    let url = relay.url(&replicated.standby_url(&database));
    let server = reading_from(&url, &database).start().await;
    let mut publishers = Publishers::of(&database);
    let (mut stream, _) = follow(server.address(), "A", 0).await;
    publishers.publish("A").await;
    assert_eq!(delivered(&stream.envelopes(1).await), "A1");

    relay.turn_to(&database.url());
    let pools = Sessions::of_pools_on_standby(&replicated, &database).await;
    pools.terminate().await;
    assert_eq!(server.metric(GENERATIONS).await, 1, "the tailer stays");
    // The first to ask may find the dead connection.
    eventually("a session reads from the other server", async || {
        let Ok(mut other) = Subscription::open(server.address()).await else {
            return true;
        };
        // Nothing is owed, so the head is all that it reads.
        let adds = vec![after(topic('A').as_bytes(), 1)];
        other.update(1, adds, vec![]);
        let status = other.end().await;
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        ended(&server, "tailer").await > 0
    })
    .await;
    assert_eq!(stream.end().await.code(), Code::Unavailable);

    until_is(&server, GENERATIONS, 2).await;
    until_is(&server, READY, 1).await;
    let (mut stream, targets) = until_followed(&server, 1).await;
    assert_eq!(targets, [1]);
    publishers.publish("A").await;
    assert_eq!(delivered(&stream.envelopes(1).await), "A2");
    server.stop_keeping_database().await;
}

/// The same for history: the heads came from the tailer's server, and a turn goes to another one. The
/// connection that is idle first is the one to it.
#[tokio::test]
async fn history_and_tailer_must_be_read_from_one_server() {
    let replicated = Replicated::start().await;
    let database = database_on(&replicated).await;
    let relay = Relay::to(&replicated.standby_url(&database)).await;
    let url = relay.url(&replicated.standby_url(&database));
    let server = reading_from(&url, &database).start().await;
    Publishers::of(&database).publish("A").await;
    replicated.catch_up().await;
    let mut stream = Subscription::start(server.address()).await;
    relay.hold_answer_to(topic('A').as_bytes());
    stream.update(1, vec![after(topic('A').as_bytes(), 0)], vec![]);
    relay.until_held().await;
    relay.turn_to(&database.url());
    let elsewhere = newest_of(&[topic('B').as_bytes()], false);
    query_newest(&server, &elsewhere).await.unwrap();
    relay.release();
    let applied = stream.next().await.unwrap();
    assert!(matches!(applied, Response::Applied(_)), "{applied:?}");
    let status = stream.next().await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert_eq!(ended(&server, "tailer").await, 1);
    server.stop_keeping_database().await;
}
