//! The future of the completion layer; see the [module page](super).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use super::{CompletionBody, Finish, OnComplete};
use crate::body::{EndBody, EndGuard, Ending};
use crate::record::Record;

pin_project! {
    /// The inner future under the guard of its request.
    ///
    /// Fields are dropped in this order: what the handler does in its drop comes before the end.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct CompletionFuture<F, C>
    where
        C: OnComplete,
    {
        #[pin]
        inner: F,
        guard: Option<EndGuard<Finish<C>>>,
        record: Arc<Record>,
    }
}

impl<F, C: OnComplete> CompletionFuture<F, C> {
    pub(super) const fn new(inner: F, guard: EndGuard<Finish<C>>, record: Arc<Record>) -> Self {
        Self {
            inner,
            guard: Some(guard),
            record,
        }
    }
}

impl<F, C, R, E> Future for CompletionFuture<F, C>
where
    F: Future<Output = Result<Response<R>, E>>,
    C: OnComplete,
    R: Body,
{
    type Output = Result<Response<CompletionBody<R, C>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answered = ready!(this.inner.poll(cx));
        let Some(mut guard) = this.guard.take() else {
            // Polled after it was ready, which no caller may do.
            return Poll::Pending;
        };
        Poll::Ready(match answered {
            Ok(response) => {
                this.record.note_status(response.headers());
                Ok(response.map(|body| EndBody::guarded(body, guard)))
            }
            Err(error) => {
                guard.finish(Ending::Failed, None);
                Err(error)
            }
        })
    }
}
