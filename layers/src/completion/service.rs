//! The service of the completion layer; see the [module page](super).

use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{CompletionBody, CompletionFuture, Finish, Observe};
use crate::body::EndGuard;
use crate::record::Record;

/// Made by [`CompletionLayer`](super::CompletionLayer).
#[derive(Clone, Copy, Debug)]
pub struct Completion<S, O> {
    inner: S,
    observe: O,
}

impl<S, O> Completion<S, O> {
    pub(super) const fn new(inner: S, observe: O) -> Self {
        Self { inner, observe }
    }
}

impl<S, O, B, R> Service<Request<B>> for Completion<S, O>
where
    S: Service<Request<B>, Response = Response<R>>,
    O: Observe,
    R: Body,
{
    type Response = Response<CompletionBody<R, O::Call>>;
    type Error = S::Error;
    type Future = CompletionFuture<S::Future, O::Call>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut head, body) = request.into_parts();
        let record = Record::of(&mut head.extensions);
        let call = self.observe.observe(&head);
        // Armed before the inner service runs: a panic in its call is an ending too.
        let guard = EndGuard::new(Finish::new(call, Arc::clone(&record)));
        CompletionFuture::new(
            self.inner.call(Request::from_parts(head, body)),
            guard,
            record,
        )
    }
}
