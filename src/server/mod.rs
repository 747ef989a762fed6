//! The gRPC port: one listener for HTTP/1.1 and HTTP/2, and the stack of layers in front of the
//! services.
//!
//! This room knows transport and nothing of envelopes: what is served is handed to it.

mod accounting;
mod admission;
mod listener;
mod patient;
mod serve;
mod stack;

pub use listener::{Connections, serve};
pub use serve::Serve;
pub use stack::stack;
