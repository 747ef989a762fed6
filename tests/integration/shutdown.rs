//! How a process ends while its peers are busy, stubborn or not there at all (ARC-003).

use std::net::SocketAddr;
use std::time::Duration;

use client::health::HealthCheckResponse;
use client::health::health_check_response::ServingStatus;
use envelope::wire::xmtp::backend::v1::subscribe_static_response::Response as StaticFrame;
use envelope::wire::xmtp::backend::v1::{
    GetConfigurationRequest, GetConfigurationResponse, PublishRequest, PublishResponse,
    SubscribeStaticRequest,
};
use harness::raw_http2::{RawHttp2, flag, grpc_head, kind};
use harness::{
    AdvisoryLock, Form, HeldLock, Http, RawMessage, StaticSubscription, TestDatabase, Transport,
    WebCall,
};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tonic::{Code, Status};

use crate::connections::open_stream;
use crate::given::{group_topic, ids, message};
use crate::process::{Process, document, free_address};
use crate::reading::after;

/// Nothing here takes longer unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a process may take beyond its drain duration.
const AFTERWARDS: Duration = Duration::from_secs(5);

/// Longer than any test.
const FOR_EVER_MS: u64 = 600_000;

const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// The setting of HTTP/2 for how much of a stream a peer takes before it has read.
const INITIAL_WINDOW_SIZE: u16 = 4;

/// A process that drains this long, and where it serves.
async fn serving(database: &TestDatabase, drain_ms: u64) -> (Process, SocketAddr) {
    let lines = format!("server.max_drain_duration_ms = {drain_ms}");
    let process = Process::with_document(&document(&database.url(), &lines));
    let address = process.until_serving().await;
    (process, address)
}

/// A publish that waits for a lock until that is released.
struct Waiting {
    publish: JoinHandle<Result<PublishResponse, Status>>,
    lock: HeldLock,
}

async fn waiting_publish(database: &TestDatabase, address: SocketAddr) -> Waiting {
    let locks = database.advisory_locks().await;
    let lock = AdvisoryLock::of_topic(group_topic(1).as_bytes());
    let held = locks.hold(lock).await;
    let request = PublishRequest {
        envelopes: vec![message(1, 1)],
    };
    let publish = tokio::spawn(async move {
        let method = "PublishService/Publish";
        Transport::Native.call(address, method, &request).await
    });
    locks.until_waiting(lock, 1).await;
    Waiting {
        publish,
        lock: held,
    }
}

async fn health(address: SocketAddr) -> ServingStatus {
    let path = "/grpc.health.v1.Health/Check";
    let request = RawMessage::default();
    let answer = Transport::Native.call_path(address, path, &request);
    let answer: HealthCheckResponse = answer.await.unwrap();
    answer.status()
}

/// The value of a gauge without labels on a metrics port.
async fn gauge(metrics: SocketAddr, name: &str) -> String {
    let request = Request::get(format!("http://{metrics}/metrics"))
        .header("host", metrics.to_string())
        .body(Full::default())
        .unwrap();
    let call = WebCall {
        address: metrics,
        http: Http::One,
        form: Form::Binary,
    };
    let body = call.send(request).await.into_body().collect().await;
    let text = String::from_utf8(body.unwrap().to_bytes().into()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim().to_owned()
}

/// A subscriber whose window is closed: not even the first frame can be sent to it.
async fn stalled_subscriber(address: SocketAddr) -> RawHttp2 {
    let mut peer = RawHttp2::connect(address, &[(INITIAL_WINDOW_SIZE, 0)]).await;
    let head = grpc_head("/xmtp.backend.v1.SubscriptionService/SubscribeStatic");
    let sent = peer.send(kind::HEADERS, flag::END_HEADERS, 1, &head);
    sent.await.unwrap();
    let topics = vec![after(group_topic(2).as_bytes(), 0)];
    let message = SubscribeStaticRequest { topics }.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let message = [&[0], &length[..], &message].concat();
    let sent = peer.send(kind::DATA, flag::END_STREAM, 1, &message);
    sent.await.unwrap();
    let head = timeout(PATIENCE, peer.until(kind::HEADERS, flag::NONE)).await;
    assert_eq!(head.unwrap().unwrap().stream, 1);
    peer
}

/// An HTTP/1.1 connection that was answered and is kept.
async fn kept_http1(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    let read = timeout(PATIENCE, socket.read_exact(&mut answer)).await;
    read.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 400");
    socket
}

/// Goal: peers that owe nothing do not hold a process up, however long it may drain. Method: a
/// connection that never sent a byte, half a preface, a kept one of HTTP/1.1, one of HTTP/2 that
/// ignores the goodbye, and one with a stream that does, all at once.
#[tokio::test]
async fn stubborn_peers_do_not_hold_the_process_up() {
    let database = TestDatabase::create().await;
    let (process, address) = serving(&database, FOR_EVER_MS).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    let mut half = TcpStream::connect(address).await.unwrap();
    half.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    let mut kept = kept_http1(address).await;
    let mut idle = RawHttp2::connect(address, &[]).await;
    assert!(idle.is_answered().await);
    let mut watcher = RawHttp2::connect(address, &[]).await;
    open_stream(&mut watcher, 1, WATCH).await;
    assert!(watcher.is_answered().await);
    let mut fast = StaticSubscription::open(
        Transport::WebHttp1,
        address,
        vec![after(group_topic(2).as_bytes(), 0)],
    )
    .await
    .unwrap();
    assert!(matches!(fast.next().await, Ok(StaticFrame::Started(_))));

    let asked = Instant::now();
    process.signal("TERM");
    let ended = process.end().await;
    assert!(asked.elapsed() < AFTERWARDS, "{:?}", asked.elapsed());
    ended.check(0, "drained");
    assert_eq!(fast.next().await.unwrap_err().code(), Code::Unavailable);
    for peer in [&mut idle, &mut watcher] {
        let goodbye = timeout(PATIENCE, peer.until(kind::GOAWAY, flag::NONE)).await;
        assert_eq!(goodbye.unwrap().unwrap().error_code(), Some(0));
    }
    for socket in [&mut silent, &mut half, &mut kept] {
        let mut rest = Vec::new();
        let read = timeout(PATIENCE, socket.read_to_end(&mut rest)).await;
        let _ = read.expect("the connection is closed");
    }
    database.drop().await;
}

/// A subscriber that has stopped reading, and a publish that waits for a lock: both are cut when the
/// drain duration is over, the publish with `UNAVAILABLE`, and the process is gone in time.
#[tokio::test]
async fn what_does_not_end_is_cut_after_the_drain_duration() {
    const DRAIN: Duration = Duration::from_millis(1_500);

    let database = TestDatabase::create().await;
    let (process, address) = serving(&database, 1_500).await;
    let stalled = stalled_subscriber(address).await;
    let Waiting { publish, lock } = waiting_publish(&database, address).await;

    let asked = Instant::now();
    process.signal("INT");
    let refused = publish.await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(asked.elapsed() >= DRAIN, "{:?}", asked.elapsed());
    let ended = process.end().await;
    assert!(
        asked.elapsed() < DRAIN + AFTERWARDS,
        "{:?}",
        asked.elapsed()
    );
    ended.check(0, "the drain deadline cut connections");
    lock.release().await;
    assert_eq!(database.count("envelopes").await, 0);
    drop(stalled);
    database.drop().await;
}

/// Goal: everything that tells of the shutdown tells of it at once, while something still runs: the
/// gauge, health, streams, and refusals of everything else on old connections and new ones; then what
/// ran has its answer. Method: a publish waits for a lock that the test holds.
#[tokio::test]
async fn a_shutdown_is_told_everywhere_while_something_runs() {
    let database = TestDatabase::create().await;
    let metrics = free_address();
    let lines = format!("server.max_drain_duration_ms = {FOR_EVER_MS}");
    let document = document(&database.url(), &lines).replace(
        "metrics_listen = \"127.0.0.1:0\"",
        &format!("metrics_listen = \"{metrics}\""),
    );
    let process = Process::with_document(&document);
    let address = process.until_serving().await;
    let mut streams = Vec::new();
    for transport in Transport::ALL {
        let topics = vec![after(group_topic(2).as_bytes(), 0)];
        let stream = StaticSubscription::open(transport, address, topics).await;
        streams.push((transport, stream.unwrap()));
    }
    let mut old = RawHttp2::connect(address, &[]).await;
    let Waiting { publish, lock } = waiting_publish(&database, address).await;
    assert_eq!(gauge(metrics, "xmtp_backend_ready").await, "1");
    assert_eq!(health(address).await, ServingStatus::Serving);

    process.signal("TERM");
    process.until_logged("shutting down").await;
    for (transport, mut stream) in streams {
        let end = loop {
            match timeout(PATIENCE, stream.next()).await.unwrap() {
                Ok(StaticFrame::Started(_)) => {}
                Ok(other) => panic!("{transport:?}: {other:?}"),
                Err(status) => break status,
            }
        };
        assert_eq!(end.code(), Code::Unavailable, "{transport:?}");
    }
    assert_eq!(gauge(metrics, "xmtp_backend_ready").await, "0");
    assert_eq!(health(address).await, ServingStatus::NotServing);
    for transport in Transport::ALL {
        let method = "ConfigurationService/GetConfiguration";
        let refused: Result<GetConfigurationResponse, _> = transport
            .call(address, method, &GetConfigurationRequest {})
            .await;
        assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
    }
    assert!(old.is_answered().await, "the connection is still there");
    assert!(!publish.is_finished());

    lock.release().await;
    assert_eq!(ids(publish.await.unwrap()).len(), 1);
    process.end().await.check(0, "drained");
    database.drop().await;
}

/// A second signal does not wait for what the first one waits for.
#[tokio::test]
async fn a_second_signal_ends_the_process_with_failure() {
    for signals in [["TERM", "TERM"], ["INT", "TERM"], ["TERM", "INT"]] {
        let database = TestDatabase::create().await;
        let (mut process, address) = serving(&database, FOR_EVER_MS).await;
        let Waiting { publish, lock } = waiting_publish(&database, address).await;
        process.signal(signals[0]);
        process.until_logged("shutting down").await;
        assert!(!process.has_ended());
        process.signal(signals[1]);
        process.end().await.check(1, "shutting down");
        publish.await.unwrap().unwrap_err();
        lock.release().await;
        assert_eq!(database.count("envelopes").await, 0);
        database.drop().await;
    }
}
