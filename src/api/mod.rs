//! The public API: one file per RPC service.
//!
//! Only this room turns messages into records and back ([`wire`]), and only here do errors become
//! statuses ([`status`]). It holds no rule of its own: those belong to `publish` and `query`.

pub mod health;
pub mod wire;

/// The service traits and routes, generated from `proto/`.
#[expect(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    clippy::allow_attributes,
    reason = "generated from the schema files, which carry the documentation"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/services.rs"));
}
