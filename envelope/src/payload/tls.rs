//! A reader of TLS presentation language that neither copies nor allocates.
//!
//! Only what the header of an MLS message needs: integers and variable-length vectors (RFC 9420
//! section 2.1.2). A length must be written in its shortest form, and one that exceeds the input
//! fails at once.

use crate::error::Malformed;

/// A position in untrusted bytes. Every read either advances it or fails.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the front of `bytes`.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Malformed::MlsMessage)?;
        self.rest = rest;
        Ok(*array)
    }

    /// One byte.
    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    /// Two bytes, big-endian.
    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Eight bytes, big-endian.
    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// A vector: its length in one, two or four bytes, then that many bytes.
    pub(super) fn vector(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.length()?;
        let (vector, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(Malformed::MlsMessage)?;
        self.rest = rest;
        Ok(vector)
    }

    /// The top two bits of the first byte say how many bytes the length has. A longer form than the
    /// value needs is refused, so one value has one encoding.
    fn length(&mut self) -> Result<usize, Malformed> {
        let first = self.u8()?;
        let low = u32::from(first & 0x3f);
        let (length, shorter_form_max) = match first >> 6 {
            0 => return Ok(usize::from(first)),
            1 => ((low << 8) | u32::from(self.u8()?), 0x3f),
            2 => {
                let [a, b, c] = self.array()?;
                (u32::from_be_bytes([first & 0x3f, a, b, c]), 0x3fff)
            }
            _ => return Err(Malformed::MlsMessage),
        };
        if length <= shorter_form_max {
            return Err(Malformed::MlsMessage);
        }
        usize::try_from(length).map_err(|_| Malformed::MlsMessage)
    }
}
