//! The service of the metrics layer; see the [module page](super).

use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{
    Classify, Consumed, GrpcMetricsFuture, Handled, MeteredRequestBody, MeteredResponseBody,
    Recorder, Series,
};
use crate::body::{CountBody, EndGuard};
use crate::record::Record;

/// Made by [`GrpcMetricsLayer`](super::GrpcMetricsLayer).
#[derive(Clone, Copy, Debug)]
pub struct GrpcMetrics<S, K, R> {
    inner: S,
    classify: K,
    recorder: R,
}

impl<S, K, R> GrpcMetrics<S, K, R> {
    pub(super) const fn new(inner: S, classify: K, recorder: R) -> Self {
        Self {
            inner,
            classify,
            recorder,
        }
    }
}

impl<S, K, R, B, A> Service<Request<B>> for GrpcMetrics<S, K, R>
where
    S: Service<Request<MeteredRequestBody<B, R::Series>>, Response = Response<A>>,
    K: Classify,
    R: Recorder<K::Labels>,
    A: Body,
{
    type Response = Response<MeteredResponseBody<A, R::Series>>;
    type Error = S::Error;
    type Future = GrpcMetricsFuture<S::Future, R::Series>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let record = Record::of(request.extensions_mut());
        let labels = self.classify.classify(request.uri().path());
        let series = labels.map(|labels| Arc::new(self.recorder.series(labels)));
        if let Some(series) = &series {
            series.started();
        }
        // Armed before the inner service runs: a panic in its call ends the request too.
        let guard = EndGuard::new(Handled {
            series: series.clone(),
            record,
        });
        let request = request.map(|body| CountBody::new(body, Consumed(series)));
        GrpcMetricsFuture::new(self.inner.call(request), guard)
    }
}
