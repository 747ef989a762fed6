//! Peers that send what costs them little and might cost the server much: each has an end, and
//! nobody else notices (ARC-002).

use std::time::Duration;

use harness::raw_http2::{RawHttp2, field, flag, frame, grpc_head, kind};
use harness::{TestServer, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::given::{ids, message};

/// Nothing here takes longer unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// The largest payload of a frame that the server takes.
const FRAME: usize = 16 * 1024;

// Error codes (RFC 9113, 7).
const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const FRAME_SIZE_ERROR: u32 = 6;
const ENHANCE_YOUR_CALM: u32 = 11;

const QUERY: &str = "/xmtp.backend.v1.QueryService/Query";

/// Nothing is left of what was asked, and who asks now is answered.
async fn assert_unharmed(server: &TestServer, number: u64) {
    eventually("no query is in flight", async || {
        server
            .metric(
                "grpc_server_in_flight{grpc_method=\"Query\",\
                 grpc_service=\"xmtp.backend.v1.QueryService\",grpc_type=\"unary\"}",
            )
            .await
            == 0
    })
    .await;
    assert_eq!(ids(server.publish(vec![message(1, number)]).await).len(), 1);
}

/// Requests that are opened and reset at once, as many as this.
fn rapid_resets(count: u32) -> Vec<u8> {
    let head = grpc_head(QUERY);
    (0..count)
        .map(|number| 2 * number + 1)
        .flat_map(|stream| {
            let opened = frame(kind::HEADERS, flag::END_HEADERS, stream, &head);
            let reset = frame(kind::RST_STREAM, flag::NONE, stream, &[0, 0, 0, 8]);
            [opened, reset].concat()
        })
        .collect()
}

/// A head that goes on in frames of this length and never ends.
fn endless_head(length: usize) -> Vec<u8> {
    let mut frames = frame(kind::HEADERS, flag::NONE, 1, &grpc_head(QUERY));
    // Each is the beginning of a field, or nothing but more of its value.
    let part = vec![0; length];
    for _ in 0..10_000 {
        frames.extend(frame(kind::CONTINUATION, flag::NONE, 1, &part));
    }
    frames
}

/// A head of this many bytes in fields, which ends.
fn long_head(bytes: usize) -> Vec<u8> {
    let mut head = grpc_head(QUERY);
    let padding = field("x-padding", &"a".repeat(1_000));
    while head.len() < bytes {
        head.extend(&padding);
    }
    let parts: Vec<&[u8]> = head.chunks(FRAME).collect();
    let last = parts.len() - 1;
    let mut frames = Vec::new();
    for (number, part) in parts.into_iter().enumerate() {
        let (kind, mut flags) = match number {
            0 => (kind::HEADERS, flag::END_STREAM),
            _ => (kind::CONTINUATION, flag::NONE),
        };
        if number == last {
            flags |= flag::END_HEADERS;
        }
        frames.extend(frame(kind, flags, 1, part));
    }
    frames
}

/// A query that is open, and these frames.
fn with_query(frames: &[Vec<u8>]) -> Vec<u8> {
    let opened = frame(kind::HEADERS, flag::END_HEADERS, 1, &grpc_head(QUERY));
    [opened, frames.concat()].concat()
}

/// Goal: what breaks the protocol, or its spirit, ends the connection with the error that says so.
/// Method: a table of bytes; whatever the peer sends, it reads until it is sent away (CVE-2023-44487,
/// CVE-2024-27316).
#[tokio::test]
async fn floods_end_their_connection() {
    const ATTEMPTS: usize = 50;

    let server = TestServer::start().await;
    let data = |length| frame(kind::DATA, flag::NONE, 1, &vec![0; length]);
    let cases = [
        ("rapid resets", rapid_resets(20_000), ENHANCE_YOUR_CALM),
        ("endless head", endless_head(FRAME), ENHANCE_YOUR_CALM),
        ("endless head in crumbs", endless_head(0), ENHANCE_YOUR_CALM),
        ("vast head", long_head(1024 * 1024), ENHANCE_YOUR_CALM),
        (
            "empty data",
            with_query(&vec![data(0); 10_000]),
            ENHANCE_YOUR_CALM,
        ),
        (
            "a frame over the size",
            with_query(&[data(FRAME + 1)]),
            FRAME_SIZE_ERROR,
        ),
        (
            "more data than the window",
            with_query(&vec![data(FRAME); 1024]),
            FLOW_CONTROL_ERROR,
        ),
        (
            "a window beyond its size",
            vec![frame(kind::WINDOW_UPDATE, flag::NONE, 0, &[0x7f, 255, 255, 255]); 2].concat(),
            FLOW_CONTROL_ERROR,
        ),
        (
            "data on no stream",
            frame(kind::DATA, flag::NONE, 0, b"data"),
            PROTOCOL_ERROR,
        ),
    ];
    for (number, (claim, bytes, expected)) in (1..).zip(cases) {
        // A connection that is closed while the peer still sends is reset, and what the peer was told
        // may be lost with it; not every time.
        let mut told = None;
        for _ in 0..ATTEMPTS {
            let mut peer = RawHttp2::connect(server.address(), &[]).await;
            told = timeout(PATIENCE, peer.flood(&bytes)).await.expect(claim);
            if told.is_some() {
                break;
            }
        }
        assert_eq!(told, Some(expected), "{claim}");
        assert_unharmed(&server, number).await;
    }
    server.stop().await;
}

/// A head over 64 KiB is refused by itself: the connection stays, and serves the next stream.
#[tokio::test]
async fn a_head_over_the_limit_is_refused_and_the_connection_stays() {
    let server = TestServer::start().await;
    let mut peer = RawHttp2::connect(server.address(), &[]).await;
    peer.send_bytes(&long_head(80 * 1024)).await.unwrap();
    let refused = timeout(PATIENCE, peer.until(kind::HEADERS, flag::END_STREAM)).await;
    assert_eq!(refused.unwrap().unwrap().stream, 1);
    assert!(peer.is_answered().await);
    assert_unharmed(&server, 1).await;
    server.stop().await;
}

/// Goal: answers that nobody reads do not pile up in the server, and their reader does not keep its
/// place. Method: pings and settings, each of which has to be answered, by a peer that reads nothing.
/// What it can send is bounded by the buffers of the two sockets, which are full before it is asked for
/// a sign of life; not even a goodbye gets through then, and still the connection ends.
#[tokio::test]
async fn floods_of_questions_stall_their_own_connection() {
    /// Far more than the buffers of two sockets hold.
    const FLOOD: usize = 256 * 1024 * 1024;
    /// What the buffers do hold is some hundred thousand questions, each of which is answered first.
    const PATIENCE: Duration = Duration::from_secs(120);

    let server = TestServer::builder()
        .connections(|connections| {
            connections.ping_interval = Duration::from_secs(3);
            connections.ping_patience = Duration::from_millis(500);
        })
        .start()
        .await;
    let questions = [
        ("pings", frame(kind::PING, flag::NONE, 0, b"a person")),
        ("settings", frame(kind::SETTINGS, flag::NONE, 0, &[])),
    ];
    for (number, (claim, question)) in (1..).zip(questions) {
        let mut peer = RawHttp2::connect(server.address(), &[]).await;
        let questions = question.repeat(4_096);
        let mut sent = 0;
        let ended = timeout(PATIENCE, async {
            while sent < FLOOD && peer.send_bytes(&questions).await.is_ok() {
                sent += questions.len();
            }
        });
        ended.await.expect(claim);
        assert!(sent < FLOOD, "{claim}");
        assert_unharmed(&server, number).await;
    }
    server.stop().await;
}

/// A peer that sends a head and never its end is closed: it cannot answer a ping in between.
#[tokio::test]
async fn a_head_that_never_ends_is_closed() {
    let server = TestServer::builder()
        .connections(|connections| {
            connections.ping_interval = Duration::from_millis(100);
            connections.ping_patience = Duration::from_millis(300);
        })
        .start()
        .await;
    let head = frame(kind::HEADERS, flag::NONE, 1, &grpc_head(QUERY));
    for cut in [head.len(), head.len() - 1, 12, 9, 4] {
        let mut peer = RawHttp2::connect(server.address(), &[]).await;
        peer.send_bytes(&head[..cut]).await.unwrap();
        let ended = timeout(PATIENCE, async { while peer.next().await.is_some() {} });
        ended.await.expect("the server closes the connection");
    }
    assert_unharmed(&server, 1).await;
    server.stop().await;
}

/// Heads of HTTP/1.1 that are too long or have too many fields are refused, and the connection ends.
#[tokio::test]
async fn heads_of_http1_are_bounded() {
    let server = TestServer::start().await;
    let long = format!("x-padding: {}\r\n", "a".repeat(1024 * 1024));
    let cases = [long, "x-a: a\r\n".repeat(101), "x-a: a\r\n".repeat(100_000)];
    for (number, fields) in (1..).zip(cases) {
        let mut socket = TcpStream::connect(server.address()).await.unwrap();
        let request = format!("POST {QUERY} HTTP/1.1\r\nhost: a\r\n{fields}\r\n");
        // The server may close while it is sent to.
        let _ = socket.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let ended = timeout(PATIENCE, socket.read_to_end(&mut answer)).await;
        let read = ended.expect("the server closes the connection");
        assert!(
            answer.starts_with(b"HTTP/1.1 431") || (answer.is_empty() && read.is_err()),
            "{}",
            answer.escape_ascii()
        );
        assert_unharmed(&server, number).await;
    }
    server.stop().await;
}
