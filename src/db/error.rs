//! What can go wrong in storage, in words that carry no stored or requested data.
//!
//! PostgreSQL puts key values into an error's detail, so a driver error is reduced to its SQLSTATE
//! and, for a broken constraint, the constraint's name. Nothing else of it survives.

use std::fmt;

use crate::metrics::DatabaseFailure;

/// A failed database operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A statement, transaction or lock wait outlived its bound. Nothing was committed, unless the
    /// commit itself was the statement (ARC-051).
    #[error("the database operation took too long ({state})")]
    Timeout {
        /// What the server reported, or [`SqlState::NONE`] when the service's own timer ended it.
        state: SqlState,
    },
    /// The database cannot be reached, refuses work, or has no room for it. Retry later.
    #[error("the database is unavailable ({state})")]
    Unavailable {
        /// What the server reported, or [`SqlState::NONE`] when it reported nothing.
        state: SqlState,
    },
    /// Something that storage promises did not hold (ARC-034, ARC-050).
    #[error("storage invariant broken: {0}")]
    Invariant(Invariant),
    /// Anything else that the server refused.
    #[error("the database refused the operation ({state})")]
    Refused {
        /// What the server reported, or [`SqlState::NONE`] when it reported nothing.
        state: SqlState,
    },
}

/// A promise of the storage layer that did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Invariant {
    /// A topic watermark would not have advanced (ARC-034).
    #[error("a topic watermark did not advance")]
    WatermarkAdvance,
    /// A row that the locked recheck had not seen already exists (ARC-050).
    #[error("unexpected duplicate row")]
    UniqueViolation,
    /// A row breaks a constraint of the schema.
    #[error("unexpected constraint violation")]
    ConstraintViolation,
    /// An expiry does not fit its column (ARC-035).
    #[error("timestamp arithmetic overflowed")]
    TimestampOverflow,
    /// Fewer rows came back than were written.
    #[error("rows are missing from a statement's result")]
    MissingRows,
    /// The stored boundary is above the sequence: ids may be handed out twice (ARC-040).
    #[error("the sequence is behind the closed boundary")]
    SequenceWentBack,
    /// A stored value cannot be read as what it must be.
    #[error("a stored value cannot be decoded")]
    StoredValue,
}

/// The five characters of a PostgreSQL error code.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState([u8; 5]);

impl SqlState {
    /// No code: the failure did not come from the server.
    pub const NONE: Self = Self(*b"-----");

    fn parse(code: &str) -> Self {
        code.as_bytes().try_into().map_or(Self::NONE, Self)
    }

    /// The code as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("?????")
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The bounded classes that metrics and logs distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// [`Error::Timeout`].
    Timeout,
    /// [`Error::Invariant`].
    Invariant,
    /// [`Error::Unavailable`].
    Connection,
    /// [`Error::Refused`].
    Other,
}

impl From<ErrorKind> for DatabaseFailure {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Timeout => Self::Timeout,
            ErrorKind::Invariant => Self::Invariant,
            ErrorKind::Connection => Self::Connection,
            ErrorKind::Other => Self::Other,
        }
    }
}

impl Error {
    /// Whether the server cancelled a statement and kept the connection: a read may be repeated.
    /// Where the connection is gone all the same, the repetition fails.
    #[must_use]
    pub fn was_cancelled(&self) -> bool {
        matches!(self.sql_state().as_str(), "57014" | "40001")
    }

    /// The class of this error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Timeout { .. } => ErrorKind::Timeout,
            Self::Unavailable { .. } => ErrorKind::Connection,
            Self::Invariant(_) => ErrorKind::Invariant,
            Self::Refused { .. } => ErrorKind::Other,
        }
    }

    /// The server's error code, or [`SqlState::NONE`].
    #[must_use]
    pub fn sql_state(&self) -> SqlState {
        match self {
            Self::Timeout { state } | Self::Unavailable { state } | Self::Refused { state } => {
                *state
            }
            Self::Invariant(_) => SqlState::NONE,
        }
    }

    fn from_server(error: &dyn sqlx::error::DatabaseError) -> Self {
        let state = SqlState::parse(error.code().as_deref().unwrap_or_default());
        match state.as_str() {
            // Statement, transaction and lock timeout.
            "57014" | "25P04" | "55P03" => Self::Timeout { state },
            // The server is stopping or starting.
            "57P01" | "57P02" | "57P03" => Self::Unavailable { state },
            // A standby cancelled a read that replay conflicted with.
            "40001" => Self::Unavailable { state },
            "23505" => Self::Invariant(Invariant::UniqueViolation),
            "22003" => Self::Invariant(Invariant::TimestampOverflow),
            code if code.starts_with("23") => Self::Invariant(Invariant::ConstraintViolation),
            // Connection failures; out of connections, locks, memory or disk.
            code if code.starts_with("08") || code.starts_with("53") => Self::Unavailable { state },
            _ => Self::Refused { state },
        }
    }
}

impl From<sqlx::Error> for Error {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the driver's enum is non-exhaustive; whatever it adds is not retryable"
    )]
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(error) => Self::from_server(error.as_ref()),
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unavailable {
                state: SqlState::NONE,
            },
            sqlx::Error::Decode(_)
            | sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::ColumnIndexOutOfBounds { .. }
            | sqlx::Error::TypeNotFound { .. } => Self::Invariant(Invariant::StoredValue),
            sqlx::Error::RowNotFound => Self::Invariant(Invariant::MissingRows),
            _ => Self::Refused {
                state: SqlState::NONE,
            },
        }
    }
}
