//! The future of the preflight layer; see the [module page](super).

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, HeaderValue, Response};
use pin_project_lite::pin_project;

use super::PreflightBody;
use super::answer::admit_browser;

pin_project! {
    /// The answer to a preflight, or the inner response on its way to a browser.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct PreflightFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = StateProjection]
    enum State<F> {
        Answered { headers: HeaderMap },
        PassedOn { #[pin] future: F, exposed: Option<HeaderValue> },
    }
}

impl<F> PreflightFuture<F> {
    pub(super) const fn answered(headers: HeaderMap) -> Self {
        Self {
            state: State::Answered { headers },
        }
    }

    pub(super) const fn passed_on(future: F, exposed: Option<HeaderValue>) -> Self {
        Self {
            state: State::PassedOn { future, exposed },
        }
    }
}

impl<F, R, E> Future for PreflightFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<PreflightBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = match self.project().state.project() {
            StateProjection::Answered { headers } => {
                let mut response = Response::new(PreflightBody::empty());
                *response.headers_mut() = std::mem::take(headers);
                response
            }
            StateProjection::PassedOn { future, exposed } => {
                let mut response = ready!(future.poll(cx))?.map(PreflightBody::inner);
                admit_browser(response.headers_mut(), exposed.as_ref());
                response
            }
        };
        Poll::Ready(Ok(response))
    }
}
