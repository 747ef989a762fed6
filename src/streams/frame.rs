//! What travels on a stream, as records: the API room turns them into messages.

use std::sync::Arc;

use bytes::Bytes;
use prost::encoding::encoded_len_varint;

use crate::config::delivery::ENVELOPE_ALLOWANCE_BYTES;
use crate::db::{SequenceId, StoredMeta};

/// A frame that a client sent on a bidirectional stream.
#[derive(Clone, Debug)]
pub enum ClientFrame {
    /// A change of interest.
    Update(Update),
    /// Asks whether the server is there.
    Ping(u64),
    /// Answers a Ping of the server.
    Pong(u64),
    /// A frame of no kind that this server knows.
    Unset,
    /// Bytes that are no frame. The transport has its own words for what is wrong with them.
    Unreadable,
    /// The connection broke.
    Lost,
}

/// A change of interest, as it was sent.
#[derive(Clone, Debug, Default)]
pub struct Update {
    /// Greater than every earlier id of the stream.
    pub id: u64,
    /// Topics to add.
    pub adds: Vec<Add>,
    /// Topics to remove.
    pub removes: Vec<Bytes>,
}

/// A topic to follow, as it was sent.
#[derive(Clone, Debug)]
pub struct Add {
    /// The topic.
    pub topic: Bytes,
    /// Exclusive start.
    pub after: u64,
}

/// How far a topic's history reached when it was registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The topic.
    pub topic: Bytes,
    /// Its newest id then, [`SequenceId::START`] if it was empty.
    pub through: SequenceId,
}

/// An envelope on its way to subscribers. One copy serves all of them (ARC-073).
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Its topic.
    pub topic: Bytes,
    /// SHA-256 of the payload.
    pub hash: Bytes,
    /// The rest of its metadata.
    pub meta: StoredMeta,
    /// The canonical encoding.
    pub payload: Bytes,
}

impl Delivery {
    /// At least as many bytes as the envelope takes inside a frame, metadata and framing included.
    pub(super) fn bytes(&self) -> u64 {
        delivered_bytes(length(self.payload.len()))
    }

    pub(super) fn id(&self) -> SequenceId {
        self.meta.sequence_id
    }
}

/// [`Delivery::bytes`] of a payload of this length (ARC-079).
pub(super) fn delivered_bytes(payload_bytes: u64) -> u64 {
    payload_bytes.saturating_add(ENVELOPE_ALLOWANCE_BYTES)
}

/// A frame for a subscriber.
#[derive(Clone, Debug)]
pub enum Frame {
    /// The first one. A static stream has all its targets here.
    Started {
        /// The interval of keepalives, milliseconds.
        keepalive_interval_ms: u32,
        /// One per requested topic of a static stream, in request order.
        targets: Vec<Target>,
    },
    /// Answers an Update.
    Applied {
        /// The Update's id.
        id: u64,
        /// One per topic that it newly registered, in the order it added them.
        targets: Vec<Target>,
    },
    /// Envelopes, ascending per topic; never empty.
    Messages(Vec<Arc<Delivery>>),
    /// Asks a bidirectional client whether it is there.
    Ping(u64),
    /// Answers its Ping.
    Pong(u64),
    /// Tells the client of a static stream that the server is there.
    Keepalive,
}

impl Frame {
    /// The length of the encoded message; at least that, for [`Frame::Messages`].
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Started {
                keepalive_interval_ms,
                targets,
            } => field(integer(u64::from(*keepalive_interval_ms)) + targets_bytes(targets)),
            Self::Applied { id, targets } => field(integer(*id) + targets_bytes(targets)),
            Self::Messages(deliveries) => deliveries.iter().map(|delivery| delivery.bytes()).sum(),
            Self::Ping(nonce) | Self::Pong(nonce) => field(integer(*nonce)),
            Self::Keepalive => field(0),
        }
    }
}

fn targets_bytes(targets: &[Target]) -> u64 {
    let target = |target: &Target| {
        let topic = field(length(target.topic.len()));
        field(field(topic) + integer(target.through.to_wire()))
    };
    targets.iter().map(target).sum()
}

/// Bytes of a field with a length and so many bytes of content. All field numbers here take one.
fn field(content_bytes: u64) -> u64 {
    1 + length(encoded_len_varint(content_bytes)) + content_bytes
}

/// Bytes of an integer field, which is not written for zero.
fn integer(value: u64) -> u64 {
    if value == 0 {
        0
    } else {
        1 + length(encoded_len_varint(value))
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
