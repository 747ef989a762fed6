//! Bytes and endings of one request on their way to its series; see the [module page](super).

use std::sync::Arc;

use http::HeaderMap;

use super::Series;
use crate::body::{CountBody, EndBody, Ending, Meter, OnEnd};
use crate::record::Record;

/// A request body whose consumed bytes are told.
pub type MeteredRequestBody<B, S> = CountBody<B, Consumed<S>>;

/// A response body whose emitted bytes and ending are told, in this order for its last frame.
pub type MeteredResponseBody<B, S> = EndBody<CountBody<B, Emitted<S>>, Handled<S>>;

/// The series of a request, absent when it is not metered; shared by its two bodies.
pub(super) type SharedSeries<S> = Option<Arc<S>>;

/// Tells the bytes of a request body.
#[derive(Debug)]
pub struct Consumed<S>(pub(super) SharedSeries<S>);

impl<S: Series> Meter for Consumed<S> {
    fn add(&self, bytes: u64) {
        if let Some(series) = &self.0 {
            series.request_bytes(bytes);
        }
    }
}

/// Tells the bytes of a response body.
#[derive(Debug)]
pub struct Emitted<S>(pub(super) SharedSeries<S>);

impl<S: Series> Meter for Emitted<S> {
    fn add(&self, bytes: u64) {
        if let Some(series) = &self.0 {
            series.response_bytes(bytes);
        }
    }
}

/// Tells the end of a request.
#[derive(Debug)]
pub struct Handled<S> {
    pub(super) series: SharedSeries<S>,
    pub(super) record: Arc<Record>,
}

impl<S: Series> OnEnd for Handled<S> {
    fn on_end(self, ending: Ending, trailers: Option<&HeaderMap>) {
        let Self { series, record } = self;
        if let Some(trailers) = trailers {
            record.note_status(trailers);
        }
        if let Some(series) = series {
            series.handled(record.resolve(ending), record.elapsed());
        }
    }
}
