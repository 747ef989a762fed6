//! Why a publish stored nothing.

use envelope::Reason;

use crate::db;

/// A publish that stored nothing, or of which nobody knows (a failed commit). Nothing of the
/// request is quoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An envelope, or the request, fails admission.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// An inbox changed between the check of its update and the commit (ARC-111).
    #[error("the identity history changed while the update was checked")]
    HistoryMoved,
    /// The checks took longer than they may; nothing was stored (ARC-051).
    #[error("the checks of the request took too long")]
    CheckTimeout,
    /// A contract wallet could not be asked, so there is no verdict (ARC-091).
    #[error("a contract-wallet signature cannot be verified now")]
    VerifierUnavailable,
    /// What is stored of an inbox cannot be replayed.
    #[error("the stored identity history cannot be replayed")]
    StoredHistory,
    /// The database failed.
    #[error(transparent)]
    Database(#[from] db::Error),
}

/// A failed admission.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Rejection {
    /// Which input failed; absent when a bound on the whole request was exceeded.
    pub index: Option<u32>,
    /// The public reason.
    pub reason: Reason,
    /// Plain words, without any of the request's data.
    pub message: String,
}

impl Rejection {
    /// A bound on the whole request was exceeded.
    pub(super) fn request_too_large(message: impl Into<String>) -> Self {
        Self {
            index: None,
            reason: Reason::TooLarge,
            message: message.into(),
        }
    }

    /// The input at `index` failed.
    pub(super) fn at(index: u32, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            index: Some(index),
            reason,
            message: message.into(),
        }
    }
}
