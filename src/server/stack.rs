//! Every layer in front of the services, outermost first, and why it stands where it does.
//!
//! A request walks this list from top to bottom, its response from bottom to top. The layers that
//! are still to come have their places marked, so that the order is decided in one place.

use http::{Request, Response};
use hyper::body::Incoming;
use tonic::body::Body;
use tonic::service::Routes;
use tower::{Service, ServiceBuilder};

/// Puts the layers in front of the routes.
pub fn stack(
    routes: Routes,
) -> impl Service<
    Request<Incoming>,
    Response = Response<Body>,
    Error = std::convert::Infallible,
    Future: Send,
> + Clone
+ Send
+ 'static {
    ServiceBuilder::new()
        // Place of CORS preflight: answers browsers before anything is counted or refused.
        // Place of trace context: everything below runs inside the request's span.
        // Place of the request id: everything below can name the request.
        // Place of byte counting: sees gRPC-Web bodies as they travel, before translation.
        // Place of completion events and gRPC metrics: one clock, started before any refusal.
        // Place of admission: by path, before the drain gate, so that a bad credential is told so.
        // Place of the drain gate: refuses what arrives after shutdown began.
        //
        // Turns gRPC-Web of both forms into gRPC, and the answer back.
        .layer(tonic_web::GrpcWebLayer::new())
        // Place of status capture: below the translation, where trailers are still trailers.
        .service(routes.prepare())
}
