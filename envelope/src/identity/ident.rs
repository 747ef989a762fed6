//! Who can belong to an inbox, the id of the inbox that an identifier creates, and the normalized
//! form under which identifiers are looked up.
//!
//! Identifiers are compared exactly as they were carried. Signers are always canonical, so a
//! malformed identifier simply never equals a signer. `Debug` prints kinds only (ARC-101).

use std::fmt;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::error::IdentityError;
use crate::wire::xmtp::identity::associations as wire;

/// What kind of identifier a text names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IdentifierKind {
    /// An Ethereum address.
    Ethereum,
    /// The public key of a passkey.
    Passkey,
}

impl IdentifierKind {
    /// The number under which identifiers of this kind are projected: 1 or 2.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Ethereum => 1,
            Self::Passkey => 2,
        }
    }

    /// The kind that a number on the wire names; unspecified means Ethereum, and a number that
    /// this schema does not know means nothing.
    #[must_use]
    pub fn from_wire(number: i32) -> Option<Self> {
        match wire::IdentifierKind::try_from(number).ok()? {
            wire::IdentifierKind::Unspecified | wire::IdentifierKind::Ethereum => {
                Some(Self::Ethereum)
            }
            wire::IdentifierKind::Passkey => Some(Self::Passkey),
        }
    }
}

/// Somebody who can create and recover an inbox.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Identifier {
    /// An Ethereum address, any text.
    Ethereum(String),
    /// The public key of a passkey, any bytes.
    Passkey(Bytes),
}

impl Identifier {
    /// Reads an identifier from the text and kind number of an update. A number that the schema
    /// does not know reads as Ethereum.
    ///
    /// # Errors
    ///
    /// [`IdentityError::BadPasskeyHex`] for a passkey that is not hexadecimal.
    pub fn from_text(text: String, kind_number: i32) -> Result<Self, IdentityError> {
        match IdentifierKind::from_wire(kind_number).unwrap_or(IdentifierKind::Ethereum) {
            IdentifierKind::Ethereum => Ok(Self::Ethereum(text)),
            IdentifierKind::Passkey => passkey_from_hex(&text)
                .map(Self::Passkey)
                .ok_or(IdentityError::BadPasskeyHex),
        }
    }

    /// The form that is shown and hashed: an address as carried, a key in lower-case hexadecimal.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Ethereum(address) => address.clone(),
            Self::Passkey(key) => hex::encode(key),
        }
    }
}

/// Somebody or something that can be a member of an inbox.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemberIdentifier {
    /// An Ethereum address, any text.
    Ethereum(String),
    /// The public key of an installation, any bytes.
    Installation(Bytes),
    /// The public key of a passkey, any bytes. Compressed and uncompressed forms are different.
    Passkey(Bytes),
}

impl MemberIdentifier {
    /// The member as an identifier; installations are none.
    #[must_use]
    pub fn identifier(&self) -> Option<Identifier> {
        match self {
            Self::Ethereum(address) => Some(Identifier::Ethereum(address.clone())),
            Self::Passkey(key) => Some(Identifier::Passkey(key.clone())),
            Self::Installation(_) => None,
        }
    }

    /// The form that is shown: an address as carried, a key in lower-case hexadecimal.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Ethereum(address) => address.clone(),
            Self::Installation(key) | Self::Passkey(key) => hex::encode(key),
        }
    }

    /// Whether this is an installation.
    #[must_use]
    pub fn is_installation(&self) -> bool {
        match self {
            Self::Installation(_) => true,
            Self::Ethereum(_) | Self::Passkey(_) => false,
        }
    }

    fn kind_name(&self) -> &'static str {
        match self {
            Self::Ethereum(_) => "Ethereum(..)",
            Self::Installation(_) => "Installation(..)",
            Self::Passkey(_) => "Passkey(..)",
        }
    }
}

impl From<Identifier> for MemberIdentifier {
    fn from(identifier: Identifier) -> Self {
        match identifier {
            Identifier::Ethereum(address) => Self::Ethereum(address),
            Identifier::Passkey(key) => Self::Passkey(key),
        }
    }
}

impl PartialEq<Identifier> for MemberIdentifier {
    fn eq(&self, other: &Identifier) -> bool {
        match (self, other) {
            (Self::Ethereum(a), Identifier::Ethereum(b)) => a == b,
            (Self::Passkey(a), Identifier::Passkey(b)) => a == b,
            (Self::Ethereum(_) | Self::Passkey(_) | Self::Installation(_), _) => false,
        }
    }
}

impl fmt::Debug for MemberIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind_name())
    }
}

impl fmt::Debug for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ethereum(_) => "Ethereum(..)",
            Self::Passkey(_) => "Passkey(..)",
        })
    }
}

/// The id of the inbox that an identifier creates with a nonce: 64 lower-case hexadecimal digits.
///
/// # Errors
///
/// [`IdentityError::InvalidAccountAddress`] for an Ethereum identifier that is not `0x` and 40
/// hexadecimal digits.
pub fn inbox_id(identifier: &Identifier, nonce: u64) -> Result<String, IdentityError> {
    if let Identifier::Ethereum(address) = identifier {
        let digits = address.strip_prefix("0x").unwrap_or_default();
        if digits.len() != 40 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(IdentityError::InvalidAccountAddress);
        }
    }
    let hash = Sha256::new()
        .chain_update(identifier.text())
        .chain_update(nonce.to_string())
        .finalize();
    Ok(hex::encode(hash))
}

/// The key under which an identifier is projected and looked up. Never used for signed bytes.
///
/// Addresses are lower-cased and otherwise kept; passkeys are re-encoded as lower-case
/// hexadecimal. Returns `None` for a passkey that is not hexadecimal, which nothing can match.
#[must_use]
pub fn normalize(kind: IdentifierKind, text: &str) -> Option<String> {
    match kind {
        IdentifierKind::Ethereum => Some(text.to_ascii_lowercase()),
        IdentifierKind::Passkey => passkey_from_hex(text).map(hex::encode),
    }
}

/// Existing decoders accept a `0x` prefix here, so this one does.
fn passkey_from_hex(text: &str) -> Option<Bytes> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    hex::decode(digits).ok().map(Bytes::from)
}
