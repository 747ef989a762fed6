//! Smart-contract wallets: how one is named, and how its verdict is asked for.
//!
//! This crate never talks to a chain. Whoever uses it supplies a [`Verify`]; on the server that is
//! a cached JSON-RPC client, in a client it may be the backend itself (ARC-011, ARC-091).

mod account;
mod verifier;

pub use account::{AccountId, AccountIdError, Address};
pub use verifier::{Verdict, VerdictFuture, VerifierError, Verify};
