//! Signatures that say how to deploy their wallet first (ERC-6492).
//!
//! The wrapper is `abi.encode(address, bytes, bytes)` and a word that no other signature ends in.
//! Untrusted bytes: every offset and length is checked against the bytes that are there, and nothing
//! is copied.

use super::Address;

/// The word that a wrapped signature ends in.
const SUFFIX: [u8; WORD] = {
    let mut suffix = [0x64; WORD];
    let mut index = 1;
    while index < WORD {
        suffix[index] = 0x92;
        index += 2;
    }
    suffix
};

const WORD: usize = 32;

/// What a signature is wrapped in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrapper<'a> {
    /// It is not wrapped.
    None,
    /// It ends like a wrapper and is none, or names no factory.
    Malformed,
    /// It is wrapped.
    Wrapped {
        /// Who deploys the wallet.
        factory: Address,
        /// What to call the factory with.
        deployment: &'a [u8],
        /// The signature for the wallet.
        inner: &'a [u8],
    },
}

/// Takes a signature out of its wrapper, if it has one.
pub(super) fn unwrap(signature: &[u8]) -> Wrapper<'_> {
    match signature.split_last_chunk::<WORD>() {
        Some((wrapped, suffix)) if *suffix == SUFFIX => {
            arguments(wrapped).unwrap_or(Wrapper::Malformed)
        }
        Some(_) | None => Wrapper::None,
    }
}

fn arguments(encoded: &[u8]) -> Option<Wrapper<'_>> {
    let (padding, factory) = word(encoded, 0)?.split_last_chunk::<20>()?;
    if padding.iter().any(|byte| *byte != 0) || *factory == Address::default() {
        return None;
    }
    Some(Wrapper::Wrapped {
        factory: *factory,
        deployment: bytes(encoded, WORD)?,
        inner: bytes(encoded, 2 * WORD)?,
    })
}

/// The byte string whose offset stands at `head`.
fn bytes(encoded: &[u8], head: usize) -> Option<&[u8]> {
    let start = number(encoded, head)?;
    let length = number(encoded, start)?;
    let content = encoded.get(start.checked_add(WORD)?..)?;
    content.get(..length)
}

/// The number at `place`. One that is larger than any memory cannot be an offset or a length.
fn number(encoded: &[u8], place: usize) -> Option<usize> {
    let (high, low) = word(encoded, place)?.split_last_chunk()?;
    let is_small = high.iter().all(|byte| *byte == 0);
    is_small.then(|| usize::from_be_bytes(*low))
}

fn word(encoded: &[u8], place: usize) -> Option<&[u8]> {
    encoded.get(place..place.checked_add(WORD)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number_word(number: u64) -> [u8; WORD] {
        let mut word = [0; WORD];
        word[WORD - 8..].copy_from_slice(&number.to_be_bytes());
        word
    }

    /// `abi.encode(22×20, "deploy", "inner")` with the suffix.
    fn wrapped() -> Vec<u8> {
        [
            &[0; 12][..],
            &[0x22; 20],
            &number_word(0x60),
            &number_word(0xa0),
            &number_word(6),
            b"deploy",
            &[0; 26],
            &number_word(5),
            b"inner",
            &[0; 27],
            &SUFFIX,
        ]
        .concat()
    }

    fn edited(edit: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = wrapped();
        edit(&mut bytes);
        bytes
    }

    /// Goal: what `abi.encode` makes is read, and what the decoder of a contract reads beside it:
    /// parts in any order, without padding.
    #[test]
    fn wrappers_are_read_as_contracts_read_them() {
        let expected = Wrapper::Wrapped {
            factory: [0x22; 20],
            deployment: b"deploy",
            inner: b"inner",
        };
        assert_eq!(unwrap(&wrapped()), expected);
        let unpadded = edited(|bytes| {
            let end = bytes.len() - WORD;
            bytes.drain(end - 27..end);
        });
        assert_eq!(unwrap(&unpadded), expected);
        let same_twice =
            edited(|bytes| bytes[2 * WORD..3 * WORD].copy_from_slice(&number_word(0x60)));
        assert_eq!(
            unwrap(&same_twice),
            Wrapper::Wrapped {
                factory: [0x22; 20],
                deployment: b"deploy",
                inner: b"deploy",
            }
        );
    }

    /// What does not end in the suffix is a signature like any other, however it begins.
    #[test]
    fn other_signatures_are_not_wrapped() {
        for signature in [
            vec![],
            SUFFIX[1..].to_vec(),
            edited(|bytes| bytes.push(0)),
            edited(|bytes| *bytes.last_mut().unwrap() ^= 1),
        ] {
            assert_eq!(unwrap(&signature), Wrapper::None);
        }
    }

    /// A wrapper that points outside itself, or names no factory, is none (case 129).
    #[test]
    fn broken_wrappers_are_malformed() {
        let set = |place: usize, word: [u8; WORD]| {
            edited(move |bytes| bytes[place..place + WORD].copy_from_slice(&word))
        };
        let length = wrapped().len() as u64;
        let cases = [
            ("only the suffix", SUFFIX.to_vec()),
            ("no factory", set(0, [0; WORD])),
            ("a dirty address", edited(|bytes| bytes[11] = 1)),
            (
                "an offset at the suffix",
                set(WORD, number_word(length - 32)),
            ),
            ("an offset past the end", set(WORD, number_word(length))),
            ("a length past the suffix", set(0xa0, number_word(0x21))),
            ("an offset of 64 bits", set(WORD, number_word(u64::MAX))),
            ("an offset of 256 bits", set(2 * WORD, [0xff; WORD])),
            ("a length of 64 bits", set(0x60, number_word(u64::MAX))),
        ];
        for (claim, signature) in cases {
            assert_eq!(unwrap(&signature), Wrapper::Malformed, "{claim}");
        }
    }
}
