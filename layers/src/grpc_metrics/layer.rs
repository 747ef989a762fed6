//! Makes [`GrpcMetrics`] services; see the [module page](super).

use tower_layer::Layer;

use super::GrpcMetrics;

/// Counts gRPC requests by label.
#[derive(Clone, Copy, Debug)]
pub struct GrpcMetricsLayer<K, R> {
    classify: K,
    recorder: R,
}

impl<K, R> GrpcMetricsLayer<K, R> {
    /// A layer that labels by `classify`, a [`Classify`](super::Classify) such as a function, and
    /// counts with `recorder`, a [`Recorder`](super::Recorder).
    pub const fn new(classify: K, recorder: R) -> Self {
        Self { classify, recorder }
    }
}

impl<S, K: Clone, R: Clone> Layer<S> for GrpcMetricsLayer<K, R> {
    type Service = GrpcMetrics<S, K, R>;

    fn layer(&self, inner: S) -> GrpcMetrics<S, K, R> {
        GrpcMetrics::new(inner, self.classify.clone(), self.recorder.clone())
    }
}
