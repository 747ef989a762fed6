//! Integration tests: real PostgreSQL, a real port, real HTTP (ARC-110).
//!
//! One binary, one module per behaviour. `cargo xtask test` provides the database.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so may its helpers"
)]

mod given;
mod invariants;
mod lifetime;
mod locks;
mod order;
mod plans;
mod pools;
mod process;
mod publish;
mod races;
mod schema;
mod stack;
mod startup;
mod storage;
mod two_servers;
