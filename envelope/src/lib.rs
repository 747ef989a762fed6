//! What the backend and its clients must agree on: payload parsing, topics, the canonical encoding
//! and its hash, and validation.
//!
//! This crate has no runtime, no database and no server types, and it builds for
//! `wasm32-unknown-unknown` (ARC-010, ARC-011). Time and identity history are arguments.

pub mod canonical;
pub mod error;
pub mod ethereum;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod identity;
pub mod payload;
pub mod scw;
pub mod topic;
pub mod wire;

pub use canonical::MessageHash;
pub use error::{Error, Reason};
pub use payload::{Limits, Parsed, Unchecked, parse};
pub use topic::{Topic, TopicError, TopicKind};
