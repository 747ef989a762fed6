//! The service of the admission layer; see the [module page](super).

use std::mem;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::{AdmissionBody, AdmissionFuture, Attempt, Verify};

/// Made by [`AdmissionLayer`](super::AdmissionLayer).
#[derive(Clone, Copy, Debug)]
pub struct Admission<S, V> {
    inner: S,
    verify: Option<V>,
    public: &'static [&'static str],
}

impl<S, V> Admission<S, V> {
    pub(super) const fn new(inner: S, verify: Option<V>, public: &'static [&'static str]) -> Self {
        Self {
            inner,
            verify,
            public,
        }
    }
}

impl<S, V, B, R> Service<Request<B>> for Admission<S, V>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    V: Verify,
{
    type Response = Response<AdmissionBody<R>>;
    type Error = S::Error;
    type Future = AdmissionFuture<V::Future, S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let path = request.uri().path();
        let is_public = self.public.iter().any(|prefix| path.starts_with(prefix));
        let Some(verify) = self.verify.as_ref().filter(|_| !is_public) else {
            return AdmissionFuture::admitted(self.inner.call(request));
        };
        let (headers, extensions) = (request.headers(), request.extensions());
        let verdict = verify.verify(Attempt {
            path,
            headers,
            extensions,
        });
        // The service that was found ready is the one to call; its clone takes its place here.
        let next = self.inner.clone();
        AdmissionFuture::judging(verdict, request, mem::replace(&mut self.inner, next))
    }
}
