//! The future of the request id layer; see the [module page](super).

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

use super::{RequestId, X_REQUEST_ID};

pin_project! {
    /// The inner response with the id of its request.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct RequestIdFuture<F> {
        #[pin]
        inner: F,
        id: RequestId,
    }
}

impl<F> RequestIdFuture<F> {
    pub(super) const fn new(inner: F, id: RequestId) -> Self {
        Self { inner, id }
    }
}

impl<F, R, E> Future for RequestIdFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<R>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.inner.poll(cx))?;
        response
            .headers_mut()
            .insert(X_REQUEST_ID, this.id.header_value());
        Poll::Ready(Ok(response))
    }
}
