//! Signs of life over the wire, with short intervals (ARC-081, API-107). The exact times are tested
//! where the clock is not real.

use std::time::{Duration, Instant};

use envelope::wire::xmtp::backend::v1::subscribe_response::Response;
use harness::{Subscription, TestServer};
use tonic::Code;

use crate::subscribers::{topic, until_all_ended};

async fn start(interval_ms: u64, wait_ms: u64) -> TestServer {
    let lines = format!("keepalive_interval_ms = {interval_ms}\nmax_pong_wait_ms = {wait_ms}");
    TestServer::builder().table("streams", &lines).start().await
}

/// A client that answers no Ping is told `DEADLINE_EXCEEDED`, not before its time; other frames of it
/// do not help, nor does a Pong with another nonce. There is one Ping and no second.
#[tokio::test]
async fn a_client_that_answers_no_ping_is_let_go() {
    const WAIT: Duration = Duration::from_millis(400);

    let server = start(50, 400).await;
    let mut stream = Subscription::start(server.address()).await;
    let Response::Ping(ping) = stream.next().await.unwrap() else {
        panic!("nothing else can come");
    };
    let asked = Instant::now();
    stream.pong(ping.nonce.wrapping_add(1));
    stream.ping(7);
    stream.update(1, vec![], vec![]);
    let mut answers = Vec::new();
    let status = loop {
        match stream.next().await {
            Ok(frame) => answers.push(frame),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    // The transport had the Ping a little before this client did.
    assert!(asked.elapsed() > WAIT - Duration::from_millis(50));
    assert!(
        matches!(answers[..], [Response::Pong(_), Response::Applied(_)]),
        "{answers:?}"
    );
    until_all_ended(&server, "keepalive", 1).await;
    server.stop().await;
}

/// A client that answers lives on through many Pings, each with a nonce of its own, though it does
/// nothing else.
#[tokio::test]
async fn a_client_that_answers_every_ping_is_kept() {
    let server = start(20, 10_000).await;
    let mut stream = Subscription::start(server.address()).await;
    stream.add(&[(&topic(1), 0)]).await;
    let mut nonces = Vec::new();
    for _ in 0..20 {
        let Response::Ping(ping) = stream.next().await.unwrap() else {
            panic!("nothing else can come");
        };
        nonces.push(ping.nonce);
        stream.pong(ping.nonce);
    }
    nonces.sort_unstable();
    nonces.dedup();
    assert_eq!(nonces.len(), 20);
    server.stop().await;
}
