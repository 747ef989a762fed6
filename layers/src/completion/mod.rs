//! Tells a hook once how every request ended.
//!
//! A request is complete when its response body ended, failed or was dropped, when its future was
//! dropped before there was a response, or when a panic unwound through it; sending response headers
//! completes nothing. The hook is asked first, with the head of the request, and then told the
//! ending, the code, the time since arrival and the bytes of both bodies.
//!
//! The code is the one noted in the [`Record`](crate::record::Record) by an inner
//! [`grpc_status`](crate::grpc_status) or by a layer that refused, or the one this layer sees itself
//! in response headers or trailers; without any, the ending decides
//! ([`Record::resolve`](crate::record::Record::resolve)). The bytes are those of a
//! [`count_bytes`](crate::count_bytes) layer, which must stand *inside* this one: it has to see the
//! last frame first.
//!
//! A hook runs wherever the ending happens, in a drop or an unwinding panic too, so it must not
//! panic or block. This layer must never tell a hook twice or not at all (ARC-095, ARC-098).
//!
//! # Example
//!
//! ```
//! use std::convert::Infallible;
//! use std::sync::mpsc;
//!
//! use http::request::Parts;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Empty};
//! use layers::body::Ending;
//! use layers::code::Code;
//! use layers::completion::{Completed, CompletionLayer};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (events, told) = mpsc::channel();
//! let observe = move |head: &Parts| {
//!     let (path, events) = (head.uri.path().to_owned(), events.clone());
//!     move |completed: Completed| {
//!         let _ = events.send((path, completed.ending, completed.code));
//!     }
//! };
//! let service = ServiceBuilder::new().layer(CompletionLayer::new(observe)).service(service_fn(
//!     |_: Request<()>| async {
//!         let mut response = Response::new(Empty::<bytes::Bytes>::new());
//!         response.headers_mut().insert("grpc-status", Code::Ok.header_value());
//!         Ok::<_, Infallible>(response)
//!     },
//! ));
//!
//! service.oneshot(Request::get("/shop.Till/Pay").body(())?).await?.collect().await?;
//! assert_eq!(told.recv()?, ("/shop.Till/Pay".to_owned(), Ending::Complete, Code::Ok));
//! # Ok(())
//! # }
//! ```

mod body;
mod future;
mod layer;
mod observe;
mod service;

#[cfg(test)]
mod tests;

pub use body::{CompletionBody, Finish};
pub use future::CompletionFuture;
pub use layer::CompletionLayer;
pub use observe::{Completed, Observe, OnComplete};
pub use service::Completion;
