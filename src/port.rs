//! An open TCP port: what the gRPC port and the metrics port have in common.
//!
//! A port never has more connections open than it was made for. What comes then waits in the queue of
//! the operating system: a descriptor per peer without a bound would end in a process that cannot
//! open its database (ARC-002).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// After a failure to accept (for example, out of file descriptors) the next try waits this long.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// How often the log says that a port is full.
const FULL_PROGRESS: Duration = Duration::from_secs(60);

/// After this long without a byte the kernel asks whether the peer is still there: the only way to
/// notice that a peer of HTTP/1.1 has vanished while nothing is sent to it.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(60);

/// How often the kernel asks again. It gives up after the system's number of tries, nine on Linux.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(15);

/// A port could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for {purpose} on {address}: {source}")]
pub struct BindError {
    /// What the port is for.
    pub purpose: &'static str,
    /// The configured address.
    pub address: SocketAddr,
    /// Why.
    pub source: io::Error,
}

/// A port that connections can be accepted from.
#[derive(Debug)]
pub struct Port {
    purpose: &'static str,
    tcp: TcpListener,
    address: SocketAddr,
    places: Arc<Semaphore>,
}

/// The place of one connection among those that a port may have open; free again when dropped.
#[derive(Debug)]
pub struct Place {
    _permit: OwnedSemaphorePermit,
}

impl Port {
    /// Opens the port, for at most so many connections at a time.
    ///
    /// # Errors
    ///
    /// [`BindError`], which names the purpose and the address.
    pub async fn bind(
        purpose: &'static str,
        address: SocketAddr,
        max_connections: usize,
    ) -> Result<Self, BindError> {
        let failed = |source| BindError {
            purpose,
            address,
            source,
        };
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        let address = tcp.local_addr().map_err(failed)?;
        let places = max_connections.clamp(1, Semaphore::MAX_PERMITS);
        Ok(Self {
            purpose,
            tcp,
            address,
            places: Arc::new(Semaphore::new(places)),
        })
    }

    /// The address that the port really has.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection, and its place, once there is one; `None` once `stop` is cancelled.
    pub async fn accept(&self, stop: &CancellationToken) -> Option<(TcpStream, Place)> {
        let place = stop.run_until_cancelled(self.place()).await?;
        loop {
            match stop.run_until_cancelled(self.tcp.accept()).await? {
                Ok((stream, _)) => {
                    prepare(&stream);
                    return Some((stream, place));
                }
                Err(error) => {
                    warn!(kind = %error.kind(), "cannot accept connections");
                    stop.run_until_cancelled(tokio::time::sleep(ACCEPT_BACKOFF))
                        .await?;
                }
            }
        }
    }

    /// Waits for a place. It says so from time to time: peers see a port that does not answer.
    async fn place(&self) -> Place {
        let mut wait = Duration::ZERO;
        loop {
            let free = Arc::clone(&self.places).acquire_owned();
            match tokio::time::timeout(wait, free).await {
                Ok(Ok(permit)) => return Place { _permit: permit },
                // Nobody closes the semaphore.
                Ok(Err(_)) => std::future::pending().await,
                Err(_) => {
                    wait = FULL_PROGRESS;
                    warn!(
                        port = self.purpose,
                        "as many connections are open as may be: new ones have to wait"
                    );
                }
            }
        }
    }
}

/// A socket that refuses one of these is closed anyway.
fn prepare(stream: &TcpStream) {
    // Small frames must not wait for more to come.
    let _ = stream.set_nodelay(true);
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_EVERY);
    let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
}
