//! The public error and its mapping to the reason codes of the wire (ARC-090, ARC-091).

use thiserror::Error;

use super::{IdentityError, KeyPackageError, Malformed, SignatureError, TooLarge};
use crate::scw::VerifierError;
use crate::wire::xmtp::backend::v1::publish_error;

/// Why an envelope is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The payload does not parse.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// A bound on one envelope is exceeded.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The key package is not valid now.
    #[error(transparent)]
    KeyPackage(#[from] KeyPackageError),
    /// The identity update may not follow the history of its inbox.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A signature of the identity update does not verify.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// No verdict on a smart-contract-wallet signature could be had.
    #[error("smart-contract-wallet verifier failed")]
    Verifier(#[from] VerifierError),
    /// Nobody waited for the answer any more. The envelope was not judged.
    #[error("the check was given up")]
    Interrupted,
    /// Stored history fails its own checks. Whoever published now is not at fault.
    #[error("stored identity update {index} fails")]
    StoredHistory {
        /// Place of the update in the history, from 0.
        index: usize,
        /// What fails in it.
        source: Box<Error>,
    },
}

impl Error {
    /// The reason code of the refusal. `None` when the envelope is not at fault: try again when
    /// [`is_retryable`](Self::is_retryable) says so, otherwise what is stored is broken.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Malformed(_) => Some(Reason::MalformedPayload),
            Self::TooLarge(_) => Some(Reason::TooLarge),
            Self::KeyPackage(_) => Some(Reason::InvalidKeyPackage),
            Self::Identity(_) => Some(Reason::InvalidIdentityUpdate),
            Self::Signature(_) => Some(Reason::InvalidSignature),
            Self::Verifier(error) => (!error.is_retryable()).then_some(Reason::InvalidSignature),
            Self::Interrupted | Self::StoredHistory { .. } => None,
        }
    }

    /// Whether the same envelope may be accepted later: a chain could not be asked, or the check was
    /// given up.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Verifier(error) => error.is_retryable(),
            Self::Interrupted => true,
            Self::Malformed(_)
            | Self::TooLarge(_)
            | Self::KeyPackage(_)
            | Self::Identity(_)
            | Self::Signature(_)
            | Self::StoredHistory { .. } => false,
        }
    }

    /// A fixed name of the failure, fit for a metric label.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Malformed(error) => error.name(),
            Self::TooLarge(error) => error.name(),
            Self::KeyPackage(error) => error.name(),
            Self::Identity(error) => error.name(),
            Self::Signature(error) => error.name(),
            Self::Verifier(error) => error.name(),
            Self::Interrupted => "interrupted",
            Self::StoredHistory { .. } => "stored_history",
        }
    }
}

/// The reason codes that a publisher can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// The payload does not parse.
    MalformedPayload,
    /// The key package fails a check.
    InvalidKeyPackage,
    /// The identity update may not follow the history of its inbox.
    InvalidIdentityUpdate,
    /// A signature does not verify.
    InvalidSignature,
    /// A size or count is over its bound.
    TooLarge,
}

impl From<Reason> for publish_error::Reason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::MalformedPayload => Self::MalformedPayload,
            Reason::InvalidKeyPackage => Self::InvalidKeyPackage,
            Reason::InvalidIdentityUpdate => Self::InvalidIdentityUpdate,
            Reason::InvalidSignature => Self::InvalidSignature,
            Reason::TooLarge => Self::TooLarge,
        }
    }
}
