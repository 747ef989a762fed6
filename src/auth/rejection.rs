//! Every reason to refuse a caller, and the fixed words for it.

use layers::code::Code;
use layers::refusal::Refusal;

use crate::metrics::AuthRejection;

/// Why a request was not admitted. The variants stand in the order in which they are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// No `authorization` header.
    Missing,
    /// A header that is not `Bearer` and a token.
    NotBearer,
    /// A token that is too long, or not a JSON Web Token of the form that is read here.
    NotToken,
    /// A signature algorithm that is not supported.
    UnsupportedAlgorithm,
    /// No key, more than one key, or a signature of another key.
    Untrusted,
    /// An end that has passed or is not stated.
    Expired,
    /// A beginning that has not come.
    NotYetValid,
    /// None of the configured audiences.
    Audience,
    /// None of the configured issuers.
    Issuer,
    /// A required scope is missing.
    Scope,
}

impl Rejection {
    /// The label of it in metrics and logs. The two forms of a malformed credential share one.
    #[must_use]
    pub const fn reason(self) -> AuthRejection {
        match self {
            Self::Missing => AuthRejection::Missing,
            Self::NotBearer | Self::NotToken => AuthRejection::Malformed,
            Self::UnsupportedAlgorithm => AuthRejection::UnsupportedAlgorithm,
            Self::Untrusted => AuthRejection::Untrusted,
            Self::Expired => AuthRejection::Expired,
            Self::NotYetValid => AuthRejection::NotYetValid,
            Self::Audience => AuthRejection::Audience,
            Self::Issuer => AuthRejection::Issuer,
            Self::Scope => AuthRejection::Scope,
        }
    }

    /// What the caller is told.
    #[must_use]
    pub const fn refusal(self) -> Refusal {
        let (code, message) = match self {
            Self::Missing => (Code::Unauthenticated, "missing bearer token"),
            Self::NotBearer => (
                Code::Unauthenticated,
                "authorization header is not a bearer token",
            ),
            Self::NotToken | Self::UnsupportedAlgorithm => {
                (Code::Unauthenticated, "token is not a supported JWT")
            }
            Self::Untrusted => (Code::Unauthenticated, "token signature is not trusted"),
            Self::Expired => (Code::Unauthenticated, "token has expired"),
            Self::NotYetValid => (Code::Unauthenticated, "token is not yet valid"),
            Self::Audience => (Code::Unauthenticated, "token audience is not allowed"),
            Self::Issuer => (Code::Unauthenticated, "token issuer is not allowed"),
            Self::Scope => (Code::PermissionDenied, "token is missing a required scope"),
        };
        Refusal::new(code, message)
    }
}
