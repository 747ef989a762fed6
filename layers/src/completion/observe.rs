//! What a server says to hear of completed requests.
//!
//! Nothing here may name a log, a metric or a span.

use std::time::Duration;

use http::request::Parts;

use crate::body::Ending;
use crate::code::Code;

/// A request that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// How it ended.
    pub ending: Ending,
    /// Its status: the real one, or the one its ending stands for.
    pub code: Code,
    /// Time from arrival to this moment, on the monotonic clock.
    pub elapsed: Duration,
    /// Consumed request body bytes.
    pub request_bytes: u64,
    /// Emitted response body bytes.
    pub response_bytes: u64,
}

/// Takes the end of one request.
pub trait OnComplete {
    /// Called exactly once per request.
    ///
    /// It must not panic or block: it may run inside a drop, and a panic that meets another one
    /// aborts the process.
    fn complete(self, completed: Completed);
}

impl<F: FnOnce(Completed)> OnComplete for F {
    fn complete(self, completed: Completed) {
        self(completed);
    }
}

/// Starts to watch a request.
pub trait Observe {
    /// What takes the end of the request; it may carry what it needs from the head.
    type Call: OnComplete;

    /// Called as soon as the request with this head, extensions included, arrives.
    fn observe(&self, head: &Parts) -> Self::Call;
}

impl<F, C> Observe for F
where
    F: Fn(&Parts) -> C,
    C: OnComplete,
{
    type Call = C;

    fn observe(&self, head: &Parts) -> C {
        self(head)
    }
}
