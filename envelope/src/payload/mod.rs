//! What the backend learns from a payload by parsing it: topic, flag, canonical bytes and hash.
//!
//! Parsing is pure: no clock, no history, no I/O. One file per kind of payload. Group messages,
//! welcomes and commit-log entries are done after it; key packages and identity updates also have
//! checks that the caller runs later, because a duplicate of a stored envelope skips them.
//! No check is made here beyond those a client of the protocol relies on (ARC-010, ARC-013, ARC-092).

pub mod commit_log;
pub mod decoder;
pub mod group_message;
pub mod identity_update;
pub mod key_package;
mod parsed;
mod tls;
pub mod welcome;

pub use key_package::{KeyPackageFacts, UncheckedKeyPackage};
pub use parsed::{Limits, Parsed, Unchecked, parse};
