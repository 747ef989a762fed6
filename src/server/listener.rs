//! Accepting connections, and ending them (ARC-002, ARC-003).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower::Service;
use tracing::{debug, warn};

/// How long a peer may take to send the head of an HTTP/1.1 request.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of request headers one request may have. Real clients send a few hundred; a bearer token
/// may be 8 KiB.
const MAX_HEADER_BYTES: u32 = 64 * 1024;

/// HTTP/2 flow-control window of one stream: a 25 MiB message moves in a few dozen steps.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;

/// HTTP/2 flow-control window of a connection: several streams at full speed.
const CONNECTION_WINDOW_BYTES: u32 = 8 * 1024 * 1024;

/// After a failure to accept (for example, out of file descriptors) the next try waits this long.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// The port could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}")]
pub struct BindError {
    /// The configured address.
    pub address: SocketAddr,
    /// Why.
    #[source]
    pub source: std::io::Error,
}

/// Bounds on connections.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Concurrent HTTP/2 streams advertised per connection (API-132).
    pub max_http2_streams: u32,
    /// How long shutdown waits for requests to end (ARC-003).
    pub max_drain_duration: Duration,
}

/// An open port.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Opens the port.
    ///
    /// # Errors
    ///
    /// [`BindError`], which names the address.
    pub async fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let failed = |source| BindError { address, source };
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        let address = tcp.local_addr().map_err(failed)?;
        Ok(Self { tcp, address })
    }

    /// The address that the port really has.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is cancelled, then lets open requests end within the drain duration,
    /// then closes what is left. Tells whether everything ended by itself.
    pub async fn serve<S>(self, service: S, limits: Limits, stop: CancellationToken) -> bool
    where
        S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>
            + Clone
            + Send
            + 'static,
        S::Future: Send + 'static,
    {
        let builder = connection_builder(&limits);
        let graceful = GracefulShutdown::new();
        let closed = CancellationToken::new();
        // However this function ends, no connection outlives it.
        let _close_on_exit = closed.clone().drop_guard();

        while let Some(accepted) = stop.run_until_cancelled(self.tcp.accept()).await {
            match accepted {
                Ok((stream, _)) => {
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
                Err(error) => {
                    warn!(kind = %error.kind(), "cannot accept connections");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }

        drop(self.tcp);
        tokio::time::timeout(limits.max_drain_duration, graceful.shutdown())
            .await
            .is_ok()
    }
}

fn prepared(stream: TcpStream) -> TokioIo<TcpStream> {
    // Small frames must not wait for more to come. A socket that refuses is closed anyway.
    let _ = stream.set_nodelay(true);
    TokioIo::new(stream)
}

fn connection_builder(limits: &Limits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.max_http2_streams)
        .max_header_list_size(MAX_HEADER_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    builder
}
