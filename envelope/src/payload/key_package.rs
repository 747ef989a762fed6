//! Key packages: parsing, and the checks that need the time.
//!
//! The checks are those of `openmls` plus two on the credential, and no others: any cipher suite
//! the decoder knows, any credential text and any length of lifetime pass (ARC-013, ARC-092).

use std::fmt;

use bytes::Bytes;
use openmls::credentials::BasicCredential;
use openmls::key_packages::errors::KeyPackageVerifyError;
use openmls::key_packages::{KeyPackageIn, Lifetime};
use openmls::versions::ProtocolVersion;
use openmls_rust_crypto::RustCrypto;
use prost::Message;

use super::decoder;
use crate::error::{Error, KeyPackageError, Malformed};
use crate::topic::{Topic, TopicKind};
use crate::wire::xmtp::identity::MlsCredential;

/// A well-formed key package, none of whose signatures was looked at.
pub struct UncheckedKeyPackage {
    package: KeyPackageIn,
    topic: Topic,
}

/// What a valid key package says of its owner. Nobody vouches for the inbox id.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPackageFacts {
    /// The key that signed the package.
    pub installation_key: Bytes,
    /// The inbox that the credential claims, any text.
    pub inbox_id: String,
    /// First second of validity, since the Unix epoch.
    pub not_before_s: u64,
    /// First second after validity, since the Unix epoch.
    pub not_after_s: u64,
}

/// Decodes a TLS-encoded key package, which must fill `bytes` exactly.
///
/// # Errors
///
/// [`Malformed::KeyPackage`] when the bytes are not exactly one key package,
/// [`Malformed::InstallationKey`] when its signature key is not 32 bytes,
/// [`TooLarge::MlsParts`](crate::error::TooLarge::MlsParts) when it has too many parts.
pub fn parse(bytes: &[u8]) -> Result<UncheckedKeyPackage, Error> {
    let (package, rest): (KeyPackageIn, _) = decoder::decode(bytes, Malformed::KeyPackage)?;
    if !rest.is_empty() {
        return Err(Malformed::KeyPackage.into());
    }
    let owner = package.unverified_credential();
    let topic = Topic::new(TopicKind::KeyPackage, owner.signature_key.as_slice())
        .map_err(|_| Malformed::InstallationKey)?;
    Ok(UncheckedKeyPackage { package, topic })
}

impl UncheckedKeyPackage {
    /// The topic of the installation that the package says it is of.
    #[must_use]
    pub fn topic(&self) -> Topic {
        self.topic
    }

    /// Checks the package as of `now_s` seconds since the Unix epoch.
    ///
    /// # Errors
    ///
    /// [`KeyPackageError`], the first check that failed. The lifetime is
    /// `not_before <= now < not_after`, in whole seconds.
    pub fn validate(self, now_s: u64) -> Result<KeyPackageFacts, KeyPackageError> {
        let owner = self.package.unverified_credential();
        // The library compares the lifetime with the clock of the process as the last of its
        // checks. Its answer to that one is set aside, because the time is an argument here: either
        // verdict on the lifetime means that every other check passed.
        match self
            .package
            .clone()
            .validate(&RustCrypto::default(), ProtocolVersion::Mls10)
        {
            Ok(_) | Err(KeyPackageVerifyError::LifetimeError(_)) => {}
            Err(error) => return Err(refusal(&error)),
        }
        // Safe only here: a package that is not from a key-package leaf has no lifetime, and the
        // library would panic; the checks above refuse such a leaf first.
        let package = self.package.into_unchecked();
        let lifetime = package.life_time();
        check_lifetime(lifetime, now_s)?;
        let credential = BasicCredential::try_from(owner.credential)
            .map_err(|_| KeyPackageError::CredentialType)?;
        let credential = MlsCredential::decode(credential.identity())
            .map_err(|_| KeyPackageError::CredentialIdentity)?;
        Ok(KeyPackageFacts {
            installation_key: Bytes::copy_from_slice(owner.signature_key.as_slice()),
            inbox_id: credential.inbox_id,
            not_before_s: lifetime.not_before(),
            not_after_s: lifetime.not_after(),
        })
    }
}

fn check_lifetime(lifetime: &Lifetime, now_s: u64) -> Result<(), KeyPackageError> {
    if now_s < lifetime.not_before() {
        Err(KeyPackageError::NotYetValid)
    } else if now_s >= lifetime.not_after() {
        Err(KeyPackageError::Expired)
    } else {
        Ok(())
    }
}

/// Our name for a failure that the library found.
fn refusal(error: &KeyPackageVerifyError) -> KeyPackageError {
    match error {
        // The library calls a value it cannot serialize back an error of its own.
        KeyPackageVerifyError::LibraryError(_) => KeyPackageError::Unserializable,
        KeyPackageVerifyError::LifetimeError(_) | KeyPackageVerifyError::MissingLifetime => {
            KeyPackageError::LifetimeMissing
        }
        KeyPackageVerifyError::UnsupportedExtension => KeyPackageError::ExtensionNotInCapabilities,
        KeyPackageVerifyError::InvalidSignature => KeyPackageError::Signature,
        KeyPackageVerifyError::InvalidLeafNodeSignature => KeyPackageError::LeafSignature,
        KeyPackageVerifyError::InvalidLeafNodeSourceType => KeyPackageError::LeafSource,
        KeyPackageVerifyError::InitKeyEqualsEncryptionKey => KeyPackageError::InitKeyReused,
        KeyPackageVerifyError::InvalidProtocolVersion => KeyPackageError::Version,
        KeyPackageVerifyError::ExtensionTypeNotValidInKeyPackage(_) => {
            KeyPackageError::ExtensionNotAllowed
        }
    }
}

impl fmt::Debug for UncheckedKeyPackage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UncheckedKeyPackage")
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for KeyPackageFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPackageFacts")
            .field("not_before_s", &self.not_before_s)
            .field("not_after_s", &self.not_after_s)
            .finish_non_exhaustive()
    }
}
