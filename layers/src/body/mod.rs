//! Transparent wrappers around a body: bytes counted, the ending told once, or no body at all.
//!
//! Every wrapper forwards frames, end-of-stream and size hint of what it wraps, so a transport
//! cannot tell it is there: no frame is buffered, copied or boxed, and `content-length` is never
//! believed (ARC-095).
//!
//! - [`CountBody`] adds the length of each data frame to a [`Meter`].
//! - [`EndBody`] tells an [`OnEnd`] hook, once, how the body ended; [`EndGuard`] is the part of it
//!   that a future can carry before there is a body.
//! - [`OrEmpty`] is the body of a layer that may answer by itself.
//!
//! # Example
//!
//! ```
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use std::sync::{Arc, Mutex};
//!
//! use http::HeaderMap;
//! use http_body_util::{BodyExt, Full};
//! use layers::body::{CountBody, EndBody, Ending, Meter, OnEnd};
//!
//! struct Bytes(Arc<AtomicU64>);
//! impl Meter for Bytes {
//!     fn add(&self, bytes: u64) {
//!         self.0.fetch_add(bytes, Ordering::Relaxed);
//!     }
//! }
//!
//! struct Told(Arc<Mutex<Vec<Ending>>>);
//! impl OnEnd for Told {
//!     fn on_end(self, ending: Ending, _trailers: Option<&HeaderMap>) {
//!         self.0.lock().unwrap().push(ending);
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let (seen, told) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
//! let body = Full::new(bytes::Bytes::from_static(b"hello"));
//! let body = EndBody::new(CountBody::new(body, Bytes(seen.clone())), Told(told.clone()));
//!
//! body.collect().await.unwrap();
//! assert_eq!(seen.load(Ordering::Relaxed), 5);
//! assert_eq!(*told.lock().unwrap(), [Ending::Complete]);
//! # }
//! ```

mod count;
mod empty;
mod end;

#[cfg(test)]
mod tests;

pub use count::{CountBody, Meter};
pub use empty::OrEmpty;
pub use end::{EndBody, EndGuard, Ending, OnEnd};
