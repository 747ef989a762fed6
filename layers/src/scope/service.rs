//! The service of the scope layer; see the [module page](super).

use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::{Open, Scope, ScopeBody, ScopeFuture};

/// Made by [`ScopeLayer`](super::ScopeLayer).
#[derive(Clone, Copy, Debug)]
pub struct Scoped<S, O> {
    inner: S,
    open: O,
}

impl<S, O> Scoped<S, O> {
    pub(super) const fn new(inner: S, open: O) -> Self {
        Self { inner, open }
    }
}

impl<S, O, B, R> Service<Request<B>> for Scoped<S, O>
where
    S: Service<Request<B>, Response = Response<R>>,
    O: Open,
{
    type Response = Response<ScopeBody<R, O::Scope>>;
    type Error = S::Error;
    type Future = ScopeFuture<S::Future, O::Scope>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut head, body) = request.into_parts();
        let scope = self.open.open(&head);
        head.extensions.insert(scope.clone());
        let inner = {
            let _entered = scope.enter();
            self.inner.call(Request::from_parts(head, body))
        };
        ScopeFuture::new(inner, scope)
    }
}
