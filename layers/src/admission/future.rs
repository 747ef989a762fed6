//! The future of the admission layer; see the [module page](super).

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use super::AdmissionBody;
use crate::record::Record;
use crate::refusal::{Protocol, Refusal};

pin_project! {
    /// A verdict, and then the inner response or a refusal.
    #[must_use = "futures do nothing unless polled"]
    pub struct AdmissionFuture<Q, S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<Q, S, B>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<Q, S, B>
    where
        S: Service<Request<B>>,
    {
        Judging {
            #[pin]
            verdict: Q,
            request: Option<Request<B>>,
            service: S,
        },
        Admitted {
            #[pin]
            inner: S::Future,
        },
    }
}

impl<Q, S, B> AdmissionFuture<Q, S, B>
where
    S: Service<Request<B>>,
{
    /// The ready `service` is called with `request` once the verdict lets it in.
    pub(super) const fn judging(verdict: Q, request: Request<B>, service: S) -> Self {
        Self {
            state: State::Judging {
                verdict,
                request: Some(request),
                service,
            },
        }
    }

    pub(super) const fn admitted(inner: S::Future) -> Self {
        Self {
            state: State::Admitted { inner },
        }
    }
}

impl<Q, S, B, R, P> Future for AdmissionFuture<Q, S, B>
where
    Q: Future<Output = Result<P, Refusal>>,
    S: Service<Request<B>, Response = Response<R>>,
    P: Clone + Send + Sync + 'static,
{
    type Output = Result<Response<AdmissionBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let admitted = match state.as_mut().project() {
                StateProjection::Admitted { inner } => {
                    let response = ready!(inner.poll(cx))?;
                    return Poll::Ready(Ok(response.map(AdmissionBody::inner)));
                }
                StateProjection::Judging {
                    verdict,
                    request,
                    service,
                } => {
                    let verdict = ready!(verdict.poll(cx));
                    let Some(mut request) = request.take() else {
                        // Polled after it was ready, which no caller may do.
                        return Poll::Pending;
                    };
                    match verdict {
                        Ok(principal) => {
                            request.extensions_mut().insert(principal);
                            service.call(request)
                        }
                        Err(refusal) => {
                            Record::of(request.extensions_mut()).set_status(refusal.code());
                            let protocol = Protocol::of(request.headers());
                            return Poll::Ready(Ok(refusal.response(protocol)));
                        }
                    }
                }
            };
            state.set(State::Admitted { inner: admitted });
        }
    }
}
