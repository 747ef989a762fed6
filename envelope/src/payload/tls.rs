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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a reader makes of a length prefix that is followed by more than enough bytes.
    fn length_of(prefix: &[u8]) -> Option<usize> {
        let bytes = [prefix, &[0; 0x1_0000]].concat();
        Reader::new(&bytes).vector().ok().map(<[u8]>::len)
    }

    /// Both ends of each form of a length; the value just below is refused as not the shortest
    /// (RFC 9420 section 2.1.2).
    #[test]
    fn lengths_are_read_in_their_shortest_form_only() {
        let cases: [(&[u8], Option<usize>); 11] = [
            (&[0x00], Some(0)),
            (&[0x3f], Some(0x3f)),
            (&[0x40, 0x00], None),
            (&[0x40, 0x3f], None),
            (&[0x40, 0x40], Some(0x40)),
            (&[0x7f, 0xff], Some(0x3fff)),
            (&[0x80, 0x00, 0x00, 0x40], None),
            (&[0x80, 0x00, 0x3f, 0xff], None),
            (&[0x80, 0x00, 0x40, 0x00], Some(0x4000)),
            (&[0xbf, 0xff, 0xff, 0xff], None),
            (&[0xc0, 0, 0, 0, 0, 0, 0x40, 0], None),
        ];
        for (prefix, expected) in cases {
            assert_eq!(length_of(prefix), expected, "{prefix:02x?}");
        }
    }

    /// A vector that fills the input is whole; one byte less and nothing is read.
    #[test]
    fn vectors_end_with_the_input() {
        assert_eq!(Reader::new(&[2, 7, 8]).vector(), Ok(&[7, 8][..]));
        for truncated in [&[][..], &[2], &[2, 7], &[0x40], &[0x80, 0, 0x40]] {
            assert_eq!(Reader::new(truncated).vector(), Err(Malformed::MlsMessage));
        }
    }

    /// Integers take their bytes in order, and none when there are too few.
    #[test]
    fn integers_are_big_endian() {
        let mut reader = Reader::new(&[1, 2, 3, 0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.u16(), Ok(0x0203));
        assert_eq!(reader.u64(), Ok(0x0100));
        assert_eq!(reader.u8(), Err(Malformed::MlsMessage));
    }
}
