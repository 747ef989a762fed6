//! Makes [`SetRequestId`] services; see the [module page](super).

use tower_layer::Layer;

use super::SetRequestId;

/// Gives every request an id made here.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestIdLayer;

impl<S> Layer<S> for RequestIdLayer {
    type Service = SetRequestId<S>;

    fn layer(&self, inner: S) -> SetRequestId<S> {
        SetRequestId::new(inner)
    }
}
