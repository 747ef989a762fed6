//! What is noted when a response body ends; see the [module page](super).

use std::sync::Arc;

use http::HeaderMap;

use crate::body::{EndBody, Ending, OnEnd};
use crate::record::Record;

/// A response body whose trailers are read as they pass.
pub type GrpcStatusBody<B> = EndBody<B, Capture>;

/// Notes the status of the trailers, if the body ends with some.
#[derive(Clone, Debug)]
pub struct Capture(pub(super) Arc<Record>);

impl OnEnd for Capture {
    fn on_end(self, _: Ending, trailers: Option<&HeaderMap>) {
        if let Some(trailers) = trailers {
            self.0.note_status(trailers);
        }
    }
}
