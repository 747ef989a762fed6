//! Identity updates: conversion, signature text, signatures, the association state they fold into,
//! and what a new one changes (XIP-46).
//!
//! A new update is judged against all updates stored before it for its inbox, which the caller
//! supplies; nothing here reads storage or a clock, and only smart-contract wallets are asked by
//! I/O, through [`crate::scw::Verify`] (ARC-011, ARC-091, ARC-093). The steps are types, so that the
//! expensive ones can run where the caller wants them:
//!
//! 1. [`verify_locally`]: decode, convert, verify every signature that needs no chain. CPU only.
//! 2. [`LocallyVerified::verify_contracts`]: ask smart-contract wallets. Async, no CPU to speak of.
//! 3. [`Verified::apply`]: fold the history, apply the new update. Linear, and cheap.
//!
//! The first and the third can be given up half-way ([`verify_locally_while`],
//! [`Verified::apply_while`]).
//!
//! The rules are those that existing clients replay. An update that they would refuse makes its
//! inbox unreadable for ever, so nothing may be wider here (ARC-013, ARC-092).
//!
//! ```
//! use bytes::Bytes;
//! use envelope::Error;
//! use envelope::identity::{Admission, verify_locally};
//! use envelope::scw::Verify;
//! use envelope::wire::xmtp::identity::associations::IdentityUpdate;
//!
//! async fn judge(
//!     history: Vec<Bytes>,
//!     update: IdentityUpdate,
//!     chains: &dyn Verify,
//! ) -> Result<Admission, Error> {
//!     let local = verify_locally(history, update, 256)?;
//!     local.verify_contracts(chains).await?.apply()
//! }
//! ```

mod convert;
mod history;
mod ident;
mod projection;
mod rules;
mod signature;
mod state;
mod text;

pub use history::{
    Admission, LocallyVerified, Verified, replay, verify_locally, verify_locally_while,
};
pub use ident::{Identifier, IdentifierKind, MemberIdentifier, inbox_id, normalize};
pub use projection::{ProjectedIdentifier, ProjectionChanges};
pub use signature::INSTALLATION_SIGNATURE_CONTEXT;
pub use state::{AssociationState, Member};
pub use text::signed_text;
