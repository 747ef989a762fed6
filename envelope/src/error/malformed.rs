//! Failures of parsing and of the bounds on one envelope (ARC-090).

use thiserror::Error;

/// Why a payload does not parse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The envelope has no payload.
    #[error("payload is unset")]
    PayloadUnset,
    /// A stored envelope is of another kind than its topic.
    #[error("payload is of another kind")]
    OtherKind,
    /// The bytes are no envelope.
    #[error("envelope does not decode")]
    Protobuf,
    /// The group message is no MLS 1.0 public or private message.
    #[error("group message is not an mls public or private message")]
    MlsMessage,
    /// A group id is not 16 bytes.
    #[error("group id is not 16 bytes")]
    GroupId,
    /// The welcome is of no version.
    #[error("welcome version is unset")]
    WelcomeVersionUnset,
    /// An installation key, or the destination of a welcome, is not 32 bytes.
    #[error("installation key is not 32 bytes")]
    InstallationKey,
    /// The inbox id is not 64 hexadecimal digits.
    #[error("inbox id is not 64 hexadecimal digits")]
    InboxId,
    /// The bytes are not exactly one MLS key package.
    #[error("key package does not decode")]
    KeyPackage,
    /// The bytes are no commit-log entry.
    #[error("commit-log entry does not decode")]
    CommitLogEntry,
}

impl Malformed {
    /// A fixed name of the failure, fit for a metric label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PayloadUnset => "payload_unset",
            Self::OtherKind => "other_kind",
            Self::Protobuf => "bad_protobuf",
            Self::MlsMessage => "bad_mls_message",
            Self::GroupId => "bad_group_id",
            Self::WelcomeVersionUnset => "welcome_version_unset",
            Self::InstallationKey => "bad_installation_key_length",
            Self::InboxId => "bad_inbox_id",
            Self::KeyPackage => "bad_key_package",
            Self::CommitLogEntry => "bad_commit_log_entry",
        }
    }
}

/// Which bound an envelope exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TooLarge {
    /// The canonical encoding is too long.
    #[error("envelope is too large")]
    Envelope,
    /// The identity update carries too many smart-contract-wallet signatures.
    #[error("identity update carries too many smart-contract-wallet signatures")]
    ContractSignatures,
    /// The MLS message or key package has too many parts.
    #[error("mls payload has too many parts")]
    MlsParts,
}

impl TooLarge {
    /// A fixed name of the failure, fit for a metric label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Envelope => "envelope_too_large",
            Self::ContractSignatures => "too_many_contract_signatures",
            Self::MlsParts => "too_many_mls_parts",
        }
    }
}
