//! `PublishService`.

use std::sync::Arc;

use bytes::Bytes;
use envelope::wire::xmtp::backend::v1::{PublishRequest, PublishResponse};
use tonic::{Request, Response, Status};

use super::generated::xmtp::backend::v1::publish_service_server::PublishService;
use super::status::Statuses;
use super::wire::{envelope_meta, hash_bytes};
use crate::publish::Publisher;

/// Serves `PublishService`.
pub(super) struct PublishApi {
    publisher: Arc<Publisher>,
    statuses: Statuses,
}

impl PublishApi {
    /// Publishes through this publisher.
    #[must_use]
    pub(super) fn new(publisher: Arc<Publisher>, statuses: Statuses) -> Self {
        Self {
            publisher,
            statuses,
        }
    }
}

#[tonic::async_trait]
impl PublishService for PublishApi {
    async fn publish(
        &self,
        request: Request<PublishRequest>,
    ) -> Result<Response<PublishResponse>, Status> {
        let published = self
            .publisher
            .publish(request.into_inner().envelopes)
            .await
            .map_err(|error| self.statuses.of_publish(&error))?;
        let hashes = hash_bytes(published.iter().map(|one| one.hash.as_bytes()));
        let envelope_metas = published
            .iter()
            .zip(hashes)
            .map(|(one, hash)| {
                envelope_meta(
                    Bytes::copy_from_slice(one.topic.as_bytes()),
                    hash,
                    &one.meta,
                )
            })
            .collect();
        Ok(Response::new(PublishResponse { envelope_metas }))
    }
}
