//! The id of a request.
//!
//! It must never be made from anything but randomness (ARC-095).

use std::fmt;

use http::{HeaderName, HeaderValue};
use uuid::Uuid;

/// The response header that carries the id.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// An id made by this process for one request: a random UUID, version 4 (ARC-095).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(Uuid);

impl RequestId {
    /// A fresh id.
    ///
    /// # Panics
    ///
    /// When the operating system has no randomness to give.
    #[must_use]
    pub fn fresh() -> Self {
        Self(Uuid::new_v4())
    }

    /// The id as a header value: 36 characters, lower case, with hyphens.
    #[must_use]
    pub fn header_value(self) -> HeaderValue {
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        self.0.hyphenated().encode_lower(&mut text);
        // Hexadecimal digits and hyphens are always a valid header value.
        HeaderValue::from_bytes(&text).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
