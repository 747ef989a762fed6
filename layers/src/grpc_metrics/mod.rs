//! Counts gRPC requests by label: started, in flight, handled with its code and duration, bytes.
//!
//! The server decides what is counted and where. Its [`Classify`] turns the raw path into labels, or
//! into nothing for a path that is not metered; it must map paths it does not know to one label,
//! because a path is caller data. Its [`Recorder`] turns labels into [`Series`], the handles that
//! one request needs, so that no label is looked up while frames pass.
//!
//! Every started request is handled exactly once: when its response body ended, failed or was
//! dropped, when its future was dropped, or when a panic unwound through it. That one call is also
//! the only place that may take a request out of flight. Bytes are told frame by frame while a
//! stream is open. The code is found as [`completion`](crate::completion) finds it. This layer must
//! never know a metrics library, and never make a label itself (ARC-098).
//!
//! # Example
//!
//! ```
//! use std::convert::Infallible;
//! use std::sync::atomic::{AtomicI64, Ordering};
//! use std::time::Duration;
//!
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use layers::code::Code;
//! use layers::grpc_metrics::{GrpcMetricsLayer, Recorder, Series};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! static IN_FLIGHT: AtomicI64 = AtomicI64::new(0);
//! static EMITTED: AtomicI64 = AtomicI64::new(0);
//!
//! #[derive(Clone)]
//! struct Metrics;
//! struct OneCall;
//!
//! impl Recorder<&'static str> for Metrics {
//!     type Series = OneCall;
//!     fn series(&self, _method: &'static str) -> OneCall {
//!         OneCall
//!     }
//! }
//!
//! impl Series for OneCall {
//!     fn started(&self) {
//!         IN_FLIGHT.fetch_add(1, Ordering::Relaxed);
//!     }
//!     fn request_bytes(&self, _bytes: u64) {}
//!     fn response_bytes(&self, bytes: u64) {
//!         EMITTED.fetch_add(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
//!     }
//!     fn handled(&self, _code: Code, _elapsed: Duration) {
//!         IN_FLIGHT.fetch_sub(1, Ordering::Relaxed);
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let classify = |path: &str| match path {
//!     "/shop.Till/Pay" => Some("Pay"),
//!     "/shop.Till/Ping" => None,
//!     _ => Some("unknown"),
//! };
//! let service = ServiceBuilder::new()
//!     .layer(GrpcMetricsLayer::new(classify, Metrics))
//!     .service(service_fn(|_: Request<_>| async {
//!         Ok::<_, Infallible>(Response::new(Full::new(bytes::Bytes::from_static(b"paid"))))
//!     }));
//!
//! let response = service.oneshot(Request::get("/shop.Till/Pay").body(())?).await?;
//! assert_eq!(IN_FLIGHT.load(Ordering::Relaxed), 1);
//! response.collect().await?;
//! assert_eq!(IN_FLIGHT.load(Ordering::Relaxed), 0);
//! assert_eq!(EMITTED.load(Ordering::Relaxed), 4);
//! # Ok(())
//! # }
//! ```

mod body;
mod future;
mod layer;
mod recorder;
mod service;

#[cfg(test)]
mod tests;

pub use body::{Consumed, Emitted, Handled, MeteredRequestBody, MeteredResponseBody};
pub use future::GrpcMetricsFuture;
pub use layer::GrpcMetricsLayer;
pub use recorder::{Classify, Recorder, Series};
pub use service::GrpcMetrics;
