//! Opens a scope for every request and enters it whenever the request makes progress.
//!
//! A scope is anything that has to be current while code of a request runs: a tracing span is the
//! one that matters. The server says how to open one from the head of the request, where the layers
//! outside left what they know ([`TraceContext`](crate::trace_context::TraceContext),
//! [`RequestId`](crate::request_id::RequestId)). This layer
//!
//! - leaves a clone of the scope in the request extensions, for whoever has to add to it,
//! - enters it for every call and poll of the inner service and of the response body, and for their
//!   drop, so that what a cancelled handler says is said inside its request,
//! - holds it until the response body is dropped, so that its lifetime is that of the response.
//!
//! It must never hold a scope entered across a poll (ARC-094, ARC-099).
//!
//! # Example
//!
//! With a tracing library, `Scope` is two lines: `enter` returns the guard of the span.
//!
//! ```
//! use std::cell::Cell;
//! use std::convert::Infallible;
//!
//! use http::request::Parts;
//! use http::{Request, Response};
//! use layers::scope::{Scope, ScopeLayer};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! thread_local!(static DEPTH: Cell<u32> = const { Cell::new(0) });
//!
//! #[derive(Clone)]
//! struct Span;
//! struct Entered;
//! impl Scope for Span {
//!     type Entered<'a> = Entered;
//!     fn enter(&self) -> Entered {
//!         DEPTH.set(DEPTH.get() + 1);
//!         Entered
//!     }
//! }
//! impl Drop for Entered {
//!     fn drop(&mut self) {
//!         DEPTH.set(DEPTH.get() - 1);
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service = ServiceBuilder::new()
//!     .layer(ScopeLayer::new(|_head: &Parts| Span))
//!     .service(service_fn(|_: Request<()>| async {
//!         Ok::<_, Infallible>(Response::new(DEPTH.get().to_string()))
//!     }));
//! let response = service.oneshot(Request::new(())).await?;
//! assert_eq!(http_body_util::BodyExt::collect(response).await?.to_bytes(), "1");
//! assert_eq!(DEPTH.get(), 0);
//! # Ok(())
//! # }
//! ```

mod body;
mod future;
mod layer;
mod open;
mod service;

#[cfg(test)]
mod tests;

pub use body::ScopeBody;
pub use future::ScopeFuture;
pub use layer::ScopeLayer;
pub use open::{Open, Scope};
pub use service::Scoped;
