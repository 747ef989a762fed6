//! Makes [`ReadTraceContext`] services; see the [module page](super).

use tower_layer::Layer;

use super::ReadTraceContext;

/// Reads the W3C trace context into the request extensions.
#[derive(Clone, Copy, Debug, Default)]
pub struct TraceContextLayer;

impl<S> Layer<S> for TraceContextLayer {
    type Service = ReadTraceContext<S>;

    fn layer(&self, inner: S) -> ReadTraceContext<S> {
        ReadTraceContext::new(inner)
    }
}
