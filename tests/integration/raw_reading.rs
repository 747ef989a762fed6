//! Reading as a careful client does: the bytes of every stored envelope, all pages of a Query, and
//! the detail of a refused publish.
//!
//! The answers here are decoded only as far as a test needs them: an envelope stays the bytes that
//! came over the wire, so that a server which decodes and encodes again cannot hide it (API-025).

use std::net::SocketAddr;

use bytes::Bytes;
use envelope::wire::xmtp::backend::v1::{
    Continuation, Cursor, EnvelopeMeta, PublishError, QueryRequest, Topic, TopicQuery,
    message_hash::Hash, publish_error,
};
use harness::Transport;
use prost::Message;
use tonic::{Code, Status};
use tonic_types::pb;

/// Pages after which a loop has gone wrong: no test reads more envelopes than this.
const PAGES_MAX: usize = 10_000;

/// `ServerEnvelope`, its envelope left as it came.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Stored {
    #[prost(message, optional, tag = "1")]
    pub(crate) meta: Option<EnvelopeMeta>,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) envelope: Bytes,
}

impl Stored {
    /// Its place in the log.
    pub(crate) fn sequence_id(&self) -> u64 {
        sequence_id(self.meta())
    }

    /// The bytes of its topic.
    pub(crate) fn topic(&self) -> Bytes {
        topic(self.meta())
    }

    fn meta(&self) -> &EnvelopeMeta {
        self.meta.as_ref().expect("metadata on every envelope")
    }
}

/// The sequence id of metadata, which always has one.
pub(crate) fn sequence_id(meta: &EnvelopeMeta) -> u64 {
    meta.cursor.expect("a cursor").sequence_id
}

/// The topic of metadata, which always has one.
pub(crate) fn topic(meta: &EnvelopeMeta) -> Bytes {
    let topic = meta.topic.as_ref().expect("a topic");
    topic.topic.clone()
}

/// The hash of metadata, which always has one.
pub(crate) fn hash(meta: &EnvelopeMeta) -> Bytes {
    let hash = meta.message_hash.as_ref().expect("a hash");
    let Hash::Sha256(hash) = hash.hash.as_ref().expect("a hash of a kind");
    hash.clone()
}

/// `QueryResponse`, its envelopes left as they came.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Page {
    #[prost(message, repeated, tag = "1")]
    pub(crate) envelopes: Vec<Stored>,
    #[prost(message, optional, tag = "2")]
    continuation: Option<Continuation>,
}

impl Page {
    /// Whether the server holds more; every answer says so.
    pub(crate) fn has_more(&self) -> bool {
        let continuation = self.continuation.as_ref();
        continuation.expect("a continuation").has_more
    }
}

/// A topic and the id after which to read it.
pub(crate) fn after(topic: impl Into<Bytes>, sequence_id: u64) -> TopicQuery {
    TopicQuery {
        topic: Some(Topic {
            topic: topic.into(),
        }),
        cursor: Some(Cursor { sequence_id }),
    }
}

/// One page.
pub(crate) async fn page(
    (address, transport): (SocketAddr, Transport),
    queries: Vec<TopicQuery>,
    limit: u32,
) -> Page {
    let request = QueryRequest { queries, limit };
    transport
        .call(address, "QueryService/Query", &request)
        .await
        .unwrap_or_else(|status| panic!("{transport:?}: {status}"))
}

/// Raises the cursor of every topic that a page has rows of, and leaves the others (ARC-062).
pub(crate) fn advance(queries: &mut [TopicQuery], page: &Page) {
    for stored in &page.envelopes {
        let topic = stored.topic();
        for query in &mut *queries {
            if query.topic.as_ref().is_some_and(|t| t.topic == topic) {
                let cursor = query.cursor.get_or_insert_default();
                cursor.sequence_id = cursor.sequence_id.max(stored.sequence_id());
            }
        }
    }
}

/// Everything on these topics from their beginnings, read by the loop of ARC-062.
pub(crate) async fn drain(
    server: (SocketAddr, Transport),
    topics: impl IntoIterator<Item = Bytes>,
    limit: u32,
) -> Vec<Stored> {
    let mut queries: Vec<_> = topics.into_iter().map(|topic| after(topic, 0)).collect();
    let mut drained = Vec::new();
    for _ in 0..PAGES_MAX {
        let page = page(server, queries.clone(), limit).await;
        assert!(page.envelopes.len() <= limit as usize);
        assert!(!page.has_more() || page.envelopes.len() == limit as usize);
        advance(&mut queries, &page);
        let has_more = page.has_more();
        drained.extend(page.envelopes);
        if !has_more {
            return drained;
        }
    }
    panic!("the log does not end");
}

/// Which envelope a publish was refused for, if for one, and why (API-150).
pub(crate) fn refusal(status: &Status) -> (Option<u32>, publish_error::Reason) {
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    let details = pb::Status::decode(status.details()).expect("a google.rpc.Status");
    let [detail] = &details.details[..] else {
        panic!("one detail");
    };
    assert_eq!(
        detail.type_url,
        "type.googleapis.com/xmtp.backend.v1.PublishError"
    );
    let error = PublishError::decode(&detail.value[..]).expect("a PublishError");
    assert_eq!(error.message, status.message());
    (error.index, error.reason())
}
