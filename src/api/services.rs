//! All services with their size limits, ready to be routed to.

use std::sync::Arc;

use tonic::service::Routes;

use super::configuration::ConfigurationApi;
use super::generated::grpc::health::v1::health_server::HealthServer;
use super::generated::xmtp::backend::v1::configuration_service_server::ConfigurationServiceServer;
use super::generated::xmtp::backend::v1::identity_service_server::IdentityServiceServer;
use super::generated::xmtp::backend::v1::publish_service_server::PublishServiceServer;
use super::generated::xmtp::backend::v1::query_service_server::QueryServiceServer;
use super::generated::xmtp::backend::v1::subscription_service_server::SubscriptionServiceServer;
use super::health::Health;
use super::identity::IdentityApi;
use super::publish::PublishApi;
use super::query::QueryApi;
use super::status::Statuses;
use super::subscription::SubscriptionApi;
use crate::config::Limits;
use crate::config::delivery::TRANSPORT_BYTES;
use crate::identity::Wallets;
use crate::metrics::Metrics;
use crate::publish::Publisher;
use crate::query::Queries;
use crate::streams::Streams;

/// What the services are made of.
pub struct Parts<'c> {
    /// Stores envelopes.
    pub publisher: Arc<Publisher>,
    /// Reads them.
    pub queries: Arc<Queries>,
    /// Follows them.
    pub streams: Streams,
    /// Asks contract wallets.
    pub wallets: Wallets,
    /// The public configuration.
    pub configuration: ConfigurationApi,
    /// Answers health checks.
    pub health: Health,
    /// Bounds on messages.
    pub limits: &'c Limits,
    /// Counts database failures.
    pub metrics: Arc<Metrics>,
}

/// Every service of the gRPC port.
///
/// Notifications are not served yet: like every path that nobody serves, theirs answer
/// `UNIMPLEMENTED`.
pub struct Services {
    routes: Routes,
}

impl Services {
    /// Bounds every message in both directions. Nothing is compressed (API-134, API-282).
    #[must_use]
    pub fn new(parts: Parts<'_>) -> Self {
        let Parts {
            publisher,
            queries,
            streams,
            wallets,
            configuration,
            health,
            limits,
            metrics,
        } = parts;
        let statuses = Statuses::new(metrics);
        let bytes = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        let request_bytes = bytes(limits.max_request_bytes);
        let response_bytes = bytes(limits.max_response_bytes);
        let transport_bytes = bytes(TRANSPORT_BYTES);
        macro_rules! bounded {
            ($server:ident, $service:expr, $response_bytes:expr) => {
                $server::new($service)
                    .max_decoding_message_size(request_bytes)
                    .max_encoding_message_size($response_bytes)
            };
        }
        let publish = PublishApi::new(publisher, statuses.clone());
        let query = QueryApi::new(Arc::clone(&queries), statuses.clone());
        let subscription = SubscriptionApi::new(streams, statuses.clone());
        let identity = IdentityApi::new(queries, wallets, statuses);
        let routes = Routes::new(bounded!(PublishServiceServer, publish, response_bytes))
            .add_service(bounded!(QueryServiceServer, query, response_bytes))
            .add_service(bounded!(SubscriptionServiceServer, subscription, response_bytes))
            .add_service(bounded!(IdentityServiceServer, identity, response_bytes))
            // These two answer within bounds of their own, and have to answer a deployment whose
            // response limit is tiny.
            .add_service(bounded!(ConfigurationServiceServer, configuration, transport_bytes))
            .add_service(bounded!(HealthServer, health, transport_bytes));
        Self { routes }
    }

    /// The services by path.
    #[must_use]
    pub fn routes(self) -> Routes {
        self.routes
    }
}
