//! A message that is whatever bytes a test says.

use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{DecodeContext, WireType};
use prost::{DecodeError, Message};

/// A message as it travels: its bytes are sent unchanged, and an answer is kept unread.
///
/// With it a test sends encodings that no encoder makes, and sees the exact bytes of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawMessage(pub Bytes);

impl RawMessage {
    /// A request of exactly this many bytes that every method reads as empty: one field with a
    /// number that no request has.
    ///
    /// # Panics
    ///
    /// If such a message cannot have that length, which only holds for a few below 140.
    #[must_use]
    pub fn padding(bytes: usize) -> Self {
        // Field 2047, length-delimited, is a key of two bytes.
        let (prefix, content) = (1..=4)
            .map(|width| (2 + width, bytes.saturating_sub(2 + width)))
            .find(|(prefix, content)| {
                prefix - 2 == prost::encoding::encoded_len_varint(*content as u64)
                    && prefix + content == bytes
            })
            .expect("a length that one field can have");
        let mut message = Vec::with_capacity(bytes);
        prost::encoding::encode_key(2047, WireType::LengthDelimited, &mut message);
        prost::encoding::encode_varint(content as u64, &mut message);
        debug_assert_eq!(message.len(), prefix);
        message.resize(bytes, 0);
        Self(message.into())
    }
}

impl From<Vec<u8>> for RawMessage {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl Message for RawMessage {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        buf.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        _: u32,
        _: WireType,
        _: &mut impl Buf,
        _: DecodeContext,
    ) -> Result<(), DecodeError> {
        unreachable!("a raw message is taken whole, not field by field")
    }

    fn decode(mut buf: impl Buf) -> Result<Self, DecodeError> {
        Ok(Self(buf.copy_to_bytes(buf.remaining())))
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}
