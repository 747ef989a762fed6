//! Cross-origin requests: answers preflights, and lets browsers read every other response.
//!
//! A browser asks with a *preflight* before it sends a gRPC-Web call: `OPTIONS` with an `origin` and
//! an `access-control-request-method` header. This layer answers those three-part requests itself,
//! with 200, no body, the requested method and headers mirrored, and no `access-control-max-age`.
//! Everything else is an ordinary request: it is passed on, and its response, a refusal included,
//! gets `access-control-allow-origin: *` and the list of exposed headers. Without that list a
//! browser hides `grpc-status` from the client.
//!
//! Any origin is allowed because nothing here is ambient: credentials travel in `authorization`,
//! which a page must hold to send, and the credentials mode of the browser is never enabled.
//!
//! # Why not the CORS layer of tower-http
//!
//! That one takes every `OPTIONS` request for a preflight, so a plain `OPTIONS` would pass unmetered
//! and unauthenticated, and it needs an inner body with an empty value. The three rules that are
//! left once those are guarded against are shorter than the guard.
//!
//! It must stand outermost, never answer anything but a true preflight, and never look at a
//! credential (ARC-002, ARC-095, ARC-099).
//!
//! # Example
//!
//! ```
//! use std::convert::Infallible;
//!
//! use http::{HeaderName, Method, Request, Response};
//! use http_body_util::Empty;
//! use layers::preflight::PreflightLayer;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service = ServiceBuilder::new()
//!     .layer(PreflightLayer::exposing(&[HeaderName::from_static("grpc-status")]))
//!     .service(service_fn(|_: Request<()>| async {
//!         Ok::<_, Infallible>(Response::new(Empty::<bytes::Bytes>::new()))
//!     }));
//!
//! let preflight = Request::builder()
//!     .method(Method::OPTIONS)
//!     .header("origin", "https://app.example")
//!     .header("access-control-request-method", "POST")
//!     .header("access-control-request-headers", "authorization,traceparent")
//!     .body(())?;
//! let answer = service.clone().oneshot(preflight).await?;
//! assert_eq!(answer.headers()["access-control-allow-methods"], "POST");
//! assert_eq!(answer.headers()["access-control-allow-headers"], "authorization,traceparent");
//!
//! let answer = service.oneshot(Request::new(())).await?;
//! assert_eq!(answer.headers()["access-control-allow-origin"], "*");
//! assert_eq!(answer.headers()["access-control-expose-headers"], "grpc-status");
//! # Ok(())
//! # }
//! ```

mod answer;
mod future;
mod layer;
mod service;

#[cfg(test)]
mod tests;

pub use future::PreflightFuture;
pub use layer::PreflightLayer;
pub use service::Preflight;

/// The body of every response: the inner one, or none for a preflight.
pub type PreflightBody<B> = crate::body::OrEmpty<B>;
