//! The XMTP backend: publish, read and stream envelopes over gRPC and gRPC-Web, on PostgreSQL.
//!
//! ARCHITECTURE.md explains the floors of this house and which of its modules may use which.

pub mod api;
pub mod auth;
pub mod chains;
pub mod clock;
pub mod config;
pub mod db;
pub mod descriptors;
pub mod identity;
pub mod metrics;
pub mod outbound;
pub mod port;
pub mod publish;
pub mod query;
pub mod rpc;
pub mod run;
pub mod server;
pub mod streams;
pub mod telemetry;
