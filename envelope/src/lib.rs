//! What the backend and its clients must agree on: payload parsing, topics, the canonical encoding
//! and its hash, and validation.
//!
//! This crate has no runtime, no database and no server types, and it builds for
//! `wasm32-unknown-unknown` (ARC-010, ARC-011). Time and identity history are arguments.
//!
//! # Parsing
//!
//! [`parse`] takes a decoded envelope and says where it belongs, what bytes to store, how they hash,
//! and what is left to check.
//!
//! ```
//! use envelope::{Limits, TopicKind, Unchecked, canonical, parse};
//!
//! let limits = Limits {
//!     envelope_bytes_max: 1 << 20,
//!     contract_signatures_max: 100,
//! };
//! // A group message: an empty MLS commit for the group whose id is sixteen times 0a.
//! let wire = b"\x0a\x25\x0a\x21\0\x01\0\x02\x10\
//!     \x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\
//!     \0\0\0\0\0\0\0\x07\x03\0\0\0\x18\x01";
//! let parsed = parse(canonical::decode(wire[..].into())?, limits)?;
//! assert_eq!(parsed.topic.kind(), TopicKind::GroupMessage);
//! assert_eq!(parsed.topic.identifier(), [0x0a; 16]);
//! assert!(parsed.is_commit_or_proposal);
//! assert_eq!(parsed.canonical, wire[..]);
//! assert!(matches!(parsed.unchecked, Unchecked::Nothing));
//! # Ok::<(), envelope::Error>(())
//! ```
//!
//! # Validation
//!
//! Key packages are checked by [`payload::UncheckedKeyPackage::validate`] at a given time, identity
//! updates by [`identity`] against a given history. [`Error::reason`] is the one mapping from every
//! failure to the reason code that a publisher is told.

pub mod canonical;
pub mod error;
pub mod ethereum;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod identity;
pub mod payload;
pub mod scw;
pub mod topic;
pub mod weight;
pub mod wire;

pub use canonical::MessageHash;
pub use error::{Error, Reason};
pub use payload::{Limits, Parsed, Unchecked, parse};
pub use topic::{Topic, TopicError, TopicKind};
