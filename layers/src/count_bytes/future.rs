//! The future of the byte counting layer; see the [module page](super).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

use super::{CountedResponseBody, Emitted};
use crate::body::CountBody;
use crate::record::Record;

pin_project! {
    /// The inner response with a counted body.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct CountBytesFuture<F> {
        #[pin]
        inner: F,
        record: Arc<Record>,
    }
}

impl<F> CountBytesFuture<F> {
    pub(super) const fn new(inner: F, record: Arc<Record>) -> Self {
        Self { inner, record }
    }
}

impl<F, R, E> Future for CountBytesFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<CountedResponseBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.inner.poll(cx))?;
        let emitted = Emitted(Arc::clone(this.record));
        Poll::Ready(Ok(response.map(|body| CountBody::new(body, emitted))))
    }
}
