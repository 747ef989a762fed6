//! Integration tests: real PostgreSQL, a real port, real HTTP (ARC-110).
//!
//! One binary, one module per behaviour. `cargo xtask test` provides the database.

mod publish;
