//! The service of the trace context layer; see the [module page](super). It needs no future of its
//! own: its work is done before the inner service is called.

use std::task::{Context, Poll};

use http::Request;
use tower_service::Service;

use super::TraceContext;

/// Made by [`TraceContextLayer`](super::TraceContextLayer).
#[derive(Clone, Debug)]
pub struct ReadTraceContext<S> {
    inner: S,
}

impl<S> ReadTraceContext<S> {
    pub(super) const fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S, B> Service<Request<B>> for ReadTraceContext<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if let Some(context) = TraceContext::from_headers(request.headers()) {
            request.extensions_mut().insert(context);
        }
        self.inner.call(request)
    }
}
