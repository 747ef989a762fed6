//! Gives every request an id made here, in its extensions and in the response header
//! `x-request-id`.
//!
//! The id is a random UUID (version 4), in lower case with hyphens. An `x-request-id` that a caller
//! sends is removed before anything inside can see it: a correlation id that callers choose could
//! collide with others, or carry data into logs. It must never derive an id from a request (ARC-095,
//! ARC-099).
//!
//! # Example
//!
//! ```
//! use std::convert::Infallible;
//!
//! use http::{Request, Response};
//! use layers::request_id::{RequestId, RequestIdLayer};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let service = ServiceBuilder::new().layer(RequestIdLayer).service(service_fn(
//!     |request: Request<()>| async move {
//!         let id = request.extensions().get::<RequestId>().copied();
//!         Ok::<_, Infallible>(Response::new(id.expect("the layer is in the stack")))
//!     },
//! ));
//!
//! let request = Request::builder().header("x-request-id", "mine").body(())?;
//! let response = service.oneshot(request).await?;
//! assert_eq!(response.headers()["x-request-id"], response.body().to_string());
//! # Ok(())
//! # }
//! ```

mod future;
mod id;
mod layer;
mod service;

#[cfg(test)]
mod tests;

pub use future::RequestIdFuture;
pub use id::{RequestId, X_REQUEST_ID};
pub use layer::RequestIdLayer;
pub use service::SetRequestId;
