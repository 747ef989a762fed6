//! The future of the status layer; see the [module page](super).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use super::{Capture, GrpcStatusBody};
use crate::body::EndBody;
use crate::record::Record;

pin_project! {
    /// The inner response, its status noted now or when its trailers pass.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct GrpcStatusFuture<F> {
        #[pin]
        inner: F,
        record: Arc<Record>,
    }
}

impl<F> GrpcStatusFuture<F> {
    pub(super) const fn new(inner: F, record: Arc<Record>) -> Self {
        Self { inner, record }
    }
}

impl<F, R, E> Future for GrpcStatusFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body,
{
    type Output = Result<Response<GrpcStatusBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.inner.poll(cx))?;
        this.record.note_status(response.headers());
        let capture = Capture(Arc::clone(this.record));
        Poll::Ready(Ok(response.map(|body| EndBody::new(body, capture))))
    }
}
