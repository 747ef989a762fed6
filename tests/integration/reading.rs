//! Reads in as many words as a test needs.

use envelope::wire::xmtp::backend::v1::{
    ClientEnvelope, Cursor, EnvelopeMeta, QueryNewestRequest, QueryNewestResponse, QueryRequest,
    QueryResponse, Topic, TopicQuery,
};
use harness::TestServer;
use tonic::Status;

/// The topic message of these bytes.
pub(crate) fn topic(bytes: &[u8]) -> Topic {
    Topic {
        topic: bytes.to_vec().into(),
    }
}

/// The topic that a kind byte and an identifier make.
pub(crate) fn topic_bytes(kind: u8, identifier: &[u8]) -> Vec<u8> {
    [&[kind], identifier].concat()
}

/// A topic from after a sequence id on; 0 sends a cursor of 0.
pub(crate) fn after(topic_bytes: &[u8], sequence_id: u64) -> TopicQuery {
    TopicQuery {
        topic: Some(topic(topic_bytes)),
        cursor: Some(Cursor { sequence_id }),
    }
}

/// A request for pages of topics.
pub(crate) fn page_of(queries: Vec<TopicQuery>, limit: u32) -> QueryRequest {
    QueryRequest { queries, limit }
}

/// A request for the newest envelopes of topics.
pub(crate) fn newest_of(topics: &[&[u8]], include_full_envelope: bool) -> QueryNewestRequest {
    QueryNewestRequest {
        topics: topics.iter().map(|bytes| topic(bytes)).collect(),
        include_full_envelope,
    }
}

/// Queries over native gRPC.
pub(crate) async fn query(
    server: &TestServer,
    request: &QueryRequest,
) -> Result<QueryResponse, Status> {
    server.call("QueryService/Query", request).await
}

/// Asks for the newest envelopes over native gRPC.
pub(crate) async fn query_newest(
    server: &TestServer,
    request: &QueryNewestRequest,
) -> Result<QueryNewestResponse, Status> {
    server.call("QueryService/QueryNewest", request).await
}

/// Publishes, and answers the metadata.
pub(crate) async fn publish(
    server: &TestServer,
    envelopes: Vec<ClientEnvelope>,
) -> Vec<EnvelopeMeta> {
    let count = envelopes.len();
    let metas = server.publish(envelopes).await.expect("valid envelopes");
    assert_eq!(metas.envelope_metas.len(), count);
    metas.envelope_metas
}

/// The sequence id of a stored envelope.
pub(crate) fn id(meta: &EnvelopeMeta) -> u64 {
    meta.cursor.as_ref().expect("a cursor").sequence_id
}

/// The sequence ids of a page, in its order.
pub(crate) fn ids(page: &QueryResponse) -> Vec<u64> {
    page.envelopes
        .iter()
        .map(|envelope| id(envelope.meta.as_ref().expect("metadata")))
        .collect()
}

/// Whether a page says that there is more; the field that says so is always there (API-242).
pub(crate) fn has_more(page: &QueryResponse) -> bool {
    page.continuation
        .as_ref()
        .expect("a continuation, also on the last page")
        .has_more
}
