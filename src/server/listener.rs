//! Accepting connections, and ending them (ARC-002, ARC-003).

use std::pin::pin;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::Serve;
use crate::port::Port;

/// How long a peer may take to send the head of an HTTP/1.1 request.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of request headers one request may have. Real clients send a few hundred; a bearer token
/// may be 8 KiB.
const MAX_HEADER_BYTES: u32 = 64 * 1024;

/// HTTP/2 flow-control window of one stream: a 25 MiB message moves in a few dozen steps.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;

/// HTTP/2 flow-control window of a connection: several streams at full speed.
const CONNECTION_WINDOW_BYTES: u32 = 8 * 1024 * 1024;

/// How long peers have to leave once everything is answered. Some never do: one that ignores the
/// goodbye of HTTP/2, or keeps an idle HTTP/1.1 connection.
const GOODBYE: Duration = Duration::from_secs(2);

/// Serves until `stop` is cancelled, then says goodbye to every connection and closes those that do
/// not leave by themselves.
///
/// `max_http2_streams` is advertised to each connection (API-132).
pub async fn serve(
    port: Port,
    service: impl Serve,
    max_http2_streams: u32,
    stop: CancellationToken,
) {
    let builder = connection_builder(max_http2_streams);
    let graceful = GracefulShutdown::new();
    let closed = CancellationToken::new();
    // However this function ends, no connection outlives it.
    let _close_on_exit = closed.clone().drop_guard();

    while let Some(stream) = port.accept(&stop).await {
        let service = TowerToHyperService::new(service.clone());
        let connection = builder
            .serve_connection_with_upgrades(prepared(stream), service)
            .into_owned();
        let connection = graceful.watch(connection);
        let closed = closed.clone();
        tokio::spawn(async move {
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

fn prepared(stream: TcpStream) -> TokioIo<TcpStream> {
    // Small frames must not wait for more to come. A socket that refuses is closed anyway.
    let _ = stream.set_nodelay(true);
    TokioIo::new(stream)
}

fn connection_builder(max_http2_streams: u32) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(max_http2_streams)
        .max_header_list_size(MAX_HEADER_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    builder
}
