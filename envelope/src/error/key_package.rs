//! Failures of a well-formed key package (ARC-013, ARC-090).

use thiserror::Error;

/// Why a key package is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyPackageError {
    /// The leaf node was made for an update or a commit.
    #[error("leaf node is not of a key package")]
    LeafSource,
    /// The signature of the leaf node does not verify.
    #[error("leaf node signature does not verify")]
    LeafSignature,
    /// The protocol version is not MLS 1.0.
    #[error("key package version is not mls 1.0")]
    Version,
    /// The init key is the encryption key.
    #[error("init key equals encryption key")]
    InitKeyReused,
    /// An extension has no place in a key package.
    #[error("extension is not allowed in a key package")]
    ExtensionNotAllowed,
    /// The signature of the package does not verify.
    #[error("key package signature does not verify")]
    Signature,
    /// An extension is not among the leaf's capabilities.
    #[error("extension is not in the capabilities")]
    ExtensionNotInCapabilities,
    /// There is no lifetime.
    #[error("lifetime is missing")]
    LifetimeMissing,
    /// The lifetime begins later.
    #[error("key package is not yet valid")]
    NotYetValid,
    /// The lifetime is over.
    #[error("key package has expired")]
    Expired,
    /// The credential is not a basic one.
    #[error("credential is not basic")]
    CredentialType,
    /// The credential's identity names no inbox.
    #[error("credential identity does not decode")]
    CredentialIdentity,
    /// The decoded package cannot be written back to be verified.
    #[error("key package cannot be serialized")]
    Unserializable,
}

impl KeyPackageError {
    /// A fixed name of the failure, fit for a metric label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LeafSource => "leaf_source",
            Self::LeafSignature => "leaf_signature",
            Self::Version => "version",
            Self::InitKeyReused => "init_key_reused",
            Self::ExtensionNotAllowed => "extension_not_allowed",
            Self::Signature => "key_package_signature",
            Self::ExtensionNotInCapabilities => "extension_not_in_capabilities",
            Self::LifetimeMissing => "lifetime_missing",
            Self::NotYetValid => "not_yet_valid",
            Self::Expired => "expired",
            Self::CredentialType => "credential_type",
            Self::CredentialIdentity => "credential_identity",
            Self::Unserializable => "unserializable",
        }
    }
}
