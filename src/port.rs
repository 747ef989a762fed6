//! An open TCP port: what the gRPC port and the metrics port have in common.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// After a failure to accept (for example, out of file descriptors) the next try waits this long.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

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
    tcp: TcpListener,
    address: SocketAddr,
}

impl Port {
    /// Opens the port.
    ///
    /// # Errors
    ///
    /// [`BindError`], which names the purpose and the address.
    pub async fn bind(purpose: &'static str, address: SocketAddr) -> Result<Self, BindError> {
        let failed = |source| BindError {
            purpose,
            address,
            source,
        };
        let tcp = TcpListener::bind(address).await.map_err(failed)?;
        let address = tcp.local_addr().map_err(failed)?;
        Ok(Self { tcp, address })
    }

    /// The address that the port really has.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection; `None` once `stop` is cancelled.
    pub async fn accept(&self, stop: &CancellationToken) -> Option<TcpStream> {
        loop {
            match stop.run_until_cancelled(self.tcp.accept()).await? {
                Ok((stream, _)) => return Some(stream),
                Err(error) => {
                    warn!(kind = %error.kind(), "cannot accept connections");
                    stop.run_until_cancelled(tokio::time::sleep(ACCEPT_BACKOFF))
                        .await?;
                }
            }
        }
    }
}
