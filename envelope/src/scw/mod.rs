//! Smart-contract wallets: how one is named, and how its verdict is asked for.
//!
//! This crate never talks to a chain. It says what to ask one and what the result means ([`Call`]);
//! whoever uses it supplies a [`Verify`]; on the server that is
//! a cached JSON-RPC client, in a client it may be the backend itself (ARC-011, ARC-091).

mod account;
mod program;
mod verifier;
mod wrapper;

pub use account::{AccountId, AccountIdError, Address};
pub use program::Call;
pub use verifier::{Verdict, VerdictFuture, VerifierError, Verify};
