//! Errors to statuses: the only place of the server that turns one into the other (API-280).
//!
//! No arm catches all, so that a new variant of any error has to be decided here. A failure is
//! logged and counted here as well, once, with the class of the failure and never with data of the
//! request.

use std::sync::Arc;

use envelope::Reason;
use envelope::weight::TooHeavy;
use envelope::wire::xmtp::backend::v1::PublishError;
use envelope::wire::xmtp::backend::v1::publish_error;
use prost::{DecodeError, Message as _};
use prost_types::Any;
use tonic::{Code, Status};
use tonic_types::pb;
use tracing::{error, warn};

use crate::db::{self, ErrorKind};
use crate::identity;
use crate::metrics::{DatabaseFailure, Metrics};
use crate::publish::{self, Rejection};
use crate::query;
use crate::streams::{End, Refusal};

/// The type of the detail that a rejected publish carries.
const PUBLISH_ERROR_TYPE: &str = "type.googleapis.com/xmtp.backend.v1.PublishError";

/// Turns errors into statuses, and counts those of the database.
#[derive(Clone, Debug)]
pub(super) struct Statuses {
    metrics: Arc<Metrics>,
}

impl Statuses {
    /// Counts into these metrics.
    #[must_use]
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics }
    }

    /// The status of a publish that stored nothing.
    pub(super) fn of_publish(&self, error: &publish::Error) -> Status {
        match error {
            publish::Error::Rejected(rejection) => rejected(rejection),
            publish::Error::CheckTimeout => Status::deadline_exceeded(error.to_string()),
            publish::Error::HistoryMoved => Status::aborted(error.to_string()),
            publish::Error::VerifierUnavailable => Status::unavailable(error.to_string()),
            publish::Error::StoredHistory => {
                self.metrics.database_failed(DatabaseFailure::Invariant);
                error!("a stored identity history cannot be replayed");
                Status::internal(error.to_string())
            }
            publish::Error::Database(error) => self.of_database(error),
        }
    }

    /// The status of a read without an answer.
    pub(super) fn of_query(&self, error: &query::Error) -> Status {
        match error {
            query::Error::TooManyTopics { .. }
            | query::Error::InvalidTopic
            | query::Error::KeyPackageTopic
            | query::Error::CursorOutOfRange
            | query::Error::TooManyIdentifiers { .. }
            | query::Error::UnknownIdentifierKind => Status::invalid_argument(error.to_string()),
            query::Error::AnswerTooLarge { .. } => Status::resource_exhausted(error.to_string()),
            query::Error::Database(error) => self.of_database(error),
        }
    }

    /// The status of contract-wallet questions without an answer.
    pub(super) fn of_wallets(&self, error: &identity::Error) -> Status {
        match error {
            identity::Error::TooMany { .. }
            | identity::Error::InvalidAccount
            | identity::Error::InvalidHash => Status::invalid_argument(error.to_string()),
            identity::Error::Unavailable => Status::unavailable(error.to_string()),
        }
    }

    /// The status of a stream that was not opened.
    pub(super) fn of_refused_stream(&self, refusal: &Refusal) -> Status {
        let code = match refusal {
            Refusal::Invalid(_) => Code::InvalidArgument,
            Refusal::Recovering | Refusal::ShuttingDown | Refusal::Database => Code::Unavailable,
            Refusal::TooLarge => Code::ResourceExhausted,
        };
        Status::new(code, refusal.to_string())
    }

    /// The status that ends a stream.
    pub(super) fn of_ended_stream(&self, end: &End) -> Status {
        let code = match end {
            End::HalfClosed => Code::Ok,
            // Nobody is there to read it.
            End::Gone => Code::Cancelled,
            End::Invalid(_) => Code::InvalidArgument,
            // Stands in when the transport did not say anything better.
            End::Unreadable => Code::Internal,
            End::TooManyUpdates
            | End::TooManyPings
            | End::TooSlow
            | End::TooLarge
            | End::TooManyGaps => Code::ResourceExhausted,
            End::NoPong => Code::DeadlineExceeded,
            End::Recovery | End::Database | End::Shutdown => Code::Unavailable,
        };
        Status::new(code, end.to_string())
    }

    fn of_database(&self, error: &db::Error) -> Status {
        let state = error.sql_state();
        let failure = DatabaseFailure::from(error.kind());
        let code = match error.kind() {
            ErrorKind::Timeout => Code::DeadlineExceeded,
            ErrorKind::Connection => Code::Unavailable,
            ErrorKind::Invariant | ErrorKind::Other => Code::Internal,
        };
        self.metrics.database_failed(failure);
        match error.kind() {
            ErrorKind::Timeout | ErrorKind::Connection => {
                warn!(%state, kind = ?failure, "{error}");
            }
            ErrorKind::Invariant | ErrorKind::Other => error!(%state, kind = ?failure, "{error}"),
        }
        Status::new(code, error.to_string())
    }
}

/// The status of a request that is no message of its type. The text is the library's, as every gRPC
/// server of this kind has it; it names fields and quotes no values.
pub(super) fn undecodable(error: &DecodeError) -> Status {
    Status::internal(error.to_string())
}

/// The status of a request that was not decoded, because it would grow far beyond its length.
pub(super) fn too_heavy() -> Status {
    Status::invalid_argument(TooHeavy.to_string())
}

/// The same for a publish, which tells a reason.
pub(super) fn publish_too_heavy() -> Status {
    rejected(&Rejection {
        index: None,
        reason: Reason::TooLarge,
        message: TooHeavy.to_string(),
    })
}

/// A rejection with its detail: `google.rpc.Status` holding one `PublishError` (API-150).
fn rejected(rejection: &Rejection) -> Status {
    let detail = PublishError {
        index: rejection.index,
        reason: publish_error::Reason::from(rejection.reason).into(),
        message: rejection.message.clone(),
    };
    let details = pb::Status {
        code: Code::InvalidArgument.into(),
        message: rejection.message.clone(),
        details: vec![Any {
            type_url: PUBLISH_ERROR_TYPE.to_owned(),
            value: detail.encode_to_vec(),
        }],
    };
    Status::with_details(
        Code::InvalidArgument,
        rejection.message.clone(),
        details.encode_to_vec().into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD;

    /// Clients decode this detail by its bytes; an index of 0 is written (API-223).
    #[test]
    fn the_detail_of_a_rejection_has_the_published_bytes() {
        let status = rejected(&Rejection {
            index: Some(0),
            reason: Reason::MalformedPayload,
            message: "payload is unset".to_owned(),
        });
        assert_eq!(
            STANDARD_NO_PAD.encode(status.details()),
            "CAMSEHBheWxvYWQgaXMgdW5zZXQaSgowdHlwZS5nb29nbGVhcGlzLmNvbS94bXRwLmJhY2tlbmQudjEuUHVi\
             bGlzaEVycm9yEhYIABABGhBwYXlsb2FkIGlzIHVuc2V0"
        );
    }
}
