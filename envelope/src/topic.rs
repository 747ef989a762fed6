//! Topics: which log of the backend an envelope belongs to.
//!
//! A topic is one kind byte followed by an identifier whose length the kind fixes, and nothing
//! else. Publishers never send one; it is derived from the payload (ARC-010). Readers name one, and
//! [`Topic::parse`] is the only way in for those bytes.
//!
//! Topic bytes say who talks to whom. They must never reach a log, so `Debug` prints the kind only
//! (ARC-101).

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};

use thiserror::Error;

/// Length in bytes of an MLS group id.
pub const GROUP_ID_BYTES: usize = 16;

/// Length in bytes of an installation key, an inbox id, or the random destination of a welcome.
pub const KEY_BYTES: usize = 32;

/// Length in bytes of the longest topic.
pub const TOPIC_BYTES_MAX: usize = 1 + KEY_BYTES;

/// What the envelopes of a topic are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum TopicKind {
    /// Group messages of one MLS group.
    GroupMessage = 0,
    /// Welcomes for one installation, or for one random destination.
    Welcome = 1,
    /// Identity updates of one inbox.
    IdentityUpdate = 2,
    /// Key packages of one installation.
    KeyPackage = 3,
    /// Commit-log entries of one MLS group.
    CommitLogEntry = 4,
}

impl TopicKind {
    /// Every kind, in the order of their bytes.
    pub const ALL: [Self; 5] = [
        Self::GroupMessage,
        Self::Welcome,
        Self::IdentityUpdate,
        Self::KeyPackage,
        Self::CommitLogEntry,
    ];

    /// The kind that a topic's first byte names, if any.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.byte() == byte)
    }

    /// The first byte of every topic of this kind.
    #[must_use]
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// Length in bytes of the identifiers of this kind: 16 or 32.
    #[must_use]
    pub const fn identifier_bytes(self) -> usize {
        match self {
            Self::GroupMessage | Self::CommitLogEntry => GROUP_ID_BYTES,
            Self::Welcome | Self::IdentityUpdate | Self::KeyPackage => KEY_BYTES,
        }
    }

    /// Length in bytes of the topics of this kind: 17 or 33.
    #[must_use]
    pub const fn topic_bytes(self) -> usize {
        1 + self.identifier_bytes()
    }
}

/// Why bytes are not a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TopicError {
    /// There are no bytes at all.
    #[error("topic is empty")]
    Empty,
    /// The first byte names no kind.
    #[error("topic kind is unknown")]
    UnknownKind,
    /// The identifier is longer or shorter than the kind demands.
    #[error("topic identifier has the wrong length")]
    WrongLength {
        /// The kind that the first byte names.
        kind: TopicKind,
    },
}

/// The address of one log: a kind byte and an identifier of the length that the kind fixes.
///
/// A value of this type is always well formed. It is small, `Copy`, and compares, orders and hashes
/// as its bytes do, so a map keyed by topics can be searched with a byte slice.
#[derive(Clone, Copy)]
pub struct Topic {
    kind: TopicKind,
    /// The kind byte and the identifier; bytes past the topic's length are zero and never shown.
    bytes: [u8; TOPIC_BYTES_MAX],
}

impl Topic {
    /// Reads a topic that a request names.
    ///
    /// # Errors
    ///
    /// [`TopicError`] unless the kind is known and the identifier has exactly its length.
    pub fn parse(bytes: &[u8]) -> Result<Self, TopicError> {
        let (kind, identifier) = bytes.split_first().ok_or(TopicError::Empty)?;
        let kind = TopicKind::from_byte(*kind).ok_or(TopicError::UnknownKind)?;
        Self::new(kind, identifier)
    }

    /// The topic of an identifier.
    ///
    /// # Errors
    ///
    /// [`TopicError::WrongLength`] unless the identifier has exactly the length of its kind.
    pub fn new(kind: TopicKind, identifier: &[u8]) -> Result<Self, TopicError> {
        if identifier.len() != kind.identifier_bytes() {
            return Err(TopicError::WrongLength { kind });
        }
        let mut bytes = [0; TOPIC_BYTES_MAX];
        bytes[0] = kind.byte();
        bytes[1..=identifier.len()].copy_from_slice(identifier);
        Ok(Self { kind, bytes })
    }

    /// What the envelopes of this topic are.
    #[must_use]
    pub fn kind(&self) -> TopicKind {
        self.kind
    }

    /// The kind byte and the identifier, 17 or 33 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.kind.topic_bytes()]
    }

    /// The identifier without the kind byte, 16 or 32 bytes.
    #[must_use]
    pub fn identifier(&self) -> &[u8] {
        &self.as_bytes()[1..]
    }
}

impl TryFrom<&[u8]> for Topic {
    type Error = TopicError;

    fn try_from(bytes: &[u8]) -> Result<Self, TopicError> {
        Self::parse(bytes)
    }
}

impl AsRef<[u8]> for Topic {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

// Equality, order and hash are those of the byte slice, which `Borrow` demands.
impl Borrow<[u8]> for Topic {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl PartialEq for Topic {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Topic {}

impl PartialOrd for Topic {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Topic {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Topic {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topic")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Limits of every kind: its exact length is a topic, one byte less or more is not.
    #[test]
    fn only_the_exact_length_of_a_kind_is_a_topic() {
        for kind in TopicKind::ALL {
            let bytes = [kind.byte(); TOPIC_BYTES_MAX + 1];
            let length = kind.topic_bytes();
            let topic = Topic::parse(&bytes[..length]).unwrap();
            assert_eq!(topic.kind(), kind);
            assert_eq!(topic.as_bytes(), &bytes[..length]);
            assert_eq!(topic.identifier(), &bytes[1..length]);
            for wrong in [1, length - 1, length + 1] {
                assert_eq!(
                    Topic::parse(&bytes[..wrong]),
                    Err(TopicError::WrongLength { kind })
                );
            }
        }
    }

    /// Bytes without a known kind are refused whatever their length (case 29).
    #[test]
    fn unknown_kinds_and_empty_topics_are_refused() {
        assert_eq!(Topic::parse(&[]), Err(TopicError::Empty));
        for kind in [5, 127, 255] {
            for length in [1, 17, 33] {
                assert_eq!(
                    Topic::parse(&vec![kind; length]),
                    Err(TopicError::UnknownKind)
                );
            }
        }
        assert_eq!(
            Topic::parse(&[0; 33]),
            Err(TopicError::WrongLength {
                kind: TopicKind::GroupMessage
            })
        );
    }

    /// A map keyed by topics answers for plain bytes, which needs equal hashes (ARC-010).
    #[test]
    fn a_topic_hashes_and_orders_as_its_bytes() {
        let group = Topic::new(TopicKind::GroupMessage, &[0xff; 16]).unwrap();
        let welcome = Topic::new(TopicKind::Welcome, &[0; 32]).unwrap();
        let map = HashMap::from([(group, 1), (welcome, 2)]);
        assert_eq!(map.get(group.as_bytes()), Some(&1));
        assert_eq!(map.get(welcome.as_bytes()), Some(&2));
        assert!(group < welcome);
        assert!(group.as_bytes() < welcome.as_bytes());
    }

    /// What reaches a log names the kind and not the identifier (ARC-101).
    #[test]
    fn debug_output_hides_the_identifier() {
        let topic = Topic::new(TopicKind::Welcome, &[0xab; 32]).unwrap();
        assert_eq!(format!("{topic:?}"), "Topic { kind: Welcome, .. }");
    }
}
