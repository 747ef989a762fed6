//! Answers that carry stored envelopes, and the turn from records to messages.
//!
//! On the wire a message field and a bytes field look the same: a length and that many bytes. So
//! the types here have the bytes of a stored envelope where the schema has the message, and a read
//! passes them through without decoding and encoding them again. The schema stays the contract; a
//! test compares the encodings.

use bytes::Bytes;
use envelope::wire::xmtp::backend::v1::message_hash::Hash;
use envelope::wire::xmtp::backend::v1::{
    Continuation, Cursor, EnvelopeMeta, MessageHash, Ping, Pong, Topic, subscribe_response,
    subscribe_static_response,
};

use crate::db::StoredMeta;

/// `xmtp.backend.v1.QueryResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct QueryResponse {
    /// Ascending on each topic.
    #[prost(message, repeated, tag = "1")]
    pub envelopes: Vec<StoredEnvelope>,
    /// Always present.
    #[prost(message, optional, tag = "2")]
    pub continuation: Option<Continuation>,
}

/// `xmtp.backend.v1.ServerEnvelope`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StoredEnvelope {
    /// Always present.
    #[prost(message, optional, tag = "1")]
    pub meta: Option<EnvelopeMeta>,
    /// The canonical encoding of a `ClientEnvelope`; never empty.
    #[prost(bytes = "bytes", tag = "2")]
    pub envelope: Bytes,
}

/// `xmtp.backend.v1.SubscribeResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SubscribeResponse {
    /// Always present.
    #[prost(oneof = "SubscribeFrame", tags = "1, 2, 3, 4, 5")]
    pub response: Option<SubscribeFrame>,
}

/// `xmtp.backend.v1.SubscribeResponse.response`.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum SubscribeFrame {
    /// The first frame.
    #[prost(message, tag = "1")]
    Started(subscribe_response::Started),
    /// The answer to one Update.
    #[prost(message, tag = "2")]
    Applied(subscribe_response::Applied),
    /// Envelopes.
    #[prost(message, tag = "3")]
    Messages(Messages),
    /// A question for a sign of life.
    #[prost(message, tag = "4")]
    Ping(Ping),
    /// The answer to the client's question.
    #[prost(message, tag = "5")]
    Pong(Pong),
}

/// `xmtp.backend.v1.SubscribeStaticResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SubscribeStaticResponse {
    /// Always present.
    #[prost(oneof = "SubscribeStaticFrame", tags = "1, 2, 3")]
    pub response: Option<SubscribeStaticFrame>,
}

/// `xmtp.backend.v1.SubscribeStaticResponse.response`.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum SubscribeStaticFrame {
    /// The first frame.
    #[prost(message, tag = "1")]
    Started(subscribe_static_response::Started),
    /// Envelopes.
    #[prost(message, tag = "2")]
    Messages(Messages),
    /// A sign of life.
    #[prost(message, tag = "3")]
    Keepalive(subscribe_static_response::Keepalive),
}

/// The `Messages` of both kinds of streams.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Messages {
    /// Ascending on each topic; never empty.
    #[prost(message, repeated, tag = "1")]
    pub envelopes: Vec<StoredEnvelope>,
}

/// `xmtp.backend.v1.QueryNewestResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct QueryNewestResponse {
    /// One per topic that has an envelope.
    #[prost(message, repeated, tag = "1")]
    pub results: Vec<NewestResult>,
}

/// `xmtp.backend.v1.QueryNewestResponse.Result`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NewestResult {
    /// Always present.
    #[prost(message, optional, tag = "1")]
    pub topic: Option<Topic>,
    /// Always present.
    #[prost(message, optional, tag = "2")]
    pub meta: Option<EnvelopeMeta>,
    /// The canonical encoding of a `ClientEnvelope`, when the request asked for it.
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub envelope: Option<Bytes>,
}

/// The complete metadata of a stored envelope (API-212).
pub(super) fn envelope_meta(topic: Bytes, hash: Bytes, meta: &StoredMeta) -> EnvelopeMeta {
    EnvelopeMeta {
        cursor: Some(Cursor {
            sequence_id: meta.sequence_id.to_wire(),
        }),
        server_ns: meta.server_ns.unsigned_abs(),
        message_hash: Some(MessageHash {
            hash: Some(Hash::Sha256(hash)),
        }),
        topic: Some(Topic { topic }),
        expiry_ns: meta.expiry_ns.unwrap_or_default().unsigned_abs(),
        is_commit_or_proposal: meta.is_commit_or_proposal,
    }
}

/// The bytes of each topic, for all the messages that name it.
pub(super) fn topic_bytes(topics: &[envelope::Topic]) -> Vec<Bytes> {
    topics
        .iter()
        .map(|topic| Bytes::copy_from_slice(topic.as_bytes()))
        .collect()
}

/// The bytes of each hash, all in one allocation.
pub(super) fn hash_bytes<'h>(hashes: impl Iterator<Item = &'h [u8; 32]>) -> Vec<Bytes> {
    let all = Bytes::from(hashes.flatten().copied().collect::<Vec<u8>>());
    (0..all.len())
        .step_by(32)
        .map(|start| all.slice(start..start + 32))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use envelope::wire::xmtp::backend::v1 as schema;
    use prost::Message as _;

    fn meta() -> EnvelopeMeta {
        EnvelopeMeta {
            cursor: Some(Cursor { sequence_id: 7 }),
            server_ns: 1_000,
            message_hash: Some(MessageHash {
                hash: Some(Hash::Sha256(vec![9; 32].into())),
            }),
            topic: Some(Topic {
                topic: vec![1; 33].into(),
            }),
            expiry_ns: 2_000,
            is_commit_or_proposal: true,
        }
    }

    fn client_envelope() -> schema::ClientEnvelope {
        schema::ClientEnvelope {
            payload: Some(schema::client_envelope::Payload::GroupMessage(
                schema::GroupMessage {
                    data: vec![1, 2, 3].into(),
                    sender_hmac: Bytes::new(),
                    should_push: true,
                },
            )),
        }
    }

    /// A client reads the schema's messages from what these types write (API-025).
    #[test]
    fn answers_encode_like_the_schema() {
        let bytes = Bytes::from(client_envelope().encode_to_vec());
        let page = QueryResponse {
            envelopes: vec![StoredEnvelope {
                meta: Some(meta()),
                envelope: bytes.clone(),
            }],
            continuation: Some(Continuation { has_more: true }),
        };
        let expected = schema::QueryResponse {
            envelopes: vec![schema::ServerEnvelope {
                meta: Some(meta()),
                envelope: Some(client_envelope()),
            }],
            continuation: Some(Continuation { has_more: true }),
        };
        assert_eq!(page.encode_to_vec(), expected.encode_to_vec());

        let topic = Some(Topic {
            topic: vec![1; 33].into(),
        });
        for (envelope, message) in [(Some(bytes), Some(client_envelope())), (None, None)] {
            let newest = QueryNewestResponse {
                results: vec![NewestResult {
                    topic: topic.clone(),
                    meta: Some(meta()),
                    envelope,
                }],
            };
            let expected = schema::QueryNewestResponse {
                results: vec![schema::query_newest_response::Result {
                    topic: topic.clone(),
                    meta: Some(meta()),
                    envelope: message,
                }],
            };
            assert_eq!(newest.encode_to_vec(), expected.encode_to_vec());
        }
    }
}
