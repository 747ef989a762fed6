//! The service of the byte counting layer; see the [module page](super).

use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::{Consumed, CountBytesFuture, CountedRequestBody, CountedResponseBody};
use crate::body::CountBody;
use crate::record::Record;

/// Made by [`CountBytesLayer`](super::CountBytesLayer).
#[derive(Clone, Copy, Debug)]
pub struct CountBytes<S> {
    inner: S,
}

impl<S> CountBytes<S> {
    pub(super) const fn new(inner: S) -> Self {
        Self { inner }
    }
}

impl<S, B, R> Service<Request<B>> for CountBytes<S>
where
    S: Service<Request<CountedRequestBody<B>>, Response = Response<R>>,
{
    type Response = Response<CountedResponseBody<R>>;
    type Error = S::Error;
    type Future = CountBytesFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let record = Record::of(request.extensions_mut());
        let consumed = Consumed(Arc::clone(&record));
        let request = request.map(|body| CountBody::new(body, consumed));
        CountBytesFuture::new(self.inner.call(request), record)
    }
}
