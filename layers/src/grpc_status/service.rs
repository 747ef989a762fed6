//! The service of the status layer; see the [module page](super).

use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{GrpcStatusBody, GrpcStatusFuture};
use crate::record::Record;

/// Made by [`GrpcStatusLayer`](super::GrpcStatusLayer).
#[derive(Clone, Copy, Debug)]
pub struct GrpcStatus<S> {
    inner: S,
}

impl<S> GrpcStatus<S> {
    pub(super) const fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S, B, R> Service<Request<B>> for GrpcStatus<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body,
{
    type Response = Response<GrpcStatusBody<R>>;
    type Error = S::Error;
    type Future = GrpcStatusFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let record = Record::of(request.extensions_mut());
        GrpcStatusFuture::new(self.inner.call(request), record)
    }
}
