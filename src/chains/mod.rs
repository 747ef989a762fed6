//! Contract wallets, asked through the JSON-RPC nodes of their chains (ARC-011, ARC-091, SEC-042).
//!
//! A chain is named by its CAIP-2 id and asked only if the configuration has a node for it; nobody
//! else can name a node. Every question is one simulated call at a numbered block, so that its answer
//! can be remembered. A node's failure is never a verdict: it leaves the question open.
//!
//! This room has no database, never retries (its caller's caller does), and never lets the address of
//! a node, or anything that a node says in words, into an error or a log line (ARC-101).

mod cache;
mod error;
mod node;
mod rpc;
mod verifier;

#[cfg(test)]
mod tests;

pub use error::UnusableNode;
pub use verifier::{Chains, Parts};
