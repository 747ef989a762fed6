//! Failures of an identity update whose bytes are well formed and whose signatures may even verify
//! (ARC-013, ARC-090).

use thiserror::Error;

/// Why an identity update may not follow the history of its inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum IdentityError {
    /// An action, member or signature that must be there is not.
    #[error("identity update lacks a required field")]
    MissingField,
    /// A passkey identifier is not hexadecimal.
    #[error("passkey identifier is not hexadecimal")]
    BadPasskeyHex,
    /// An account id is not of the form of CAIP-10.
    #[error("smart-contract-wallet account id is malformed")]
    BadAccountId,
    /// An installation key is not 32 bytes that name a point.
    #[error("installation key is malformed")]
    BadInstallationKey,
    /// The inbox was created before.
    #[error("inbox is already created")]
    MultipleCreate,
    /// The inbox was not created yet.
    #[error("inbox is not created")]
    NotCreated,
    /// A signature was used by an earlier update.
    #[error("signature was used before")]
    Replay,
    /// A signature is by somebody other than the one the action names.
    #[error("signer is not who the action names")]
    SignerMismatch,
    /// A member adds itself.
    #[error("member adds itself")]
    SelfAdd,
    /// A legacy signature is used for what legacy signatures may not do.
    #[error("legacy signature is not allowed here")]
    LegacyReuse,
    /// A member cannot sign with a signature of this kind.
    #[error("signature kind does not fit the signer")]
    SignatureKindNotAllowed,
    /// The signer was added on another chain, or on none.
    #[error("signer was added on another chain")]
    ChainIdMismatch,
    /// Neither a member nor the recovery identifier signed.
    #[error("signer is neither a member nor the recovery identifier")]
    MissingExistingMember,
    /// An installation may not add an installation.
    #[error("member may not add a member of this kind")]
    MemberPairNotAllowed,
    /// The update is for another inbox than the one it belongs to.
    #[error("update names another inbox")]
    WrongInboxId,
    /// No inbox id follows from an address of this form.
    #[error("ethereum address is malformed")]
    InvalidAccountAddress,
    /// The history is as long as it may become.
    #[error("inbox has too many identity updates")]
    TooManyEntries,
    /// The request holds another update for the same inbox.
    #[error("request holds two updates for one inbox")]
    SecondUpdateInRequest,
}

impl IdentityError {
    /// A fixed name of the failure, fit for a metric label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MissingField => "missing_field",
            Self::BadPasskeyHex => "bad_passkey_hex",
            Self::BadAccountId => "bad_account_id",
            Self::BadInstallationKey => "bad_installation_key",
            Self::MultipleCreate => "multiple_create",
            Self::NotCreated => "not_created",
            Self::Replay => "replay",
            Self::SignerMismatch => "signer_mismatch",
            Self::SelfAdd => "self_add",
            Self::LegacyReuse => "legacy_reuse",
            Self::SignatureKindNotAllowed => "signature_kind_not_allowed",
            Self::ChainIdMismatch => "chain_id_mismatch",
            Self::MissingExistingMember => "missing_existing_member",
            Self::MemberPairNotAllowed => "member_pair_not_allowed",
            Self::WrongInboxId => "wrong_inbox_id",
            Self::InvalidAccountAddress => "invalid_account_address",
            Self::TooManyEntries => "too_many_entries",
            Self::SecondUpdateInRequest => "second_update_in_request",
        }
    }
}
