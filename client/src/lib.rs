//! The generated gRPC client of the backend: what tests, tools and benchmarks talk to it with.
//!
//! Messages are those of [`envelope::wire`]; only the service stubs are made here. Nothing in the
//! server depends on this crate.

#[expect(
    missing_docs,
    unreachable_pub,
    unused_qualifications,
    reason = "generated from the schema files, which carry the documentation"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/client.rs"));
}

pub use generated::grpc::health::v1 as health;
pub use generated::xmtp::backend::v1::{
    configuration_service_client::ConfigurationServiceClient,
    identity_service_client::IdentityServiceClient,
    notification_service_client::NotificationServiceClient,
    publish_service_client::PublishServiceClient, query_service_client::QueryServiceClient,
    subscription_service_client::SubscriptionServiceClient,
};
