//! Why an exchange failed, in a closed set of words.
//!
//! The errors of HTTP libraries quote addresses, so none of them is kept as a source (ARC-101).

use http::StatusCode;

/// An exchange that brought no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// No name, no connection, no trust in the certificate, or the connection broke.
    #[error("the connection could not be made or broke")]
    Connection,
    /// No whole answer within the time allowed.
    #[error("no whole answer within the time allowed")]
    Timeout,
    /// An answer that is not 200, redirects included. Its body was not read.
    #[error("the answer has HTTP status {}", .0.as_u16())]
    Status(StatusCode),
    /// An answer with a longer body than allowed.
    #[error("the answer is longer than allowed")]
    TooLarge,
}

impl Failure {
    /// One word for a log line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Connection => "connect",
            Self::Timeout => "timeout",
            Self::Status(_) => "status",
            Self::TooLarge => "too_large",
        }
    }
}
