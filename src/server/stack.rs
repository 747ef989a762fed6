//! Every layer in front of the services, outermost first, and why it stands where it does.
//!
//! A request walks this list from top to bottom, its response from bottom to top.

use std::sync::Arc;

use http::HeaderName;
use layers::admission::AdmissionLayer;
use layers::completion::CompletionLayer;
use layers::count_bytes::CountBytesLayer;
use layers::drain::{self, DrainHandle};
use layers::grpc_metrics::GrpcMetricsLayer;
use layers::grpc_status::GrpcStatusLayer;
use layers::preflight::PreflightLayer;
use layers::request_id::{RequestIdLayer, X_REQUEST_ID};
use layers::scope::ScopeLayer;
use layers::trace_context::TraceContextLayer;
use tonic::service::Routes;
use tonic_web::GrpcWebLayer;
use tower::ServiceBuilder;

use super::Serve;
use super::accounting::{Counting, complete, measured, open_span};
use super::admission::{Gatekeeper, PUBLIC};
use crate::auth::Authenticator;
use crate::metrics::Metrics;

/// Paths that are answered whatever happens: a balancer has to see that the server is stopping.
const ALWAYS_ANSWERED: &[&str] = &["/grpc.health.v1."];

/// Response headers that a page of another origin may read.
const EXPOSED_HEADERS: [HeaderName; 4] = [
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status-details-bin"),
    X_REQUEST_ID,
];

/// Puts the layers in front of the routes. The handle closes the drain gate.
///
/// Without an authenticator everybody is admitted, and no credential is read.
pub fn stack(
    routes: Routes,
    authenticator: Option<Arc<Authenticator>>,
    metrics: Arc<Metrics>,
    request_logger: bool,
) -> (impl Serve, DrainHandle) {
    let (drain, gate) = drain::gate(ALWAYS_ANSWERED);
    let gatekeeper = authenticator.map(|authenticator| Gatekeeper {
        authenticator,
        metrics: Arc::clone(&metrics),
    });
    let service = ServiceBuilder::new()
        // Answers a browser's preflight before it is counted, logged or refused, and lets pages of
        // other origins read every answer, refusals included.
        .layer(PreflightLayer::exposing(&EXPOSED_HEADERS))
        // Reads who caused the request, for the span below.
        .layer(TraceContextLayer)
        // Names the request, for everything below and for the caller.
        .layer(RequestIdLayer)
        // Opens the request's span: whatever is said below is said inside it.
        .layer(ScopeLayer::new(open_span))
        // Starts the clock, and tells once how the request ended. Outside the byte count, because a
        // body says that it is over together with its last frame.
        .layer(CompletionLayer::new(move |head: &_| complete(head, request_logger)))
        // Counts requests. Outside every refusal: a refused request is a request.
        .layer(GrpcMetricsLayer::new(measured, Counting(metrics)))
        // Counts bytes as they travel: outside the translation, where gRPC-Web trailers are body.
        .layer(CountBytesLayer)
        // Admits by path. Before the gate, so that a bad credential is told so, and before the
        // translation, which would answer 400 or 405 by itself.
        .layer(AdmissionLayer::new(gatekeeper, PUBLIC))
        // Refuses what arrives after shutdown began, and knows when nothing is left.
        .layer(drain)
        // Turns gRPC-Web of both forms into gRPC, and the answer back.
        .layer(GrpcWebLayer::new())
        // Notes the status where trailers are still trailers.
        .layer(GrpcStatusLayer)
        .service(routes.prepare());
    (service, gate)
}
