//! Makes [`GrpcStatus`] services; see the [module page](super).

use tower_layer::Layer;

use super::GrpcStatus;

/// Notes the gRPC status of every response.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrpcStatusLayer;

impl<S> Layer<S> for GrpcStatusLayer {
    type Service = GrpcStatus<S>;

    fn layer(&self, inner: S) -> GrpcStatus<S> {
        GrpcStatus::new(inner)
    }
}
