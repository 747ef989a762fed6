//! Makes [`CountBytes`] services; see the [module page](super).

use tower_layer::Layer;

use super::CountBytes;

/// Counts the bytes of both bodies of every request.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountBytesLayer;

impl<S> Layer<S> for CountBytesLayer {
    type Service = CountBytes<S>;

    fn layer(&self, inner: S) -> CountBytes<S> {
        CountBytes::new(inner)
    }
}
