//! What decoding a message will allocate, counted on its bytes before anything is allocated.
//!
//! Two bytes on the wire can be an empty element of a list, and an element of a list takes as much
//! memory as its type does. Whoever decodes the bytes of strangers therefore weighs them first
//! ([`check`]) and refuses what would grow far beyond its length. The scan reads each byte at most
//! once, allocates nothing, knows every list of the schema because it is generated from it, and
//! judges nothing else: of bytes that do not decode it weighs the part in front of the fault
//! (ARC-010).

use std::mem::size_of;

use bytes::Bytes;
use thiserror::Error;

/// How many bytes of memory each byte on the wire may become. The heaviest element that a client
/// has reason to send, a push subscription without keys, becomes 3.4 times its length.
pub const BYTES_PER_ENCODED_BYTE: usize = 4;

/// How many bytes of memory a message of any length may become, so that short messages of small
/// elements are judged by what they say.
pub const FREE_BYTES: usize = 1 << 20;

/// What the allocator adds to each allocation.
const ALLOCATION: usize = 16;

/// The message would take far more memory than it is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("message has too many elements for its length")]
pub struct TooHeavy;

/// A message whose weight can be told from its bytes: every message of the schema.
pub trait Shaped {
    /// The shape of the message.
    const SHAPE: &'static Shape;
}

/// What the parts of one message allocate.
#[derive(Debug)]
pub struct Shape {
    /// Size of the decoded message itself.
    bytes: usize,
    /// The fields that allocate or hold messages, by number.
    fields: &'static [(u32, Holds)],
}

/// What one occurrence of a field allocates.
#[derive(Clone, Copy, Debug)]
pub enum Holds {
    /// A message in place.
    Inline(&'static Shape),
    /// A message in an allocation of its own.
    Boxed(&'static Shape),
    /// A message in a list.
    Element(&'static Shape),
    /// A text.
    Text,
    /// A text in a list.
    Strings,
    /// A byte string in a list. The bytes themselves stay where they arrived.
    ByteStrings,
    /// Numbers in a list, one or packed.
    Numbers,
}

impl Shape {
    /// The shape of `M` with these fields; fields that allocate nothing may be left out.
    #[must_use]
    pub const fn new<M>(fields: &'static [(u32, Holds)]) -> Self {
        Self {
            bytes: size_of::<M>(),
            fields,
        }
    }

    fn holds(&self, number: u32) -> Option<Holds> {
        let found = self.fields.iter().find(|(known, _)| *known == number);
        found.map(|(_, holds)| *holds)
    }
}

include!(concat!(env!("OUT_DIR"), "/shapes.rs"));

/// Refuses bytes that would decode to more than [`BYTES_PER_ENCODED_BYTE`] times their length plus
/// [`FREE_BYTES`].
///
/// # Errors
///
/// [`TooHeavy`]. Bytes that do not decode may pass: decoding them fails after at most that much.
pub fn check<M: Shaped>(encoding: &[u8]) -> Result<(), TooHeavy> {
    let limit = encoding
        .len()
        .saturating_mul(BYTES_PER_ENCODED_BYTE)
        .saturating_add(FREE_BYTES);
    if weigh_within::<M>(encoding, limit) > limit {
        Err(TooHeavy)
    } else {
        Ok(())
    }
}

/// The bytes of memory that decoding `encoding` allocates, without the bytes that stay in place.
#[must_use]
pub fn weigh<M: Shaped>(encoding: &[u8]) -> usize {
    weigh_within::<M>(encoding, usize::MAX)
}

fn weigh_within<M: Shaped>(encoding: &[u8], limit: usize) -> usize {
    let mut scales = Scales { weight: 0, limit };
    // Where the scan stopped does not matter here: decoding stops there too.
    let _ = scales.message(M::SHAPE, encoding);
    scales.weight
}

/// The scan has gone as far as it goes: the bytes are faulty from here on, or too heavy already.
struct Stop;

struct Scales {
    weight: usize,
    limit: usize,
}

impl Scales {
    fn add(&mut self, bytes: usize) -> Result<(), Stop> {
        self.weight = self.weight.saturating_add(bytes);
        if self.weight > self.limit {
            Err(Stop)
        } else {
            Ok(())
        }
    }

    /// Recursion ends with the schema, in which no message contains itself.
    fn message(&mut self, shape: &Shape, bytes: &[u8]) -> Result<(), Stop> {
        let mut reader = Reader { rest: bytes };
        while !reader.rest.is_empty() {
            let (number, form) = reader.key()?;
            let value = reader.value(form)?;
            if let Some(holds) = shape.holds(number) {
                self.field(holds, value)?;
            }
        }
        Ok(())
    }

    fn field(&mut self, holds: Holds, value: Option<&[u8]>) -> Result<(), Stop> {
        match (holds, value) {
            (Holds::Inline(shape), Some(bytes)) => self.message(shape, bytes),
            (Holds::Boxed(shape), Some(bytes)) => {
                self.add(shape.bytes + ALLOCATION)?;
                self.message(shape, bytes)
            }
            (Holds::Element(shape), Some(bytes)) => {
                self.add(shape.bytes)?;
                self.message(shape, bytes)
            }
            (Holds::Text, Some(bytes)) => self.add(text(bytes)),
            (Holds::Strings, Some(bytes)) => self.add(size_of::<String>() + text(bytes)),
            (Holds::ByteStrings, Some(_)) => self.add(size_of::<Bytes>()),
            // A packed number has one byte at least.
            (Holds::Numbers, Some(bytes)) => self.add(bytes.len().saturating_mul(size_of::<u64>())),
            (Holds::Numbers, None) => self.add(size_of::<u64>()),
            // A field that is no length and bytes, where one must be: the decoder refuses it.
            (
                Holds::Inline(_)
                | Holds::Boxed(_)
                | Holds::Element(_)
                | Holds::Text
                | Holds::Strings
                | Holds::ByteStrings,
                None,
            ) => Err(Stop),
        }
    }
}

fn text(bytes: &[u8]) -> usize {
    if bytes.is_empty() {
        0
    } else {
        bytes.len().saturating_add(ALLOCATION)
    }
}

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Varint,
    EightBytes,
    Delimited,
    GroupStart,
    GroupEnd,
    FourBytes,
}

/// A position in an encoding.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn varint(&mut self) -> Result<u64, Stop> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(Stop)?;
            self.rest = rest;
            // The tenth byte has one bit of use; more of them are the decoder's to refuse.
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Stop)
    }

    fn key(&mut self) -> Result<(u32, Form), Stop> {
        let key = u32::try_from(self.varint()?).map_err(|_| Stop)?;
        let form = match key & 7 {
            0 => Form::Varint,
            1 => Form::EightBytes,
            2 => Form::Delimited,
            3 => Form::GroupStart,
            4 => Form::GroupEnd,
            5 => Form::FourBytes,
            _ => return Err(Stop),
        };
        Ok((key >> 3, form))
    }

    fn skip(&mut self, bytes: u64) -> Result<&'a [u8], Stop> {
        let bytes = usize::try_from(bytes).map_err(|_| Stop)?;
        let (skipped, rest) = self.rest.split_at_checked(bytes).ok_or(Stop)?;
        self.rest = rest;
        Ok(skipped)
    }

    /// Passes over a value, and returns its bytes if it has a length.
    fn value(&mut self, form: Form) -> Result<Option<&'a [u8]>, Stop> {
        match form {
            Form::Varint => self.varint().map(|_| None),
            Form::EightBytes => self.skip(8).map(|_| None),
            Form::FourBytes => self.skip(4).map(|_| None),
            Form::Delimited => {
                let length = self.varint()?;
                self.skip(length).map(Some)
            }
            Form::GroupStart => self.group().map(|()| None),
            Form::GroupEnd => Err(Stop),
        }
    }

    /// Passes over a group, whatever is in it. The schema has none.
    fn group(&mut self) -> Result<(), Stop> {
        let mut depth = 1_usize;
        while depth > 0 {
            match self.key()?.1 {
                Form::GroupStart => depth = depth.saturating_add(1),
                Form::GroupEnd => depth -= 1,
                form @ (Form::Varint | Form::EightBytes | Form::Delimited | Form::FourBytes) => {
                    self.value(form)?;
                }
            }
        }
        Ok(())
    }
}
