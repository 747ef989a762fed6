//! Whole histories of writers, boundary runs, standbys and readers, against a model of the
//! database (ARC-112).
//!
//! Every check here comes in two halves: the crate must pass it, and a table of wrong builds
//! ([`builds`]) must fail it. The model never sees the crate's own types for its decisions, so that
//! an error in one cannot hide an error in the other.

#![expect(
    clippy::unwrap_used,
    reason = "a panic in a test is a failed test, with a line number"
)]

mod auditor;
mod builds;
mod database;
mod dice;
mod exhaustive;
mod random;
mod scripted;
mod standby;
mod story;
mod tail;
