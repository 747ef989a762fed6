//! The one record of a request, where layers that cannot see each other meet.
//!
//! Bytes are counted outside a gRPC-Web translation, where gRPC-Web trailers are body; the status is
//! read inside it, where trailers are still trailers. Both write here, as do layers that answer by
//! themselves, and whoever reports the request reads here. The record travels in the request
//! extensions. It must never take a lock and never hold anything a caller sent (ARC-095, ARC-098).
//!
//! # Example
//!
//! ```
//! use http::Request;
//! use layers::body::Ending;
//! use layers::code::Code;
//! use layers::record::Record;
//!
//! let mut request = Request::new(());
//! let outer = Record::of(request.extensions_mut());
//! let inner = Record::of(request.extensions_mut());
//!
//! assert_eq!(outer.resolve(Ending::Dropped), Code::Cancelled);
//! inner.set_status(Code::NotFound);
//! assert_eq!(outer.resolve(Ending::Dropped), Code::NotFound);
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{Extensions, HeaderMap};

use crate::body::Ending;
use crate::code::Code;

/// The value of the status slot that means "no status yet"; not the number of any code.
const NO_STATUS: u8 = u8::MAX;

/// What is known of one request so far.
///
/// Every field stands alone: a reader needs no consistent view over several of them, so relaxed
/// atomics are enough.
#[derive(Debug)]
pub struct Record {
    arrived: Instant,
    request_bytes: AtomicU64,
    response_bytes: AtomicU64,
    status: AtomicU8,
}

impl Record {
    /// The record of the request these extensions belong to; made on first use, so the outermost
    /// layer that asks sets the arrival time.
    #[must_use]
    pub fn of(extensions: &mut Extensions) -> Arc<Self> {
        Arc::clone(extensions.get_or_insert_with(|| Arc::new(Self::arriving(Instant::now()))))
    }

    /// A record of a request that arrived at `arrived`.
    const fn arriving(arrived: Instant) -> Self {
        Self {
            arrived,
            request_bytes: AtomicU64::new(0),
            response_bytes: AtomicU64::new(0),
            status: AtomicU8::new(NO_STATUS),
        }
    }

    /// Time since the request arrived, on the monotonic clock.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.arrived.elapsed()
    }

    /// Adds consumed request body bytes.
    pub fn add_request_bytes(&self, bytes: u64) {
        self.request_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds emitted response body bytes.
    pub fn add_response_bytes(&self, bytes: u64) {
        self.response_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Request body bytes consumed so far; 0 without a counting layer.
    #[must_use]
    pub fn request_bytes(&self) -> u64 {
        self.request_bytes.load(Ordering::Relaxed)
    }

    /// Response body bytes emitted so far; 0 without a counting layer.
    #[must_use]
    pub fn response_bytes(&self) -> u64 {
        self.response_bytes.load(Ordering::Relaxed)
    }

    /// Notes the status of the answer.
    ///
    /// The last writer wins: an answer is seen from the inside outwards, so the last one to see it
    /// saw what the caller gets.
    pub fn set_status(&self, code: Code) {
        self.status.store(code.number(), Ordering::Relaxed);
    }

    /// Notes the status that headers or trailers carry, if they carry one.
    pub fn note_status(&self, headers: &HeaderMap) {
        if let Some(code) = Code::from_headers(headers) {
            self.set_status(code);
        }
    }

    /// The status noted so far.
    #[must_use]
    pub fn status(&self) -> Option<Code> {
        match self.status.load(Ordering::Relaxed) {
            NO_STATUS => None,
            number => Some(Code::from_number(number)),
        }
    }

    /// The code to report for a request that ended this way (ARC-098).
    ///
    /// A noted status stands. Without one, a dropped request is `Cancelled`, an ended or failed body
    /// is `Unknown`, and a panic is `Internal`: the caller did not cancel it and got no status.
    #[must_use]
    pub fn resolve(&self, ending: Ending) -> Code {
        self.status().unwrap_or(match ending {
            Ending::Complete | Ending::Failed => Code::Unknown,
            Ending::Dropped => Code::Cancelled,
            Ending::Panicked => Code::Internal,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::GRPC_STATUS;

    const ENDINGS: [(Ending, Code); 4] = [
        (Ending::Complete, Code::Unknown),
        (Ending::Failed, Code::Unknown),
        (Ending::Dropped, Code::Cancelled),
        (Ending::Panicked, Code::Internal),
    ];

    /// Goal: the code of a request without a status depends on its ending alone, and a status always
    /// wins. Method: every ending, against no status and every status. ARC-098.
    #[test]
    fn a_status_wins_over_the_ending() {
        for (ending, alone) in ENDINGS {
            let record = Record::arriving(Instant::now());
            assert_eq!(record.resolve(ending), alone, "{ending:?}");
            for code in Code::ALL {
                record.set_status(code);
                assert_eq!(record.status(), Some(code));
                assert_eq!(record.resolve(ending), code);
            }
        }
    }

    /// Goal: headers without a status change nothing, headers with one do. Method: note a status,
    /// then empty headers, then another status. ARC-098.
    #[test]
    fn headers_without_a_status_keep_the_one_noted() {
        let record = Record::arriving(Instant::now());
        let mut headers = HeaderMap::new();
        record.note_status(&headers);
        assert_eq!(record.status(), None);
        headers.insert(GRPC_STATUS, Code::Aborted.header_value());
        record.note_status(&headers);
        record.note_status(&HeaderMap::new());
        assert_eq!(record.status(), Some(Code::Aborted));
    }

    /// Goal: layers of one request share one record, and two requests never do. Method: ask twice,
    /// and ask another request.
    #[test]
    fn one_request_has_one_record() {
        let (mut one, mut other) = (Extensions::new(), Extensions::new());
        let first = Record::of(&mut one);
        assert!(Arc::ptr_eq(&first, &Record::of(&mut one)));
        assert!(!Arc::ptr_eq(&first, &Record::of(&mut other)));
        first.add_request_bytes(2);
        first.add_request_bytes(3);
        first.add_response_bytes(7);
        assert_eq!((first.request_bytes(), first.response_bytes()), (5, 7));
    }
}
