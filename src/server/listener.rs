//! Accepting connections, and ending them (ARC-002, ARC-003).

use std::pin::pin;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::Serve;
use super::patient::Patient;
use crate::descriptors;
use crate::port::Port;

/// Connections of the gRPC port, when the system allows that many descriptors. A connection carries a
/// hundred streams; an idle one costs some ten kilobytes, so that this many are a few hundred
/// megabytes and no more.
const MAX_CONNECTIONS: usize = 16_384;

/// The part of the process's descriptors that connections of the gRPC port leave to everything else:
/// the database, the metrics port, other servers, files.
const SPARED_DESCRIPTORS: usize = 4;

/// How long a new connection may take to begin: real clients do so at once.
const OPENING: Duration = Duration::from_secs(30);

/// How long a connection of HTTP/1.1 may wait for the head of its next request. Proxies keep
/// connections and must be the ones to close them, or a request meets a closed port; of the known
/// ones none keeps an idle connection longer than 600 s by default. Whoever sends a head slowly keeps
/// no more than whoever sends nothing.
const HTTP1_IDLE: Duration = Duration::from_secs(620);

/// How long a connection of HTTP/2 may be silent before it is asked whether anybody is there.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// How long the answer to a ping may take. It comes after everything the kernel has taken for
/// sending, some megabytes on a connection that is slow.
const PING_PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of request headers one request may have. Real clients send a few hundred; a bearer token
/// may be 8 KiB. The frames that carry them are bounded by it too.
const MAX_HEADER_BYTES: u32 = 64 * 1024;

/// Headers of an HTTP/1.1 request; a browser behind a chain of proxies sends some thirty.
const MAX_HTTP1_HEADERS: usize = 100;

/// HTTP/2 flow-control window of one stream: a 25 MiB message moves in a few dozen steps.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;

/// HTTP/2 flow-control window of a connection: several streams at full speed.
const CONNECTION_WINDOW_BYTES: u32 = 8 * 1024 * 1024;

/// Payload of one HTTP/2 frame, the least that the protocol allows: frames of many streams take turns.
const MAX_FRAME_BYTES: u32 = 16 * 1024;

/// Bytes of answers that one stream of HTTP/2 holds for a peer whose window is closed. More stays
/// where it is made, behind its own bounds.
const SEND_BUFFER_BYTES: usize = 400 * 1024;

/// Streams that a peer has opened and reset before they were looked at (CVE-2023-44487). A client
/// that changes its mind does so for a handful.
const MAX_PENDING_RESETS: usize = 20;

/// Streams of a connection that were reset because the peer broke the protocol. One that goes on
/// breaking it is sent away.
const MAX_ERROR_RESETS: usize = 1024;

/// How long peers have to leave once everything is answered. Some never do: one that ignores the
/// goodbye of HTTP/2, or keeps an idle HTTP/1.1 connection.
const GOODBYE: Duration = Duration::from_secs(2);

/// How many connections the port has, and how long each may keep it waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    /// Connections open at a time.
    pub max_open: usize,
    /// Until the preface of HTTP/2 or the first head of HTTP/1.1 is there.
    pub opening: Duration,
    /// Until the next head of HTTP/1.1 is there.
    pub http1_idle: Duration,
    /// Silence on HTTP/2 before a ping.
    pub ping_interval: Duration,
    /// Until that ping is answered.
    pub ping_patience: Duration,
}

impl Connections {
    /// How long a peer of HTTP/2 may take nothing of what it is sent: as long as a ping and its answer
    /// may take.
    fn taking(&self) -> Duration {
        self.ping_interval.saturating_add(self.ping_patience)
    }

    /// What serves real clients. Raises the process's limit of descriptors.
    #[must_use]
    pub fn production() -> Self {
        let descriptors = descriptors::raise();
        Self {
            max_open: MAX_CONNECTIONS.min(descriptors - descriptors / SPARED_DESCRIPTORS),
            opening: OPENING,
            http1_idle: HTTP1_IDLE,
            ping_interval: PING_INTERVAL,
            ping_patience: PING_PATIENCE,
        }
    }
}

/// Serves until `stop` is cancelled, then says goodbye to every connection and closes those that do
/// not leave by themselves.
///
/// `max_http2_streams` is advertised to each connection (API-132).
pub async fn serve(
    port: Port,
    connections: Connections,
    service: impl Serve,
    max_http2_streams: u32,
    stop: CancellationToken,
) {
    let builder = connection_builder(&connections, max_http2_streams);
    let graceful = GracefulShutdown::new();
    let closed = CancellationToken::new();
    // However this function ends, no connection outlives it.
    let _close_on_exit = closed.clone().drop_guard();

    while let Some((stream, place)) = port.accept(&stop).await {
        let stream = Patient::new(stream, connections.opening, connections.taking());
        let stream = TokioIo::new(stream);
        let service = TowerToHyperService::new(service.clone());
        let connection = builder
            .serve_connection_with_upgrades(stream, service)
            .into_owned();
        let connection = graceful.watch(connection);
        let closed = closed.clone();
        tokio::spawn(async move {
            let _place = place;
            // A connection error concerns its peer alone; its text may quote it.
            if let Some(Err(_)) = closed.run_until_cancelled(pin!(connection)).await {
                debug!("a connection ended with an error");
            }
        });
    }

    drop(port);
    if tokio::time::timeout(GOODBYE, graceful.shutdown())
        .await
        .is_err()
    {
        debug!("some connections did not leave by themselves");
    }
}

fn connection_builder(
    connections: &Connections,
    max_http2_streams: u32,
) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(connections.http1_idle)
        .max_headers(MAX_HTTP1_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(connections.ping_interval)
        .keep_alive_timeout(connections.ping_patience)
        .max_concurrent_streams(max_http2_streams)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_local_error_reset_streams(MAX_ERROR_RESETS)
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_frame_size(MAX_FRAME_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    builder
}
