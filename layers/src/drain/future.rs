//! The future of the drain layer; see the [module page](super).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;
use tokio::sync::futures::OwnedNotified;

use super::DrainBody;
use super::gate::Inside;
use crate::code::Code;
use crate::record::Record;
use crate::refusal::{Protocol, Refusal};

/// What a closed gate answers.
const CLOSED: Refusal = Refusal::new(Code::Unavailable, "the server is shutting down");

/// What a request carries through the gate.
#[derive(Debug)]
pub(super) struct Passage {
    pub(super) inside: Inside,
    pub(super) protocol: Protocol,
    pub(super) record: Arc<Record>,
}

pin_project! {
    /// The inner response, or a refusal.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct DrainFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = StateProjection]
    enum State<F> {
        Exempt { #[pin] inner: F },
        // Dropped in this order: a handler is gone before its request leaves the gate.
        Passing { #[pin] inner: F, #[pin] cut: OwnedNotified, passage: Option<Passage> },
        Refused { protocol: Protocol, record: Arc<Record> },
    }
}

impl<F> DrainFuture<F> {
    pub(super) const fn exempt(inner: F) -> Self {
        Self {
            state: State::Exempt { inner },
        }
    }

    pub(super) const fn passing(inner: F, cut: OwnedNotified, passage: Passage) -> Self {
        Self {
            state: State::Passing {
                inner,
                cut,
                passage: Some(passage),
            },
        }
    }

    pub(super) const fn refused(protocol: Protocol, record: Arc<Record>) -> Self {
        Self {
            state: State::Refused { protocol, record },
        }
    }
}

impl<F, R, E> Future for DrainFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<DrainBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let cut = match state.as_mut().project() {
                StateProjection::Exempt { inner } => {
                    let response = ready!(inner.poll(cx))?;
                    return Poll::Ready(Ok(response.map(|body| DrainBody::new(body, None))));
                }
                StateProjection::Refused { protocol, record } => {
                    record.set_status(CLOSED.code());
                    return Poll::Ready(Ok(CLOSED.response(*protocol).map(DrainBody::refused)));
                }
                StateProjection::Passing {
                    inner,
                    cut,
                    passage,
                } => {
                    // An answer that is ready wins over a cut at the same moment.
                    if let Poll::Ready(answered) = inner.poll(cx) {
                        let inside = passage.take().map(|passage| passage.inside);
                        return Poll::Ready(
                            answered
                                .map(|response| response.map(|body| DrainBody::new(body, inside))),
                        );
                    }
                    ready!(cut.poll(cx));
                    passage.take()
                }
            };
            let Some(Passage {
                inside,
                protocol,
                record,
            }) = cut
            else {
                // Polled after it was ready, which no caller may do.
                return Poll::Pending;
            };
            state.set(State::Refused { protocol, record });
            // The handler is gone by now.
            drop(inside);
        }
    }
}
