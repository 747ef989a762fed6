//! The service of the preflight layer; see the [module page](super).

use std::task::{Context, Poll};

use http::{HeaderValue, Request, Response};
use tower_service::Service;

use super::answer::{is_preflight, preflight_headers};
use super::{PreflightBody, PreflightFuture};

/// Made by [`PreflightLayer`](super::PreflightLayer).
#[derive(Clone, Debug)]
pub struct Preflight<S> {
    inner: S,
    exposed: Option<HeaderValue>,
}

impl<S> Preflight<S> {
    pub(super) const fn new(inner: S, exposed: Option<HeaderValue>) -> Self {
        Self { inner, exposed }
    }
}

impl<S, B, R> Service<Request<B>> for Preflight<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<PreflightBody<R>>;
    type Error = S::Error;
    type Future = PreflightFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if is_preflight(request.method(), request.headers()) {
            return PreflightFuture::answered(preflight_headers(request.headers()));
        }
        PreflightFuture::passed_on(self.inner.call(request), self.exposed.clone())
    }
}
