//! Notes the gRPC status of every response where headers and trailers are still real.
//!
//! Outside a gRPC-Web translation the trailers of a response have become bytes of its body, so this
//! layer stands inside it. It reads `grpc-status` from the response headers, when the answer is
//! trailers-only, or from the trailers when they pass, and writes it into the
//! [`Record`](crate::record::Record) the outer layers read. It must never change a response, and
//! writes nothing for a body that ends or is dropped without a status: what that means is for the
//! outer layers to say (ARC-098, ARC-099).
//!
//! # Example
//!
//! ```
//! use std::convert::Infallible;
//!
//! use http::{Request, Response};
//! use http_body_util::Empty;
//! use layers::code::Code;
//! use layers::grpc_status::GrpcStatusLayer;
//! use layers::record::Record;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service = ServiceBuilder::new().layer(GrpcStatusLayer).service(service_fn(
//!     |_: Request<()>| async {
//!         let mut response = Response::new(Empty::<bytes::Bytes>::new());
//!         response.headers_mut().insert("grpc-status", Code::NotFound.header_value());
//!         Ok::<_, Infallible>(response)
//!     },
//! ));
//!
//! let mut request = Request::new(());
//! let record = Record::of(request.extensions_mut());
//! service.oneshot(request).await?;
//! assert_eq!(record.status(), Some(Code::NotFound));
//! # Ok(())
//! # }
//! ```

mod body;
mod future;
mod layer;
mod service;

#[cfg(test)]
mod tests;

pub use body::{Capture, GrpcStatusBody};
pub use future::GrpcStatusFuture;
pub use layer::GrpcStatusLayer;
pub use service::GrpcStatus;
