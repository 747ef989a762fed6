//! Test doubles that do what a script says: bodies poll by poll, and services answer by answer.
//!
//! A real transport ends bodies at moments a test cannot choose; these end where the script ends.

use std::collections::VecDeque;
use std::fmt;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use crate::code::{Code, GRPC_STATUS};

/// What one poll of a scripted body answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Pending,
    /// A data frame of this many bytes.
    Data(usize),
    /// Trailers, with a status or without one.
    Trailers(Option<Code>),
    Error,
    Panic,
}

/// The error of a scripted body or service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken by the script")
    }
}

impl std::error::Error for Broken {}

/// A body that follows its script and then ends.
#[derive(Debug)]
pub(crate) struct ScriptedBody {
    steps: VecDeque<Step>,
    /// Whether it says it is over as soon as its steps are used up, or only when polled again.
    knows_its_end: bool,
}

impl ScriptedBody {
    pub(crate) fn new(steps: &[Step], knows_its_end: bool) -> Self {
        Self {
            steps: steps.iter().copied().collect(),
            knows_its_end,
        }
    }

    pub(crate) fn empty() -> Self {
        Self::new(&[], true)
    }
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.steps.pop_front() {
            None => Poll::Ready(None),
            Some(Step::Pending) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Some(Step::Data(length)) => {
                Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b'x'; length])))))
            }
            Some(Step::Trailers(code)) => Poll::Ready(Some(Ok(Frame::trailers(trailers_of(code))))),
            Some(Step::Error) => Poll::Ready(Some(Err(Broken))),
            Some(Step::Panic) => unwind(),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.knows_its_end && self.steps.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let bytes = self.steps.iter().map(|step| match step {
            Step::Data(length) => *length as u64,
            Step::Pending | Step::Trailers(_) | Step::Error | Step::Panic => 0,
        });
        SizeHint::with_exact(bytes.sum())
    }
}

/// Panics without a message: a scripted panic is no news for the reader of a test's output.
pub(crate) fn unwind() -> ! {
    resume_unwind(Box::new("the script says so"))
}

/// Trailers that carry `code`, or something else.
pub(crate) fn trailers_of(code: Option<Code>) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    match code {
        Some(code) => trailers.insert(GRPC_STATUS, code.header_value()),
        None => trailers.insert("x-other", "1".parse().unwrap()),
    };
    trailers
}

/// What one poll of a body answers.
pub(crate) type Polled<B> = Poll<Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>>;

/// Polls `body` once with a waker that does nothing.
pub(crate) fn poll<B: Body>(body: Pin<&mut B>) -> Polled<B> {
    body.poll_frame(&mut Context::from_waker(Waker::noop()))
}

/// Polls `body` as a transport does: not at all when it is over, otherwise until it says so, ends,
/// fails or hands out trailers, at most `polls` times. Answers whether the end was reached.
pub(crate) fn transmit<B: Body>(mut body: Pin<&mut B>, polls: usize) -> bool {
    for _ in 0..polls {
        if body.is_end_stream() {
            return true;
        }
        match poll(body.as_mut()) {
            Poll::Ready(None | Some(Err(_))) => return true,
            Poll::Ready(Some(Ok(frame))) if frame.is_trailers() => return true,
            Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
        }
    }
    body.is_end_stream()
}

/// Polls a future once with a waker that does nothing.
pub(crate) fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
