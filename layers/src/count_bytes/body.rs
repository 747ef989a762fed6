//! The two meters of a request; see the [module page](super).

use std::sync::Arc;

use crate::body::{CountBody, Meter};
use crate::record::Record;

/// A request body that counts what is consumed.
pub type CountedRequestBody<B> = CountBody<B, Consumed>;

/// A response body that counts what is emitted.
pub type CountedResponseBody<B> = CountBody<B, Emitted>;

/// Adds to the request bytes of a record.
#[derive(Clone, Debug)]
pub struct Consumed(pub(super) Arc<Record>);

impl Meter for Consumed {
    fn add(&self, bytes: u64) {
        self.0.add_request_bytes(bytes);
    }
}

/// Adds to the response bytes of a record.
#[derive(Clone, Debug)]
pub struct Emitted(pub(super) Arc<Record>);

impl Meter for Emitted {
    fn add(&self, bytes: u64) {
        self.0.add_response_bytes(bytes);
    }
}
