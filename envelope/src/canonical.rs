//! The one encoding of an envelope that is stored, returned and hashed.
//!
//! Protobuf lets one value be written in many ways. This module is the only encoder of stored
//! bytes: fields in ascending order, shortest varints, defaults left out unless their presence is
//! explicit, unknown fields dropped. Two encodings of one value therefore give one hash, while every
//! `bytes` and `string` field inside is kept as it came (ARC-010). Decoding stored bytes and
//! encoding them again gives the same bytes.

use std::fmt;

use bytes::Bytes;
use prost::Message;
use sha2::{Digest, Sha256};

use crate::error::Malformed;
use crate::wire::xmtp::backend::v1::ClientEnvelope;

/// Decodes an envelope. Byte fields share the memory of `bytes`.
///
/// # Errors
///
/// [`Malformed::Protobuf`] when the bytes are not the encoding of an envelope.
pub fn decode(bytes: Bytes) -> Result<ClientEnvelope, Malformed> {
    ClientEnvelope::decode(bytes).map_err(|_| Malformed::Protobuf)
}

/// The canonical encoding of an envelope: its stored bytes.
#[must_use]
pub fn encode(envelope: &ClientEnvelope) -> Bytes {
    Bytes::from(envelope.encode_to_vec())
}

/// The length in bytes of [`encode`]'s answer, computed without encoding.
#[must_use]
pub fn encoded_len(envelope: &ClientEnvelope) -> usize {
    envelope.encoded_len()
}

/// The SHA-256 of an envelope's canonical encoding, which names the envelope within its topic.
///
/// `Debug` does not print it: whoever holds a payload could look for it in a log (ARC-101).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageHash([u8; 32]);

impl MessageHash {
    /// The hash of canonical bytes.
    #[must_use]
    pub fn of(canonical: &[u8]) -> Self {
        Self(Sha256::digest(canonical).into())
    }

    /// The 32 bytes of the hash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for MessageHash {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl AsRef<[u8]> for MessageHash {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for MessageHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MessageHash(..)")
    }
}
