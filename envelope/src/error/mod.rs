//! Why an envelope is refused: one public error, typed all the way down.
//!
//! Each failure has a variant, each variant one [`Reason`] or none, and a short fixed
//! [`name`](Error::name) that is fit for a metric label. Nothing is classified by its text, and no
//! text holds a payload, a key or an identifier (ARC-090, ARC-091, ARC-101).

mod identity;
mod key_package;
mod malformed;
mod reason;
mod signature;

pub use identity::IdentityError;
pub use key_package::KeyPackageError;
pub use malformed::{Malformed, TooLarge};
pub use reason::{Error, Reason};
pub use signature::SignatureError;
