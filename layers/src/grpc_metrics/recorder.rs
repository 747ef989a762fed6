//! What a server says to have its requests counted.
//!
//! Nothing here may name a metric (ARC-098).

use std::time::Duration;

use crate::code::Code;

/// Turns a raw path into labels.
pub trait Classify {
    /// The labels of a request.
    type Labels;

    /// The labels of a request for `path`, `None` when such requests are not metered.
    ///
    /// The path is undecoded and without its query. It is caller data: labels must come from a
    /// closed set.
    fn classify(&self, path: &str) -> Option<Self::Labels>;
}

impl<F, L> Classify for F
where
    F: Fn(&str) -> Option<L>,
{
    type Labels = L;

    fn classify(&self, path: &str) -> Option<L> {
        self(path)
    }
}

/// Turns labels into the handles one request needs.
pub trait Recorder<L> {
    /// The handles of one request.
    type Series: Series;

    /// The handles for these labels; looked up once per request.
    fn series(&self, labels: L) -> Self::Series;
}

/// The handles of one request.
///
/// Methods may run inside a drop or while frames pass: they must not panic or block.
pub trait Series {
    /// The request started and is in flight. Called once, first.
    fn started(&self);

    /// Consumed `bytes` more of the request body; may still be called after
    /// [`handled`](Self::handled) when a handler outlives its response.
    fn request_bytes(&self, bytes: u64);

    /// Emitted `bytes` more of the response body.
    fn response_bytes(&self, bytes: u64);

    /// The request is over, `elapsed` after its arrival, and no longer in flight. Called exactly
    /// once for each [`started`](Self::started).
    fn handled(&self, code: Code, elapsed: Duration);
}
