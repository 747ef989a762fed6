//! Who may keep a connection, and how many there may be (ARC-002).

use std::net::SocketAddr;
use std::time::Duration;

use harness::raw_http2::{RawHttp2, flag, frame, grpc_head, kind};
use harness::{TestServer, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::given::{ids, message};

/// Nothing here takes longer unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// Static subscriptions that have not ended, whether their request has come or not.
const SUBSCRIBE_STATIC_IN_FLIGHT: &str = "grpc_server_in_flight{grpc_method=\"SubscribeStatic\",\
    grpc_service=\"xmtp.backend.v1.SubscriptionService\",grpc_type=\"server_stream\"}";

/// Opens a stream that waits for its request for ever.
pub(crate) async fn open_stream(peer: &mut RawHttp2, stream: u32, path: &str) {
    let head = grpc_head(path);
    let sent = peer.send(kind::HEADERS, flag::END_HEADERS, stream, &head);
    sent.await.unwrap();
}

/// A connection of HTTP/1.1 that has been answered once.
async fn answered_http1(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.unwrap();
    ask_http1(&mut socket).await;
    socket
}

/// Sends a small request and reads its whole answer.
async fn ask_http1(socket: &mut TcpStream) {
    let request = b"OPTIONS / HTTP/1.1\r\nhost: a\r\norigin: https://a.example\r\n\
                    access-control-request-method: POST\r\n\r\n";
    socket.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let read = socket.read_buf(&mut answer).await.unwrap();
        assert_ne!(read, 0, "{}", answer.escape_ascii());
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"));
}

/// How long a connection stays open that sends these bytes and nothing else.
async fn life_of(address: SocketAddr, bytes: &[u8]) -> Duration {
    let started = Instant::now();
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let ended = timeout(PATIENCE, socket.read_to_end(&mut answer)).await;
    // A reset is an end too.
    let _ = ended.expect("the server closes the connection");
    started.elapsed()
}

/// Goal: a peer that does not begin is closed when its time is up and not before; peers that have
/// begun are left alone, idle or not. Method: the idle ones are opened first, so that their time is
/// up when the silent ones are closed (ARC-002).
#[tokio::test]
async fn peers_that_do_not_begin_are_closed_and_idle_ones_are_not() {
    const OPENING: Duration = Duration::from_millis(700);

    let server = TestServer::builder()
        .connections(|connections| connections.opening = OPENING)
        .start()
        .await;
    let address = server.address();
    let mut fresh = RawHttp2::connect(address, &[]).await;
    let mut watcher = RawHttp2::connect(address, &[]).await;
    open_stream(&mut watcher, 1, WATCH).await;
    let mut browser = answered_http1(address).await;

    let silent: [&[u8]; 6] = [
        b"",
        b"P",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r",
        b"POST /xmtp.backend.v1.QueryService/Query HTTP/1.1\r\nhost: a\r\n",
        b"OPTIONS / HTTP/1.1\r\nhost: a\r\n\r",
        // A client that believes in TLS.
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ];
    for bytes in silent {
        let life = life_of(address, bytes).await;
        // What is no HTTP at all may be told so at once.
        let least = if bytes.first() == Some(&0x16) {
            Duration::ZERO
        } else {
            OPENING
        };
        assert!(life >= least, "{} after {life:?}", bytes.escape_ascii());
    }

    assert!(timeout(PATIENCE, fresh.is_answered()).await.unwrap());
    assert!(timeout(PATIENCE, watcher.is_answered()).await.unwrap());
    timeout(PATIENCE, ask_http1(&mut browser)).await.unwrap();
    server.stop().await;
}

/// A connection of HTTP/1.1 that was used is closed when it has been idle for long, and so is one that
/// sends its next head too slowly.
#[tokio::test]
async fn idle_connections_of_http1_end_after_their_time() {
    const IDLE: Duration = Duration::from_millis(500);

    let server = TestServer::builder()
        .connections(|connections| connections.http1_idle = IDLE)
        .start()
        .await;
    for bytes in ["", "POST / HTTP/1.1\r\nhost: a\r\n"] {
        let mut socket = answered_http1(server.address()).await;
        let started = Instant::now();
        socket.write_all(bytes.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let ended = timeout(PATIENCE, socket.read_to_end(&mut rest)).await;
        let _ = ended.expect("the server closes the connection");
        assert!(started.elapsed() >= IDLE * 9 / 10, "{bytes:?}");
    }
    server.stop().await;
}

/// Goal: a peer that has vanished is noticed, with its streams, and one that answers is kept. Method:
/// both have a stream open; one answers the server's pings and the other does not.
#[tokio::test]
async fn peers_that_answer_no_ping_are_closed_with_their_streams() {
    let server = TestServer::builder()
        .connections(|connections| {
            connections.ping_interval = Duration::from_millis(100);
            connections.ping_patience = Duration::from_millis(500);
        })
        .start()
        .await;
    let path = "/xmtp.backend.v1.SubscriptionService/SubscribeStatic";
    let mut alive = RawHttp2::connect(server.address(), &[]).await;
    open_stream(&mut alive, 1, path).await;
    let mut dead = RawHttp2::connect(server.address(), &[]).await;
    open_stream(&mut dead, 1, path).await;
    eventually("both streams are open", async || {
        server.metric(SUBSCRIBE_STATIC_IN_FLIGHT).await == 2
    })
    .await;

    let answering = tokio::spawn(async move {
        // Ten times as long as the other one has.
        for _ in 0..50 {
            let ping = alive.until(kind::PING, flag::NONE).await;
            let ping = ping.expect("whoever answers is not closed");
            let answer = alive.send(kind::PING, flag::ACK, 0, &ping.payload);
            answer.await.unwrap();
        }
        alive
    });
    let ended = timeout(PATIENCE, async { while dead.next().await.is_some() {} });
    ended.await.expect("the server closes the connection");
    eventually("its stream has ended", async || {
        server.metric(SUBSCRIBE_STATIC_IN_FLIGHT).await == 1
    })
    .await;
    drop(timeout(PATIENCE, answering).await.unwrap().unwrap());
    server.stop().await;
}

/// Real clients ping every 16 seconds on every connection, with and without a stream. A day of that,
/// as fast as it goes, is answered ping by ping and not held against them.
#[tokio::test]
async fn clients_that_ping_all_day_are_answered() {
    const PINGS: usize = 24 * 60 * 60 / 16;

    let server = TestServer::start().await;
    for with_stream in [false, true] {
        let mut peer = RawHttp2::connect(server.address(), &[]).await;
        if with_stream {
            open_stream(&mut peer, 1, WATCH).await;
        }
        for number in 0..PINGS {
            assert!(peer.is_answered().await, "ping {number}, {with_stream}");
        }
    }
    server.stop().await;
}

/// As many connections as may be are served; one more waits, and has its turn when one leaves. The
/// metrics port is not among them.
#[tokio::test]
async fn connections_are_bounded_and_the_next_one_has_its_turn() {
    let server = TestServer::builder()
        .connections(|connections| connections.max_open = 3)
        .start()
        .await;
    let mut peers = Vec::new();
    for _ in 0..3 {
        let mut peer = RawHttp2::connect(server.address(), &[]).await;
        assert!(timeout(PATIENCE, peer.is_answered()).await.unwrap());
        peers.push(peer);
    }
    // The system accepts it, the server does not.
    let mut next = RawHttp2::connect(server.address(), &[]).await;
    let waits = timeout(Duration::from_millis(500), next.next()).await;
    assert!(waits.is_err(), "{waits:?}");
    assert_eq!(server.metric("xmtp_backend_ready").await, 1);
    for peer in &mut peers {
        assert!(peer.is_answered().await);
    }

    drop(peers.pop());
    assert!(timeout(PATIENCE, next.is_answered()).await.unwrap());
    drop(peers);
    drop(next);
    assert_eq!(ids(server.publish(vec![message(1, 1)]).await), [1]);
    server.stop().await;
}

/// A peer that opens more streams than are advertised is refused the rest, and keeps those it has
/// (API-132).
#[tokio::test]
async fn streams_past_the_advertised_number_are_refused() {
    const REFUSED_STREAM: u32 = 7;

    let server = TestServer::builder()
        .table("limits", "max_http2_streams = 2")
        .start()
        .await;
    let mut peer = RawHttp2::connect(server.address(), &[]).await;
    // All at once, so that nothing is told in between.
    let head = grpc_head("/xmtp.backend.v1.SubscriptionService/Subscribe");
    let opened: Vec<u8> = [1, 3, 5]
        .into_iter()
        .flat_map(|stream| frame(kind::HEADERS, flag::END_HEADERS, stream, &head))
        .collect();
    peer.send_bytes(&opened).await.unwrap();
    let refused = timeout(PATIENCE, peer.until(kind::RST_STREAM, flag::NONE)).await;
    let refused = refused.unwrap().unwrap();
    assert_eq!(
        (refused.stream, refused.error_code()),
        (5, Some(REFUSED_STREAM))
    );
    assert!(peer.is_answered().await);
    eventually("two streams are open", async || {
        server.metric("xmtp_stream_sessions{kind=\"bidi\"}").await == 2
    })
    .await;
    server.stop().await;
}
