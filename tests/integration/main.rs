//! Integration tests: real PostgreSQL, a real port, real HTTP (ARC-110).
//!
//! One binary, one module per behaviour. `cargo xtask test` provides the database.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, and so may its helpers"
)]

mod auth;
mod auth_keys;
mod auth_paths;
mod auth_secrets;
mod boundary;
mod captures;
mod chains;
mod configuration;
mod connections;
mod costs;
mod floods;
mod following;
mod given;
mod grpc_web;
mod health;
mod histories;
mod inbox_ids;
mod interleavings;
mod interleavings_standby;
mod invariants;
mod lifetime;
mod locks;
mod order;
mod paging;
mod plans;
mod pools;
mod process;
mod properties;
mod publish;
mod publish_duplicates;
mod publish_encodings;
mod publish_errors;
mod publish_limits;
mod python;
mod query;
mod query_newest;
mod races;
mod random;
mod raw_reading;
mod reading;
mod real_admission;
mod real_payloads;
mod recovery;
mod refusal;
mod replica;
mod response_limits;
mod samples;
mod schema;
mod shutdown;
mod stack;
mod standby;
mod startup;
mod storage;
mod subscribe;
mod subscribe_alive;
mod subscribe_bytes;
mod subscribe_captures;
mod subscribe_ends;
mod subscribe_limits;
mod subscribe_random;
mod subscribe_refused;
mod subscribe_slow;
mod subscribe_told;
mod subscribe_turns;
mod subscribe_updates;
mod subscribers;
mod tailing;
mod transport;
mod two_servers;
mod verify;
