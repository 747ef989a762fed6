//! The answer of a layer that refuses, in the protocol of the request.
//!
//! A layer outside the gRPC-Web translation cannot leave the translation of its answer to others. A
//! refusal is always HTTP 200 with status and message in the response *headers* and no body, which
//! is the trailers-only form of native gRPC and, under its own content type, of gRPC-Web too. The
//! same form answers requests that are no gRPC at all, so that admission does not depend on method
//! or content type.
//!
//! The message is a constant of the server: it must never carry anything a caller sent (ARC-002,
//! ARC-003).
//!
//! # Example
//!
//! ```
//! use http::{HeaderMap, Response};
//! use http_body_util::Empty;
//! use layers::body::OrEmpty;
//! use layers::code::Code;
//! use layers::refusal::{Protocol, Refusal};
//!
//! const CLOSED: Refusal = Refusal::new(Code::Unavailable, "closed for the night");
//!
//! let mut request = HeaderMap::new();
//! request.insert("content-type", "application/grpc-web-text".parse().unwrap());
//! let answer: Response<OrEmpty<Empty<bytes::Bytes>>> = CLOSED.response(Protocol::of(&request));
//! assert_eq!(answer.headers()["content-type"], "application/grpc-web-text+proto");
//! assert_eq!(answer.headers()["grpc-status"], "14");
//! assert_eq!(answer.headers()["grpc-message"], "closed for the night");
//! ```

use std::fmt::Write;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response};

use crate::body::OrEmpty;
use crate::code::{Code, GRPC_STATUS};

/// The header or trailer that carries the percent-encoded message of a status.
pub const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// The form of gRPC a request is written in, as far as its answer depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Native gRPC, and whatever is no gRPC at all.
    Grpc,
    /// gRPC-Web with binary frames.
    GrpcWeb,
    /// gRPC-Web with base64 frames.
    GrpcWebText,
}

impl Protocol {
    /// The protocol that the content type of a request names.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let content_type = headers
            .get(CONTENT_TYPE)
            .map_or(&b""[..], HeaderValue::as_bytes);
        let begins = |prefix: &[u8]| {
            content_type
                .get(..prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        if begins(b"application/grpc-web-text") {
            Self::GrpcWebText
        } else if begins(b"application/grpc-web") {
            Self::GrpcWeb
        } else {
            Self::Grpc
        }
    }

    /// The content type of an answer.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Grpc => "application/grpc",
            Self::GrpcWeb => "application/grpc-web+proto",
            Self::GrpcWebText => "application/grpc-web-text+proto",
        }
    }
}

/// A status that a layer answers by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    code: Code,
    message: &'static str,
}

impl Refusal {
    /// A refusal with this code and a fixed message, in plain words for a human.
    #[must_use]
    pub const fn new(code: Code, message: &'static str) -> Self {
        Self { code, message }
    }

    /// The code of the answer.
    #[must_use]
    pub const fn code(self) -> Code {
        self.code
    }

    /// The answer: HTTP 200, content type, `grpc-status`, `grpc-message`, no body.
    #[must_use]
    pub fn response<B>(self, protocol: Protocol) -> Response<OrEmpty<B>> {
        let mut response = Response::new(OrEmpty::empty());
        let headers = response.headers_mut();
        headers.insert(
            CONTENT_TYPE,
            HeaderValue::from_static(protocol.content_type()),
        );
        headers.insert(GRPC_STATUS, self.code.header_value());
        if !self.message.is_empty() {
            headers.insert(GRPC_MESSAGE, encode_message(self.message));
        }
        response
    }
}

/// Percent-encodes a message as gRPC asks: everything but visible ASCII and the space, and the
/// percent sign itself.
fn encode_message(message: &'static str) -> HeaderValue {
    let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'%';
    if message.bytes().all(is_plain) {
        return HeaderValue::from_static(message);
    }
    let mut encoded = String::with_capacity(message.len() * 3);
    for byte in message.bytes() {
        if is_plain(byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    // What was encoded is visible ASCII; an empty message would only hide the text.
    HeaderValue::try_from(encoded).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use http_body::Body;

    use super::*;
    use crate::scripted::ScriptedBody;

    /// Goal: the answer speaks the protocol of the request. Method: table of request content types
    /// and the content type of the answer. ARC-002.
    #[test]
    fn the_content_type_follows_the_request() {
        let cases = [
            ("application/grpc", "application/grpc"),
            ("application/grpc+proto", "application/grpc"),
            ("application/grpc-web", "application/grpc-web+proto"),
            ("application/grpc-web+proto", "application/grpc-web+proto"),
            ("Application/GRPC-Web+proto", "application/grpc-web+proto"),
            (
                "application/grpc-web-text",
                "application/grpc-web-text+proto",
            ),
            (
                "application/grpc-web-text+proto",
                "application/grpc-web-text+proto",
            ),
            ("application/json", "application/grpc"),
            ("application/grpc-we", "application/grpc"),
            ("", "application/grpc"),
        ];
        for (request, answer) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, request.parse().unwrap());
            assert_eq!(Protocol::of(&headers).content_type(), answer, "{request}");
        }
        assert_eq!(Protocol::of(&HeaderMap::new()), Protocol::Grpc);
    }

    /// Goal: an answer is the trailers-only form and nothing more, whatever the protocol. Method:
    /// compare status, the whole header set and the body. ARC-002.
    #[test]
    fn an_answer_is_trailers_only() {
        let refusal = Refusal::new(Code::Unauthenticated, "missing bearer token");
        for protocol in [Protocol::Grpc, Protocol::GrpcWeb, Protocol::GrpcWebText] {
            let response = refusal.response::<ScriptedBody>(protocol);
            assert_eq!(response.status(), StatusCode::OK);
            let headers: Vec<_> = response
                .headers()
                .iter()
                .map(|(n, v)| (n.as_str(), v.to_str().unwrap()))
                .collect();
            assert_eq!(
                headers,
                [
                    ("content-type", protocol.content_type()),
                    ("grpc-status", "16"),
                    ("grpc-message", "missing bearer token"),
                ]
            );
            assert!(response.body().is_end_stream());
        }
        let silent = Refusal::new(Code::Unavailable, "").response::<ScriptedBody>(Protocol::Grpc);
        assert!(!silent.headers().contains_key(GRPC_MESSAGE));
    }

    /// Goal: messages are percent-encoded as gRPC asks. Method: table with the edges of the plain
    /// range.
    #[test]
    fn messages_are_percent_encoded() {
        let cases = [
            (" ~ plain", " ~ plain"),
            ("100%", "100%25"),
            ("two\nlines", "two%0Alines"),
            ("\u{7f}\u{1f}", "%7F%1F"),
            ("\u{fc}ber", "%C3%BCber"),
        ];
        for (message, encoded) in cases {
            assert_eq!(encode_message(message), encoded);
        }
    }
}
