//! Failures of a signature of an identity update (ARC-013, ARC-090).

use thiserror::Error;

/// Why a signature does not verify.
///
/// Recovering a signer from an ECDSA signature rarely fails: a wrong signature mostly recovers some
/// other address, which the association rules refuse instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SignatureError {
    /// No signer can be recovered from a wallet's signature.
    #[error("wallet signature recovers no signer")]
    Ecdsa,
    /// The installation did not sign this text.
    #[error("installation signature does not verify")]
    Installation,
    /// The client data of a passkey is not an object with an origin and a challenge.
    #[error("passkey client data does not decode")]
    PasskeyClientData,
    /// The challenge of a passkey is not the signature text.
    #[error("passkey challenge is not the signature text")]
    PasskeyChallenge,
    /// The passkey did not sign this client data.
    #[error("passkey signature does not verify")]
    Passkey,
    /// The delegated legacy key does not decode, or is not the one that signed.
    #[error("legacy key does not verify")]
    LegacyKey,
    /// The smart-contract wallet does not accept the signature.
    #[error("smart-contract wallet refuses the signature")]
    Contract,
    /// The account of a smart-contract wallet is no Ethereum address on a numbered chain.
    #[error("smart-contract-wallet account is not an ethereum account")]
    ContractAccount,
}

impl SignatureError {
    /// A fixed name of the failure, fit for a metric label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ecdsa => "bad_ecdsa",
            Self::Installation => "bad_installation_signature",
            Self::PasskeyClientData => "bad_passkey_client_data",
            Self::PasskeyChallenge => "bad_passkey_challenge",
            Self::Passkey => "bad_passkey_signature",
            Self::LegacyKey => "bad_legacy_key",
            Self::Contract => "contract_refused",
            Self::ContractAccount => "bad_contract_account",
        }
    }
}
