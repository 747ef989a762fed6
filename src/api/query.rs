//! `QueryService`.

use std::sync::Arc;

use bytes::Bytes;
use envelope::wire::xmtp::backend::v1::{
    Continuation, QueryNewestRequest, QueryRequest, Topic as TopicMessage, TopicQuery,
};
use tonic::{Request, Response, Status};

use super::generated::xmtp::backend::v1::query_service_server::QueryService;
use super::status::Statuses;
use super::wire::{
    NewestResult, QueryNewestResponse, QueryResponse, StoredEnvelope, envelope_meta, hash_bytes,
    topic_bytes,
};
use crate::query::{NewestAnswer, PageAnswer, Position, Queries};

/// Serves `QueryService`.
pub(super) struct QueryApi {
    queries: Arc<Queries>,
    statuses: Statuses,
}

impl QueryApi {
    /// Reads through these queries.
    #[must_use]
    pub(super) fn new(queries: Arc<Queries>, statuses: Statuses) -> Self {
        Self { queries, statuses }
    }
}

#[tonic::async_trait]
impl QueryService for QueryApi {
    async fn query(
        &self,
        request: Request<QueryRequest>,
    ) -> Result<Response<QueryResponse>, Status> {
        let QueryRequest { queries, limit } = request.into_inner();
        let positions = queries.into_iter().map(position).collect();
        let page = self
            .queries
            .page(positions, limit)
            .await
            .map_err(|error| self.statuses.of_query(&error))?;
        Ok(Response::new(page_response(page)))
    }

    async fn query_newest(
        &self,
        request: Request<QueryNewestRequest>,
    ) -> Result<Response<QueryNewestResponse>, Status> {
        let QueryNewestRequest {
            topics,
            include_full_envelope,
        } = request.into_inner();
        let topics = topics.into_iter().map(|message| message.topic).collect();
        let newest = self
            .queries
            .newest(topics, include_full_envelope)
            .await
            .map_err(|error| self.statuses.of_query(&error))?;
        Ok(Response::new(newest_response(newest)))
    }
}

/// An absent topic is an empty one, which is not well formed; an absent cursor is the start.
fn position(query: TopicQuery) -> Position {
    Position {
        topic: query.topic.unwrap_or_default().topic,
        after: query.cursor.unwrap_or_default().sequence_id,
    }
}

fn page_response(page: PageAnswer) -> QueryResponse {
    let PageAnswer {
        topics,
        rows,
        has_more,
    } = page;
    let topics = topic_bytes(&topics);
    let hashes = hash_bytes(rows.iter().map(|row| &row.hash));
    let envelopes = rows
        .into_iter()
        .zip(hashes)
        .map(|(row, hash)| StoredEnvelope {
            meta: Some(envelope_meta(
                topics[row.topic_index].clone(),
                hash,
                &row.meta,
            )),
            envelope: row.payload.into(),
        })
        .collect();
    QueryResponse {
        envelopes,
        continuation: Some(Continuation { has_more }),
    }
}

fn newest_response(newest: NewestAnswer) -> QueryNewestResponse {
    let NewestAnswer { topics, envelopes } = newest;
    let topics = topic_bytes(&topics);
    let results = envelopes
        .into_iter()
        .map(|newest| {
            let metadata = newest.metadata;
            let topic = topics[metadata.topic_index].clone();
            let hash = Bytes::copy_from_slice(&metadata.hash);
            NewestResult {
                meta: Some(envelope_meta(topic.clone(), hash, &metadata.meta)),
                topic: Some(TopicMessage { topic }),
                envelope: newest.payload.map(Into::into),
            }
        })
        .collect();
    QueryNewestResponse { results }
}
