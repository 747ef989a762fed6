//! Admits requests by path, or refuses them in their own protocol.
//!
//! Every request is either *public*, because its raw path starts with one of the prefixes the server
//! names, or is judged by the server's [`Verify`]. Method, content type, HTTP version and body play
//! no part, and the body is not polled before the verdict. An accepted principal goes into the
//! request extensions; a refusal becomes a [`Refusal`](crate::refusal::Refusal) answer, and its
//! status is noted in the [`Record`](crate::record::Record).
//!
//! The raw path is the path of the request target, byte for byte: not decoded, not folded, not
//! normalized. The router behind must match on the same string, so that what was judged public is
//! not routed elsewhere. A public request's headers are never read.
//!
//! This layer must stand outside a gRPC-Web translation, which has answers of its own to requests it
//! does not like. It must never know what a credential is (ARC-002).
//!
//! # Example
//!
//! ```
//! use std::convert::Infallible;
//! use std::future::{Ready, ready};
//!
//! use http::{Request, Response};
//! use http_body_util::Empty;
//! use layers::admission::{AdmissionLayer, Attempt};
//! use layers::code::Code;
//! use layers::refusal::Refusal;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! #[derive(Clone)]
//! struct Guest;
//!
//! fn verify(attempt: Attempt<'_>) -> Ready<Result<Guest, Refusal>> {
//!     ready(match attempt.headers.get("authorization") {
//!         Some(value) if value == "Bearer swordfish" => Ok(Guest),
//!         _ => Err(Refusal::new(Code::Unauthenticated, "who are you")),
//!     })
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service = ServiceBuilder::new()
//!     .layer(AdmissionLayer::new(Some(verify), &["/shop.Door/"]))
//!     .service(service_fn(|request: Request<()>| async move {
//!         let mut response = Response::new(Empty::<bytes::Bytes>::new());
//!         if request.extensions().get::<Guest>().is_some() {
//!             response.headers_mut().insert("x-guest", "yes".parse().expect("valid"));
//!         }
//!         Ok::<_, Infallible>(response)
//!     }));
//!
//! let refused = service.clone().oneshot(Request::get("/shop.Till/Pay").body(())?).await?;
//! assert_eq!(refused.headers()["grpc-status"], "16");
//!
//! let request = Request::get("/shop.Till/Pay").header("authorization", "Bearer swordfish");
//! let admitted = service.clone().oneshot(request.body(())?).await?;
//! assert_eq!(admitted.headers()["x-guest"], "yes");
//!
//! let public = service.oneshot(Request::get("/shop.Door/Knock").body(())?).await?;
//! assert!(public.headers().is_empty());
//! # Ok(())
//! # }
//! ```

mod future;
mod layer;
mod service;
mod verify;

#[cfg(test)]
mod tests;

pub use future::AdmissionFuture;
pub use layer::AdmissionLayer;
pub use service::Admission;
pub use verify::{Attempt, Verify};

/// The body of every response: the inner one, or none for a refusal.
pub type AdmissionBody<B> = crate::body::OrEmpty<B>;
