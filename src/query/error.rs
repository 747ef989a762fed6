//! Why a read was refused or failed.

use crate::db;

/// A read that has no answer. Nothing of the request is quoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// More topics than the limit, counted before repeats are merged.
    #[error("the request names more than {limit} topics")]
    TooManyTopics {
        /// The limit.
        limit: u32,
    },
    /// A topic of unknown kind or wrong length (API-003).
    #[error("a topic of the request is not well formed")]
    InvalidTopic,
    /// Key packages are read with the newest-envelope route only.
    #[error("key-package topics cannot be queried")]
    KeyPackageTopic,
    /// A cursor above the signed 64-bit range (API-004).
    #[error("a cursor of the request is out of range")]
    CursorOutOfRange,
    /// More identifiers than the limit.
    #[error("the request names more than {limit} identifiers")]
    TooManyIdentifiers {
        /// The limit.
        limit: u32,
    },
    /// An identifier kind that does not exist.
    #[error("an identifier kind of the request is unknown")]
    UnknownIdentifierKind,
    /// The answer would be larger than a response may be (ARC-066). Nothing is left out to make it
    /// fit.
    #[error("the answer is longer than {limit} bytes")]
    AnswerTooLarge {
        /// The limit.
        limit: u64,
    },
    /// The database failed.
    #[error(transparent)]
    Database(#[from] db::Error),
}

/// Checks a number of request entries against its limit.
pub(super) fn within(entries: usize, limit: u32) -> bool {
    usize::try_from(limit).is_ok_and(|limit| entries <= limit)
}
