//! The `traceparent` header, parsed: a value that exists is valid.
//!
//! It must never accept a form that another reader of the same header could refuse or read
//! differently (ARC-099; W3C Trace Context, section 3.2).

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderName};

use super::state;

/// The header that carries version, trace id, parent id and flags.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Bytes of `vv-tttttttttttttttttttttttttttttttt-pppppppppppppppp-ff`: all of version 00, and how
/// every later version has to begin.
const TRACEPARENT_BYTES: usize = 55;

/// The version that the grammar keeps invalid for ever.
const VERSION_FORBIDDEN: u8 = 0xff;

/// The only flag of version 00 that a receiver acts on.
const FLAG_SAMPLED: u8 = 0x01;

/// The id of a whole trace: 16 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// The id of the caller's span: 8 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ParentId([u8; 8]);

/// A valid W3C trace context, as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: TraceId,
    parent_id: ParentId,
    sampled: bool,
    state: Option<Arc<str>>,
}

impl TraceContext {
    /// The context these headers carry, `None` when `traceparent` is absent, repeated or invalid.
    ///
    /// An invalid `tracestate` is dropped alone: it cannot invalidate the `traceparent`.
    #[must_use]
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return None;
        };
        let parent = Self::from_traceparent(value.as_bytes())?;
        Some(Self {
            state: state::from_headers(headers),
            ..parent
        })
    }

    /// The context of one `traceparent` value, without any trace state.
    ///
    /// Version 00 has exactly four fields. A later version, other than the forbidden ff, is read by
    /// its first four fields, which the standard promises to keep; what follows must stand behind
    /// another hyphen.
    #[must_use]
    pub fn from_traceparent(value: &[u8]) -> Option<Self> {
        let (fields, rest) = value.split_at_checked(TRACEPARENT_BYTES)?;
        let [version] = bytes_of(&fields[..2])?;
        if version == VERSION_FORBIDDEN || (version == 0 && !rest.is_empty()) {
            return None;
        }
        if !rest.is_empty() && rest[0] != b'-' {
            return None;
        }
        if fields[2] != b'-' || fields[35] != b'-' || fields[52] != b'-' {
            return None;
        }
        let trace_id = bytes_of(&fields[3..35]).filter(|id| *id != [0; 16])?;
        let parent_id = bytes_of(&fields[36..52]).filter(|id| *id != [0; 8])?;
        let [flags] = bytes_of(&fields[53..])?;
        Some(Self {
            trace_id: TraceId(trace_id),
            parent_id: ParentId(parent_id),
            sampled: flags & FLAG_SAMPLED != 0,
            state: None,
        })
    }

    /// The trace the request belongs to.
    #[must_use]
    pub const fn trace_id(&self) -> TraceId {
        self.trace_id
    }

    /// The caller's span.
    #[must_use]
    pub const fn parent_id(&self) -> ParentId {
        self.parent_id
    }

    /// Whether the caller may have recorded its part of the trace.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// The valid `tracestate`, its header lines joined, at most 512 bytes; empty when there is none.
    #[must_use]
    pub fn state(&self) -> &str {
        self.state.as_deref().unwrap_or_default()
    }
}

impl TraceId {
    /// The 16 bytes, in network order.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }
}

impl ParentId {
    /// The 8 bytes, in network order.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ParentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl fmt::Debug for ParentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `N` bytes from exactly `2 * N` lower-case hexadecimal digits.
fn bytes_of<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    let pairs: &[[u8; 2]; N] = pairs.try_into().ok()?;
    let mut bytes = [0; N];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = nibble(*high)? << 4 | nibble(*low)?;
    }
    Some(bytes)
}

/// The value of one hexadecimal digit; the grammar has no upper case.
const fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}
