//! A gate that closes for a shutdown, and says when the last request has left.
//!
//! [`gate`] makes the layer and its [`DrainHandle`] together. While the gate is open, every request
//! passes and is counted until its response body is dropped. Once the handle closes it,
//!
//! - a request that comes is refused with `UNAVAILABLE` in its own protocol, and the status is noted
//!   in the [`Record`](crate::record::Record);
//! - requests inside go on, and [`DrainHandle::drained`] resolves when the last one has left;
//! - [`DrainHandle::cut`] ends the wait for those still without a response: their futures are
//!   dropped and answered `UNAVAILABLE`, so that a deadline can be kept. What such a handler had
//!   done by then may stand; an answer is not a rollback.
//!
//! Requests for the exempt path prefixes, health above all, always pass, are not counted and are
//! never cut. Open streams are the server's to end: their responses have begun, and only their
//! handler can give them a last frame.
//!
//! A body that is dropped has been handed to the transport, which may still be writing. A server
//! that waits for [`drained`](DrainHandle::drained) must then shut its connections down gracefully.
//! The gate must stand inside admission, so that a bad credential still gets its own answer. It must
//! never open again (ARC-003).
//!
//! # Example
//!
//! ```
//! use std::convert::Infallible;
//!
//! use http::{Request, Response};
//! use http_body_util::Empty;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (layer, handle) = layers::drain::gate(&["/grpc.health.v1."]);
//! let service = ServiceBuilder::new().layer(layer).service(service_fn(|_: Request<()>| async {
//!     Ok::<_, Infallible>(Response::new(Empty::<bytes::Bytes>::new()))
//! }));
//!
//! let early = service.clone().oneshot(Request::get("/shop.Till/Pay").body(())?).await?;
//! handle.close();
//! assert_eq!(handle.in_flight(), 1);
//!
//! let late = service.clone().oneshot(Request::get("/shop.Till/Pay").body(())?).await?;
//! assert_eq!(late.headers()["grpc-status"], "14");
//! let health = service.oneshot(Request::get("/grpc.health.v1.Health/Check").body(())?).await?;
//! assert!(health.headers().is_empty());
//!
//! drop(early);
//! handle.drained().await;
//! # Ok(())
//! # }
//! ```

mod body;
mod future;
mod gate;
mod layer;
mod service;

#[cfg(test)]
mod tests;

pub use body::DrainBody;
pub use future::DrainFuture;
pub use gate::DrainHandle;
pub use layer::{DrainLayer, gate};
pub use service::Drain;
