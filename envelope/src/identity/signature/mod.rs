//! Signatures of identity updates: each kind says who signed, and the bytes that may not be used
//! again.
//!
//! What a signer may do is decided elsewhere, by the association rules (ARC-013). Smart-contract
//! wallets are asked by the caller; their answers become verified signatures here (ARC-091).

mod contract;
mod delegated;
mod ecdsa;
mod installation;
mod passkey;
mod verified;

pub use installation::INSTALLATION_SIGNATURE_CONTEXT;

pub(super) use verified::{LocalUpdate, SignatureKind, VerifiedSignature, resolve, verify_update};
