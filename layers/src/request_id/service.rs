//! The service of the request id layer; see the [module page](super).

use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::{RequestId, RequestIdFuture, X_REQUEST_ID};

/// Made by [`RequestIdLayer`](super::RequestIdLayer).
#[derive(Clone, Debug)]
pub struct SetRequestId<S> {
    inner: S,
}

impl<S> SetRequestId<S> {
    pub(super) const fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S, B, R> Service<Request<B>> for SetRequestId<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = RequestIdFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let id = RequestId::fresh();
        request.headers_mut().remove(X_REQUEST_ID);
        request.extensions_mut().insert(id);
        RequestIdFuture::new(self.inner.call(request), id)
    }
}
