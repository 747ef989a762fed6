//! Small Tower layers for gRPC servers, each with one concern.

pub mod body;
pub mod code;
pub mod completion;
pub mod count_bytes;
pub mod grpc_metrics;
pub mod grpc_status;
pub mod preflight;
pub mod record;
pub mod request_id;
pub mod scope;
pub mod trace_context;

#[cfg(test)]
mod scripted;
