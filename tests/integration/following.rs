//! Subscribers of topics that are letters, and what a server's metrics say of the tasks behind them.

use std::net::SocketAddr;

use client::health::health_check_response::ServingStatus;
use client::health::{HealthCheckRequest, HealthCheckResponse};
use envelope::wire::xmtp::backend::v1::ServerEnvelope;
use harness::{
    Relay, StaticSubscription, Subscription, TestDatabase, TestServer, Transport, eventually,
};
use tonic::{Code, Status};

use crate::reading::{after, id, ids, page_of, query};
use crate::tailing::{Row, text, topic};

pub(crate) const CLOSED: &str = "xmtp_boundary_advances_total{result=\"ok\"}";
pub(crate) const TIMED_OUT: &str = "xmtp_boundary_advances_total{result=\"lock_timeout\"}";
pub(crate) const FAILED: &str = "xmtp_boundary_advances_total{result=\"error\"}";
pub(crate) const GAPS: &str = "xmtp_tailer_gap_ranges";
pub(crate) const POLLS: &str = "xmtp_tailer_polls_total{result=\"ok\"}";
pub(crate) const GENERATIONS: &str = "xmtp_tailer_restarts_total";
pub(crate) const READY: &str = "xmtp_tailer_ready";

/// A server that reaches its database through a relay alone, with these further lines about the database.
pub(crate) async fn behind_a_relay(lines: &str) -> (TestServer, Relay) {
    let database = TestDatabase::create().await;
    let relay = Relay::to(&database.url()).await;
    let url = relay.url(&database.url());
    let server = TestServer::builder()
        .table("database", &format!("url = \"{url}\"\n{lines}"))
        .database(database)
        .start()
        .await;
    (server, relay)
}

/// Returns when a metric of the server has at least this value.
pub(crate) async fn until_at_least(server: &TestServer, series: &str, least: u64) {
    eventually(series, async || server.metric(series).await >= least).await;
}

/// Returns when a metric of the server has this value.
pub(crate) async fn until_is(server: &TestServer, series: &str, value: u64) {
    eventually(series, async || server.metric(series).await == value).await;
}

/// Streams that ended for a reason.
pub(crate) async fn ended(server: &TestServer, reason: &str) -> u64 {
    let series = format!("xmtp_stream_ended_total{{reason=\"{reason}\"}}");
    server.metric(&series).await
}

/// The rows of delivered envelopes, as text.
pub(crate) fn delivered(envelopes: &[ServerEnvelope]) -> String {
    let rows: Vec<Row> = envelopes.iter().map(row).collect();
    text(&rows)
}

/// The row of a delivered envelope.
pub(crate) fn row(envelope: &ServerEnvelope) -> Row {
    let meta = envelope.meta.as_ref().unwrap();
    let bytes = &meta.topic.as_ref().unwrap().topic;
    let letter = ('A'..='Z').find(|letter| topic(*letter).as_bytes() == bytes.as_ref());
    Row {
        topic: letter.expect("a topic of a publisher"),
        id: id(meta).cast_signed(),
    }
}

/// A stream of topics from after an id on, and their targets.
pub(crate) async fn follow(
    address: SocketAddr,
    letters: &str,
    after: u64,
) -> (Subscription, Vec<u64>) {
    let mut stream = Subscription::start(address).await;
    let topics: Vec<_> = letters.chars().map(topic).collect();
    let adds: Vec<_> = topics
        .iter()
        .map(|topic| (topic.as_bytes(), after))
        .collect();
    let (targets, early) = stream.add(&adds).await;
    assert_eq!(early, []);
    (stream, targets)
}

/// A static stream of a topic from the beginning on.
pub(crate) async fn follow_static(
    server: &TestServer,
    letter: char,
) -> Result<StaticSubscription, Status> {
    let topics = vec![after(topic(letter).as_bytes(), 0)];
    StaticSubscription::open(Transport::WebHttp1, server.address(), topics).await
}

/// Neither kind of stream can be opened now.
pub(crate) async fn assert_streams_are_refused(server: &TestServer) {
    let refused = Subscription::open(server.address()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    let refused = follow_static(server, 'A').await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
}

/// Whoever asks is told that the server serves.
pub(crate) async fn assert_healthy(server: &TestServer) {
    let request = HealthCheckRequest {
        service: "xmtp.backend.v1.SubscriptionService".to_owned(),
    };
    let path = "/grpc.health.v1.Health/Check";
    let answer = Transport::Native.call_path(server.address(), path, &request);
    let answer: HealthCheckResponse = answer.await.unwrap();
    assert_eq!(answer.status(), ServingStatus::Serving);
    assert_eq!(server.metric("xmtp_backend_ready").await, 1);
}

/// The ids of a topic as `Query` answers them.
pub(crate) async fn log(server: &TestServer, letter: char) -> Result<Vec<u64>, Status> {
    let request = page_of(vec![after(topic(letter).as_bytes(), 0)], 0);
    Ok(ids(&query(server, &request).await?))
}
