//! What happens when a response body ends; see the [module page](super).

use std::sync::Arc;

use http::HeaderMap;

use super::{Completed, OnComplete};
use crate::body::{EndBody, Ending, OnEnd};
use crate::record::Record;

/// A response body that completes its request when it ends.
pub type CompletionBody<B, C> = EndBody<B, Finish<C>>;

/// Completes a request: takes the ending and tells the hook.
#[derive(Clone, Debug)]
pub struct Finish<C> {
    call: C,
    record: Arc<Record>,
}

impl<C> Finish<C> {
    pub(super) const fn new(call: C, record: Arc<Record>) -> Self {
        Self { call, record }
    }
}

impl<C: OnComplete> OnEnd for Finish<C> {
    fn on_end(self, ending: Ending, trailers: Option<&HeaderMap>) {
        let Self { call, record } = self;
        if let Some(trailers) = trailers {
            record.note_status(trailers);
        }
        call.complete(Completed {
            ending,
            code: record.resolve(ending),
            elapsed: record.elapsed(),
            request_bytes: record.request_bytes(),
            response_bytes: record.response_bytes(),
        });
    }
}
