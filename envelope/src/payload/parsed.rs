//! Parsing of one envelope, whichever its kind, with the size bounds checked before the work they
//! bound (ARC-010, ARC-090).

use std::fmt;

use bytes::Bytes;

use super::key_package::UncheckedKeyPackage;
use super::{commit_log, group_message, identity_update, key_package, welcome};
use crate::canonical::{self, MessageHash};
use crate::error::{Error, Malformed, TooLarge};
use crate::topic::Topic;
use crate::wire::xmtp::backend::v1::ClientEnvelope;
use crate::wire::xmtp::backend::v1::client_envelope::Payload;
use crate::wire::xmtp::identity::associations::IdentityUpdate;

/// The bounds on one envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest accepted canonical encoding, in bytes.
    pub envelope_bytes_max: usize,
    /// Most smart-contract-wallet signatures that one identity update may carry.
    pub contract_signatures_max: usize,
}

/// An envelope whose payload is well formed.
pub struct Parsed {
    /// The log that the envelope belongs to.
    pub topic: Topic,
    /// True only for a group message that carries an MLS proposal or commit.
    pub is_commit_or_proposal: bool,
    /// How many smart-contract-wallet signatures the payload carries; 0 unless an identity update.
    pub contract_signatures: usize,
    /// The bytes to store.
    pub canonical: Bytes,
    /// The SHA-256 of `canonical`.
    pub hash: MessageHash,
    /// What is left to check before the envelope may be stored for the first time.
    pub unchecked: Unchecked,
}

/// The part of a payload that needs more than parsing.
pub enum Unchecked {
    /// A group message, welcome or commit-log entry: nothing is left to check.
    Nothing,
    /// A key package: signatures, extensions, lifetime and credential.
    KeyPackage(Box<UncheckedKeyPackage>),
    /// An identity update: its signatures, and whether it may follow the inbox's history.
    IdentityUpdate(Box<IdentityUpdate>),
}

/// Checks the bounds of an envelope and parses its payload.
///
/// The checks run in this order, and the first failure is reported: the payload is set, the
/// canonical encoding is not too long, the payload parses, an identity update does not carry too
/// many smart-contract-wallet signatures. Nothing is encoded or hashed before all of them passed.
///
/// # Errors
///
/// [`Error::Malformed`] or [`Error::TooLarge`], no other variant.
pub fn parse(envelope: ClientEnvelope, limits: Limits) -> Result<Parsed, Error> {
    let payload = envelope.payload.as_ref().ok_or(Malformed::PayloadUnset)?;
    if canonical::encoded_len(&envelope) > limits.envelope_bytes_max {
        return Err(TooLarge::Envelope.into());
    }
    let mut is_commit_or_proposal = false;
    let mut contract_signatures = 0;
    let mut key_package = None;
    let topic = match payload {
        Payload::GroupMessage(message) => {
            let header = group_message::parse(&message.data)?;
            is_commit_or_proposal = header.content_type.is_commit_or_proposal();
            header.topic
        }
        Payload::WelcomeMessage(message) => welcome::topic(message)?,
        Payload::KeyPackage(package) => {
            let package = key_package::parse(&package.key_package_tls_serialized)?;
            let topic = package.topic();
            key_package = Some(package);
            topic
        }
        Payload::IdentityUpdate(update) => {
            let topic = identity_update::topic(update)?;
            contract_signatures = identity_update::contract_signatures(update);
            if contract_signatures > limits.contract_signatures_max {
                return Err(TooLarge::ContractSignatures.into());
            }
            topic
        }
        Payload::CommitLogEntry(entry) => commit_log::topic(&entry.serialized_commit_log_entry)?,
    };
    let canonical = canonical::encode(&envelope);
    let hash = MessageHash::of(&canonical);
    let unchecked = match (key_package, envelope.payload) {
        (Some(package), _) => Unchecked::KeyPackage(Box::new(package)),
        (None, Some(Payload::IdentityUpdate(update))) => Unchecked::IdentityUpdate(update),
        (None, _) => Unchecked::Nothing,
    };
    Ok(Parsed {
        topic,
        is_commit_or_proposal,
        contract_signatures,
        canonical,
        hash,
        unchecked,
    })
}

// Payload bytes must not reach a log through a derived `Debug` (ARC-101).
impl fmt::Debug for Parsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parsed")
            .field("topic", &self.topic)
            .field("is_commit_or_proposal", &self.is_commit_or_proposal)
            .field("contract_signatures", &self.contract_signatures)
            .field("canonical_bytes", &self.canonical.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Unchecked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::KeyPackage(_) => "KeyPackage(..)",
            Self::IdentityUpdate(_) => "IdentityUpdate(..)",
        })
    }
}
