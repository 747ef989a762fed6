//! Calls to other servers: bounded JSON exchanges over HTTPS.
//!
//! Every exchange has one deadline over name resolution, connection, TLS, headers and the whole
//! body, and its answer has a bound that is enforced as the bytes arrive. Redirects are not
//! followed, answers are not decompressed, no proxy is taken from the environment, and nothing is
//! sent that the caller did not say. TLS is rustls on ring.
//!
//! An address may hold a secret and an answer may hold anything, so neither appears in an error or
//! in `Debug` output, and this room logs neither (ARC-101). Whether plain `http` is permitted is
//! decided by whoever admits the address into the configuration.

mod client;
mod failure;
mod target;
mod trust;

#[cfg(test)]
mod tests;

pub use client::{Bounds, Outbound};
pub use failure::Failure;
pub use target::{Target, Unusable};
pub use trust::Trust;
