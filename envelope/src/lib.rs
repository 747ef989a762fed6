//! What the backend and its clients must agree on: payload parsing, topics, the canonical encoding
//! and its hash, and validation.
//!
//! This crate has no runtime, no database and no server types, and it builds for
//! `wasm32-unknown-unknown` (ARC-010, ARC-011). Time and identity history are arguments.

pub mod wire;
