//! Small Tower layers for gRPC servers, each with one concern.
//!
//! A server that speaks native gRPC, gRPC-Web and plain HTTP on one port needs the same handful of
//! things around its router: browsers must be let in, a request must be known by an id, bytes and
//! endings must be counted exactly once, callers must be admitted, and a shutdown must be waited
//! for. Each of these is a layer of its own here, with a page of documentation and an example, and
//! each works without the others.
//!
//! | layer | asks or tells | knows gRPC |
//! | --- | --- | --- |
//! | [`preflight`] | answers a true CORS preflight, adds CORS headers to every other response | no |
//! | [`trace_context`] | reads `traceparent` and `tracestate` into a typed extension | no |
//! | [`request_id`] | gives every request an id made here | no |
//! | [`scope`] | opens a scope, such as a span, and enters it for every poll | no |
//! | [`completion`] | tells a hook once how the request ended | yes |
//! | [`grpc_metrics`] | started, in flight, handled, duration and bytes, by label | yes |
//! | [`count_bytes`] | counts body bytes as they are consumed and emitted | no |
//! | [`admission`] | asks a verifier by raw path, or refuses in the caller's protocol | yes |
//! | [`drain`] | refuses once closed, and lets a shutdown wait for the rest | yes |
//! | [`grpc_status`] | notes the status where headers and trailers are still real | yes |
//!
//! The order in the table is the order they are meant to stand in, outermost first, with a gRPC-Web
//! translation between [`drain`] and [`grpc_status`]; the README of the crate says why. What the
//! layers know of one request meets in its [`record`]; answers they make themselves come from
//! [`refusal`]; the bodies they wrap are in [`body`].
//!
//! This crate must never know a service, a metric's name, a log or a credential: those are handed
//! in by the server through traits. It must never buffer a body and never box one. ARC-002, ARC-003,
//! ARC-094, ARC-095, ARC-098, ARC-099.

pub mod admission;
pub mod body;
pub mod code;
pub mod completion;
pub mod count_bytes;
pub mod drain;
pub mod grpc_metrics;
pub mod grpc_status;
pub mod preflight;
pub mod record;
pub mod refusal;
pub mod request_id;
pub mod scope;
pub mod trace_context;

#[cfg(test)]
mod auto_traits;
#[cfg(test)]
mod scripted;
