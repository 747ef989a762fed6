//! Configuration: one TOML document, checked whole before anything is opened or bound.
//!
//! A [`Config`] that exists is legal: every key is known, typed and in range, every `env:NAME`
//! string is replaced, and the relations between keys hold. [`load`] is a function of arguments,
//! environment and file text; it needs no network and no database, and a change needs a restart.
//!
//! Each key is defined once, in the file of its table: field, rule, default and description. The
//! loader, the published JSON Schema ([`schema()`]) and `Debug` all come from that definition.
//!
//! This room must never put a configured value into an error, and never into `Debug` output when
//! the value is written as a string: any string may have come from a variable (ARC-101).
//!
//! Answers ARC-097 (endpoint), ARC-100, ARC-101, ARC-102 and the size relations of ARC-079.

mod auth;
mod chains;
mod database;
pub mod delivery;
mod document;
mod error;
mod features;
mod form;
mod key;
mod limits;
mod mls;
mod publishing;
mod push;
mod relations;
mod retention;
mod schema;
mod secret;
mod server;
mod source;
mod streams;
mod telemetry;
mod validation;

#[cfg(test)]
mod tests;

pub use auth::{Algorithm, Auth, InlineKey};
pub use chains::ChainId;
pub use database::Database;
pub use document::{Config, load};
pub use error::{Error, Requirement, VariableProblem};
pub use limits::Limits;
pub use mls::Mls;
pub use publishing::Publishing;
pub use push::{Apns, ApnsEnvironment, Fcm, Push, Webhooks};
pub use retention::Retention;
pub use schema::schema;
pub use secret::{Environment, Secret};
pub use server::{LogFormat, LogLevel, Server};
pub use source::{Args, DOCUMENT_BYTES_MAX, read_file};
pub use streams::Streams;
pub use telemetry::Telemetry;
pub use validation::Validation;
