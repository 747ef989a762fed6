//! Counts the bytes of both bodies of a request into its [`Record`](crate::record::Record).
//!
//! Request bytes count when the inner service takes a frame, response bytes when the transport
//! takes one. What is queued, unread or never polled does not count; headers and trailers do not
//! either, except gRPC-Web trailers, which are body. Nothing is buffered, nothing is allocated per
//! frame, and `content-length` is not consulted. A response byte that was counted was handed to the
//! transport, which is no proof that the caller got it (ARC-095).
//!
//! # Example
//!
//! ```
//! use std::convert::Infallible;
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use layers::count_bytes::CountBytesLayer;
//! use layers::record::Record;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service = ServiceBuilder::new().layer(CountBytesLayer).service(service_fn(
//!     |request: Request<_>| async move {
//!         let question = BodyExt::collect(request.into_body()).await?;
//!         assert_eq!(question.to_bytes(), "ping");
//!         Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"ping pong"))))
//!     },
//! ));
//!
//! let mut request = Request::new(Full::new(Bytes::from_static(b"ping")));
//! let record = Record::of(request.extensions_mut());
//! service.oneshot(request).await?.collect().await?;
//! assert_eq!((record.request_bytes(), record.response_bytes()), (4, 9));
//! # Ok(())
//! # }
//! ```

mod body;
mod future;
mod layer;
mod service;

#[cfg(test)]
mod tests;

pub use body::{Consumed, CountedRequestBody, CountedResponseBody, Emitted};
pub use future::CountBytesFuture;
pub use layer::CountBytesLayer;
pub use service::CountBytes;
