//! The future of the metrics layer; see the [module page](super).

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use super::{Emitted, Handled, MeteredResponseBody, Series};
use crate::body::{CountBody, EndBody, EndGuard, Ending};

pin_project! {
    /// The inner future under the guard of its request.
    ///
    /// Fields are dropped in this order: what the handler does in its drop comes before the end.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct GrpcMetricsFuture<F, S>
    where
        S: Series,
    {
        #[pin]
        inner: F,
        guard: Option<EndGuard<Handled<S>>>,
    }
}

impl<F, S: Series> GrpcMetricsFuture<F, S> {
    pub(super) const fn new(inner: F, guard: EndGuard<Handled<S>>) -> Self {
        Self {
            inner,
            guard: Some(guard),
        }
    }
}

impl<F, S, R, E> Future for GrpcMetricsFuture<F, S>
where
    F: Future<Output = Result<Response<R>, E>>,
    S: Series,
    R: Body,
{
    type Output = Result<Response<MeteredResponseBody<R, S>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answered = ready!(this.inner.poll(cx));
        let Some(mut guard) = this.guard.take() else {
            // Polled after it was ready, which no caller may do.
            return Poll::Pending;
        };
        Poll::Ready(match answered {
            Ok(response) => {
                let mut emitted = Emitted(None);
                if let Some(handled) = guard.hook() {
                    handled.record.note_status(response.headers());
                    emitted.0.clone_from(&handled.series);
                }
                Ok(response.map(|body| EndBody::guarded(CountBody::new(body, emitted), guard)))
            }
            Err(error) => {
                guard.finish(Ending::Failed, None);
                Err(error)
            }
        })
    }
}
