//! Small Tower layers for gRPC servers, each with one concern.

pub mod body;
pub mod code;
pub mod preflight;
pub mod record;

#[cfg(test)]
mod scripted;
