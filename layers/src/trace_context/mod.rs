//! Reads the W3C trace context of a request into a typed extension.
//!
//! A valid `traceparent` becomes a [`TraceContext`] in the request extensions; with it comes the
//! `tracestate`, when that one is valid too. An invalid `traceparent` leaves nothing behind, as if
//! it had not been sent, and a `tracestate` alone is ignored. Nothing is answered to either: a wrong
//! correlation header is no reason to refuse a call.
//!
//! What is done with the context is the server's choice; [`scope`](crate::scope) is where it can
//! open a span under it. This layer must never log a header, and knows no tracing library (ARC-099).
//!
//! # Example
//!
//! ```
//! use std::convert::Infallible;
//!
//! use http::{Request, Response};
//! use layers::trace_context::{TraceContext, TraceContextLayer};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service = ServiceBuilder::new().layer(TraceContextLayer).service(service_fn(
//!     |request: Request<()>| async move {
//!         let context = request.extensions().get::<TraceContext>();
//!         let trace_id = context.map(|context| context.trace_id().to_string());
//!         Ok::<_, Infallible>(Response::new(trace_id))
//!     },
//! ));
//!
//! let request = Request::builder()
//!     .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
//!     .body(())?;
//! let trace_id = service.oneshot(request).await?.into_body();
//! assert_eq!(trace_id.as_deref(), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
//! # Ok(())
//! # }
//! ```

mod context;
mod layer;
mod service;
mod state;

#[cfg(test)]
mod tests;

pub use context::{ParentId, TRACEPARENT, TraceContext, TraceId};
pub use layer::TraceContextLayer;
pub use service::ReadTraceContext;
pub use state::TRACESTATE;
