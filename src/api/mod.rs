//! The public API: one file per RPC service.
//!
//! Only this room turns messages into records and back (`wire`), and only here do errors become
//! statuses (`status`). It holds no rule of its own: those belong to `publish`, `query` and
//! `identity`.

mod codec;
mod configuration;
pub mod health;
mod identity;
mod publish;
mod query;
mod services;
mod status;
mod subscription;
mod wire;

pub use configuration::{ConfigurationApi, TooLarge};
pub use services::{Parts, Services};

/// The service traits, generated from `proto/`.
#[expect(
    unreachable_pub,
    unused_qualifications,
    clippy::allow_attributes,
    clippy::too_many_lines,
    reason = "generated from the schema files, which carry the documentation"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/services.rs"));
}
