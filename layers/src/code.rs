//! The seventeen gRPC status codes, their names as labels and their form in headers.
//!
//! A type of its own keeps this crate free of any gRPC library. It must never let a number or a text
//! that a peer sent become a label: what is not one of the seventeen is [`Code::Unknown`] (ARC-098,
//! ARC-099).

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header or trailer that carries the status.
pub const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// A gRPC status code, 0 to 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Code {
    /// Not an error.
    Ok = 0,
    /// The operation was cancelled, mostly by the caller.
    Cancelled = 1,
    /// An error with no better code, or no code at all.
    Unknown = 2,
    /// The request is wrong whatever the state of the server.
    InvalidArgument = 3,
    /// The deadline passed before the operation was done.
    DeadlineExceeded = 4,
    /// Something requested does not exist.
    NotFound = 5,
    /// Something to be created exists already.
    AlreadyExists = 6,
    /// The caller is known and not allowed.
    PermissionDenied = 7,
    /// A quota or a capacity is used up.
    ResourceExhausted = 8,
    /// The state of the server does not allow the operation.
    FailedPrecondition = 9,
    /// The operation lost a race and may be tried again.
    Aborted = 10,
    /// The request reaches beyond a valid range.
    OutOfRange = 11,
    /// The operation does not exist here.
    Unimplemented = 12,
    /// The server broke a promise to itself.
    Internal = 13,
    /// The service cannot answer now.
    Unavailable = 14,
    /// Data is lost for good.
    DataLoss = 15,
    /// The caller has no valid credential.
    Unauthenticated = 16,
}

impl Code {
    /// Every code, at the index of its number.
    pub const ALL: [Self; 17] = [
        Self::Ok,
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The number on the wire, 0 to 16.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The code of a number; a number above 16 is [`Code::Unknown`].
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        Self::ALL
            .get(usize::from(number))
            .copied()
            .unwrap_or(Self::Unknown)
    }

    /// The name used as a metric label and in logs: `OK`, `Cancelled`, `InvalidArgument` (ARC-098).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Cancelled => "Cancelled",
            Self::Unknown => "Unknown",
            Self::InvalidArgument => "InvalidArgument",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::PermissionDenied => "PermissionDenied",
            Self::ResourceExhausted => "ResourceExhausted",
            Self::FailedPrecondition => "FailedPrecondition",
            Self::Aborted => "Aborted",
            Self::OutOfRange => "OutOfRange",
            Self::Unimplemented => "Unimplemented",
            Self::Internal => "Internal",
            Self::Unavailable => "Unavailable",
            Self::DataLoss => "DataLoss",
            Self::Unauthenticated => "Unauthenticated",
        }
    }

    /// The status that headers or trailers carry, `None` when they carry none.
    ///
    /// A value that is not the plain decimal number of a code is [`Code::Unknown`]: the peer did
    /// say how the call ended, in words nobody agreed on.
    #[must_use]
    pub fn from_headers(headers: &HeaderMap) -> Option<Self> {
        headers
            .get(GRPC_STATUS)
            .map(|value| match value.as_bytes() {
                [ones @ b'0'..=b'9'] => Self::from_number(ones - b'0'),
                [b'1', ones @ b'0'..=b'6'] => Self::from_number(10 + (ones - b'0')),
                _ => Self::Unknown,
            })
    }

    /// The number as a header value, made without allocation.
    #[must_use]
    pub fn header_value(self) -> HeaderValue {
        const NUMBERS: [&str; 17] = [
            "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
            "16",
        ];
        HeaderValue::from_static(NUMBERS[usize::from(self.number())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: number, name and header form of a code belong together and are the published ones.
    /// Method: every code, against its position and the list of seventeen names. ARC-098.
    #[test]
    fn every_code_has_its_published_number_and_name() {
        let names = [
            "OK",
            "Cancelled",
            "Unknown",
            "InvalidArgument",
            "DeadlineExceeded",
            "NotFound",
            "AlreadyExists",
            "PermissionDenied",
            "ResourceExhausted",
            "FailedPrecondition",
            "Aborted",
            "OutOfRange",
            "Unimplemented",
            "Internal",
            "Unavailable",
            "DataLoss",
            "Unauthenticated",
        ];
        for (number, (code, name)) in (0_u8..).zip(Code::ALL.into_iter().zip(names)) {
            assert_eq!(code.number(), number);
            assert_eq!(code.name(), name);
            assert_eq!(Code::from_number(number), code);
            assert_eq!(code.header_value(), number.to_string().as_str());
            let mut headers = HeaderMap::new();
            headers.insert(GRPC_STATUS, code.header_value());
            assert_eq!(Code::from_headers(&headers), Some(code));
        }
        assert_eq!(Code::from_number(17), Code::Unknown);
        assert_eq!(Code::from_number(u8::MAX), Code::Unknown);
    }

    /// Goal: nothing a peer writes can become an eighteenth label. Method: table of values just
    /// outside the grammar. ARC-098.
    #[test]
    fn odd_status_values_are_unknown() {
        for odd in [
            "", " 0", "0 ", "00", "01", "17", "20", "-1", "+1", "100", "OK", "\u{e9}",
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(
                GRPC_STATUS,
                HeaderValue::from_bytes(odd.as_bytes()).unwrap(),
            );
            assert_eq!(Code::from_headers(&headers), Some(Code::Unknown), "{odd:?}");
        }
        assert_eq!(Code::from_headers(&HeaderMap::new()), None);
    }
}
