//! The XMTP backend: publish, read and stream envelopes over gRPC and gRPC-Web, on PostgreSQL.

pub mod api;
pub mod clock;
pub mod config;
pub mod db;
pub mod metrics;
pub mod server;
pub mod telemetry;
