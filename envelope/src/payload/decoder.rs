//! The `openmls` decoder, held to a number of steps.
//!
//! A part of an MLS structure that is one byte long, such as an empty node, becomes tens of bytes
//! of memory. The decoder reads from a [`Read`], at least once for every part, so a reader that
//! counts bounds what the decoder can build, whatever the grammar (ARC-010). The data of an extension
//! is read as one part and decoded from memory; there an envelope's length is the bound.

use std::io::{self, Read};

use tls_codec::Deserialize;

use crate::error::{Error, Malformed, TooLarge};

/// Reads that decoding one payload may take. A key package takes about a hundred; a commit that
/// brings as many of them as fit an envelope of a megabyte, two thirds of this.
pub const READS_MAX: usize = 1 << 17;

/// Bytes that end decoding after so many reads.
struct Counted<'a> {
    rest: &'a [u8],
    reads_left: usize,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.reads_left.checked_sub(1) {
            Some(left) => {
                self.reads_left = left;
                self.rest.read(buffer)
            }
            None => Err(io::ErrorKind::QuotaExceeded.into()),
        }
    }
}

/// Decodes a `T` from the front of `bytes`; returns it with the bytes behind it.
///
/// # Errors
///
/// [`TooLarge::MlsParts`] when it takes more than [`READS_MAX`] reads, `otherwise` when the bytes are
/// no `T`.
pub(super) fn decode<T: Deserialize>(
    bytes: &[u8],
    otherwise: Malformed,
) -> Result<(T, &[u8]), Error> {
    let mut reader = Counted {
        rest: bytes,
        reads_left: READS_MAX,
    };
    match T::tls_deserialize(&mut reader) {
        Ok(value) => Ok((value, reader.rest)),
        Err(_) if reader.reads_left == 0 => Err(TooLarge::MlsParts.into()),
        Err(_) => Err(otherwise.into()),
    }
}
