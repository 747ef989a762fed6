//! The whole stack in its order, around a real gRPC-Web translation and under a real HTTP transport.
//!
//! The layers' own tests script every poll; here hyper decides when a body is polled, skipped or
//! dropped, over HTTP/1.1 and HTTP/2 on an in-memory connection.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use layers::body::Ending;
use layers::code::Code;

use support::{Event, Stack};

const WEB: &str = "application/grpc-web+proto";
const TEXT: &str = "application/grpc-web-text+proto";
const NATIVE: &str = "application/grpc";

/// A message of five bytes in its frame.
const FRAME: &[u8] = b"\x00\x00\x00\x00\x05hello";

/// The same in base64.
const FRAME_TEXT: &[u8] = b"AAAAAAVoZWxsbw==";

fn request(version: Version, path: &str, content_type: &str) -> Request<Full<Bytes>> {
    let frame = if content_type == TEXT {
        FRAME_TEXT
    } else {
        FRAME
    };
    Request::builder()
        .method(Method::POST)
        .version(version)
        .uri(format!("http://backend.example{path}"))
        .header("content-type", content_type)
        .header("authorization", "yes")
        .header("x-request-id", "from the caller")
        .body(Full::new(Bytes::from_static(frame)))
        .unwrap()
}

/// A base64 body of gRPC-Web: frames are padded one by one, so every four characters stand alone.
fn decode(text: &[u8]) -> Vec<u8> {
    let groups = text
        .chunks(4)
        .map(|group| BASE64_STANDARD.decode(group).unwrap());
    groups.flatten().collect()
}

/// The status a client sees: in the headers, in the trailers, or in the frame that ends the body.
fn status_of(headers: &HeaderMap, trailers: Option<&HeaderMap>, body: &[u8]) -> Option<String> {
    let named = headers
        .get("grpc-status")
        .or_else(|| trailers?.get("grpc-status"));
    let framed = || {
        let is_text = headers
            .get("content-type")
            .is_some_and(|value| value == TEXT);
        let body = if is_text { decode(body) } else { body.to_vec() };
        let text = String::from_utf8_lossy(&body).into_owned();
        let (_, rest) = text.split_once("grpc-status:")?;
        Some(
            rest.trim_start()
                .chars()
                .take_while(char::is_ascii_digit)
                .collect(),
        )
    };
    named
        .map(|value| value.to_str().unwrap().to_owned())
        .or_else(framed)
}

/// Reads a response to its end; answers its head, its body and the status a client sees.
async fn read(response: Response<Incoming>) -> (HeaderMap, Bytes, Option<String>) {
    let (head, body) = response.into_parts();
    let collected = body.collect().await.unwrap();
    let trailers = collected.trailers().cloned();
    let body = collected.to_bytes();
    let status = status_of(&head.headers, trailers.as_ref(), &body);
    (head.headers, body, status)
}

/// Goal: over every protocol and transport, one event has the real status and exactly the bytes the
/// client sent and received, gRPC-Web trailers included, and the id in the response is the one made
/// here. Method: a unary call, an answer of trailers alone, an error after data, and a body that is
/// over with its last frame and has no status. ARC-095, ARC-098.
#[tokio::test]
async fn every_protocol_is_accounted_alike() {
    let transports = [
        (Version::HTTP_2, NATIVE),
        (Version::HTTP_2, WEB),
        (Version::HTTP_2, TEXT),
        (Version::HTTP_11, WEB),
        (Version::HTTP_11, TEXT),
    ];
    for (version, content_type) in transports {
        for (path, code) in [
            ("/t.S/Unary", Code::Ok),
            ("/t.S/TrailersOnly", Code::NotFound),
            ("/t.S/Late", Code::Aborted),
            ("/t.S/Bare", Code::Unknown),
        ] {
            let claim = format!("{version:?} {content_type} {path}");
            let mut stack = Stack::start();
            let sent = request(version, path, content_type);
            let sent_bytes = sent
                .body()
                .clone()
                .collect()
                .await
                .unwrap()
                .to_bytes()
                .len();
            let mut client = stack.connect(version).await;
            let response = client.send(sent).await;
            assert_eq!(response.status(), StatusCode::OK, "{claim}");
            let (headers, body, status) = read(response).await;
            let event = stack.event().await;
            let expected = (path != "/t.S/Bare").then(|| code.number().to_string());
            assert_eq!(status, expected, "{claim}");
            assert_eq!(
                (event.done.ending, event.done.code),
                (Ending::Complete, code),
                "{claim}"
            );
            assert_eq!(event.done.response_bytes, body.len() as u64, "{claim}");
            assert_eq!(event.done.request_bytes, sent_bytes as u64, "{claim}");
            assert_eq!(
                headers["x-request-id"],
                event.request_id.as_str(),
                "{claim}"
            );
            assert_eq!(headers["access-control-allow-origin"], "*", "{claim}");
            assert!(
                headers.contains_key("access-control-expose-headers"),
                "{claim}"
            );
            stack.is_idle(&[code]).await;
        }
    }
}

/// Goal: a client that goes away cancels its request once, wherever it was. Method: drop the
/// connection before the headers, after them, and in the middle of the body. ARC-098.
#[tokio::test]
async fn a_client_that_goes_away_cancels_once() {
    for version in [Version::HTTP_2, Version::HTTP_11] {
        for (path, frames, bytes) in [
            ("/t.S/Hang", 0, 0),
            ("/t.S/Mute", 0, 0),
            ("/t.S/Stream", 2, 20),
        ] {
            let mut stack = Stack::start();
            let mut client = stack.connect(version).await;
            let sent = request(version, path, WEB);
            if path == "/t.S/Hang" {
                let waiting = tokio::time::timeout(Duration::from_millis(50), client.send(sent));
                assert!(waiting.await.is_err(), "it hangs");
            } else {
                let mut response = client.send(sent).await;
                let mut read = 0;
                while read < frames * 10 {
                    let frame = response.body_mut().frame().await.unwrap().unwrap();
                    read += frame.into_data().unwrap().len();
                }
                assert_eq!(stack.in_flight(), 1);
            }
            drop(client);
            let Event { done, .. } = stack.event().await;
            let claim = format!("{version:?} {path}");
            assert_eq!(
                (done.ending, done.code),
                (Ending::Dropped, Code::Cancelled),
                "{claim}"
            );
            assert_eq!(done.response_bytes, bytes, "{claim}");
            stack.is_idle(&[Code::Cancelled]).await;
        }
    }
}

/// Goal: a handler that panics is handled once, as an error of the server, and harms no other
/// request. Method: panic over HTTP/2, then call again on the same connection. ARC-098.
#[tokio::test]
async fn a_panicking_handler_is_handled_once() {
    let mut stack = Stack::start();
    let mut client = stack.connect(Version::HTTP_2).await;
    assert!(
        client
            .try_send(request(Version::HTTP_2, "/t.S/Panic", NATIVE))
            .await
            .is_err()
    );
    let Event { done, .. } = stack.event().await;
    assert_eq!((done.ending, done.code), (Ending::Panicked, Code::Internal));
    let response = client
        .send(request(Version::HTTP_2, "/t.S/Unary", NATIVE))
        .await;
    assert_eq!(read(response).await.2.as_deref(), Some("0"));
    assert_eq!(stack.event().await.done.code, Code::Ok);
    stack.is_idle(&[Code::Internal, Code::Ok]).await;
}

/// Goal: inbound frames count while a stream is open. Method: send ten frames one by one over a
/// stream that echoes, and compare the live total after each echo. ARC-095, ARC-098.
#[tokio::test]
async fn an_open_stream_is_counted_live() {
    let mut stack = Stack::start();
    let mut client = stack.connect(Version::HTTP_2).await;
    let (frames, body) = support::channel();
    let sent = request(Version::HTTP_2, "/t.S/Echo", NATIVE).map(|_| body);
    let mut response = client.send_channel(sent).await;
    for count in 1..=10 {
        frames.send(Bytes::from_static(FRAME)).unwrap();
        let echoed = response
            .body_mut()
            .frame()
            .await
            .unwrap()
            .unwrap()
            .into_data()
            .unwrap();
        assert_eq!(echoed, FRAME);
        let bytes = 10 * count;
        assert_eq!(stack.live_bytes(), (bytes, bytes));
        assert_eq!(stack.in_flight(), 1);
    }
    drop(frames);
    assert!(
        response
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .is_empty()
    );
    let Event { done, .. } = stack.event().await;
    assert_eq!((done.ending, done.code), (Ending::Complete, Code::Ok));
    assert_eq!((done.request_bytes, done.response_bytes), (100, 100));
    stack.is_idle(&[Code::Ok]).await;
}

/// Version, method, content type, whether a credential is sent; status, content type, code.
#[rustfmt::skip]
type OwnAnswer =
    (Version, Method, &'static str, bool, u16, Option<&'static str>, Code);

// A table reads by its columns.
#[rustfmt::skip]
const OWN_ANSWERS: [OwnAnswer; 8] = [
    (Version::HTTP_2, Method::POST, NATIVE, false, 200, Some(NATIVE), Code::Unauthenticated),
    (Version::HTTP_11, Method::POST, WEB, false, 200, Some(WEB), Code::Unauthenticated),
    (Version::HTTP_11, Method::POST, TEXT, false, 200, Some(TEXT), Code::Unauthenticated),
    (Version::HTTP_11, Method::GET, "text/html", false, 200, Some(NATIVE), Code::Unauthenticated),
    (Version::HTTP_11, Method::GET, WEB, false, 200, Some(WEB), Code::Unauthenticated),
    (Version::HTTP_11, Method::OPTIONS, "", false, 200, Some(NATIVE), Code::Unauthenticated),
    (Version::HTTP_11, Method::GET, "text/html", true, 400, None, Code::Unknown),
    (Version::HTTP_11, Method::GET, WEB, true, 405, None, Code::Unknown),
];

/// Goal: a refusal is an accounted answer in the protocol of the request, and the translation's own
/// answers come after admission. Method: requests without a credential, then requests the
/// translation does not like, with and without one. ARC-002, ARC-098.
#[tokio::test]
async fn refusals_come_before_the_translation_and_are_accounted() {
    for (version, method, content_type, credential, status, answered, code) in OWN_ANSWERS {
        let claim = format!("{version:?} {method} {content_type} {credential}");
        let mut stack = Stack::start();
        let mut sent = request(version, "/t.S/Unary", content_type);
        *sent.method_mut() = method;
        if !credential {
            sent.headers_mut().remove("authorization");
        }
        let mut client = stack.connect(version).await;
        let response = client.send(sent).await;
        assert_eq!(response.status(), status, "{claim}");
        let (headers, body, _) = read(response).await;
        assert!(body.is_empty(), "{claim}");
        let content_type = headers
            .get("content-type")
            .map(|value| value.to_str().unwrap());
        assert_eq!(content_type, answered, "{claim}");
        assert_eq!(headers["access-control-allow-origin"], "*", "{claim}");
        let Event { done, request_id } = stack.event().await;
        assert_eq!(headers["x-request-id"], request_id.as_str(), "{claim}");
        assert_eq!(
            (done.ending, done.code),
            (Ending::Complete, code),
            "{claim}"
        );
        assert_eq!((done.request_bytes, done.response_bytes), (0, 0), "{claim}");
        stack.is_idle(&[code]).await;
    }
}

/// Goal: a preflight is answered before everything else and leaves no trace. Method: send one
/// without a credential, while the gate is closed. ARC-002, ARC-095, ARC-098.
#[tokio::test]
async fn a_preflight_leaves_no_trace() {
    let mut stack = Stack::start();
    stack.gate.close();
    let mut sent = request(Version::HTTP_11, "/t.S/Unary", "");
    *sent.method_mut() = Method::OPTIONS;
    *sent.body_mut() = Full::default();
    let headers = sent.headers_mut();
    headers.clear();
    headers.insert("origin", "https://app.example".parse().unwrap());
    headers.insert("access-control-request-method", "POST".parse().unwrap());
    headers.insert(
        "access-control-request-headers",
        "authorization".parse().unwrap(),
    );
    let mut client = stack.connect(Version::HTTP_11).await;
    let response = client.send(sent).await;
    assert_eq!(response.status(), StatusCode::OK);
    let (headers, body, _) = read(response).await;
    assert_eq!(headers["access-control-allow-headers"], "authorization");
    assert!(!headers.contains_key("x-request-id"));
    assert!(body.is_empty());
    stack.is_idle(&[]).await;
}

/// Goal: after the closing, a bad credential gets its own answer, a good one `UNAVAILABLE`, health
/// still answers, and the wait ends when the last request has left. Method: one request hangs, the
/// gate closes, three come, then the deadline cuts the first. ARC-003.
#[tokio::test]
async fn a_shutdown_refuses_waits_and_cuts() {
    let mut stack = Stack::start();
    let mut hanging = stack.connect(Version::HTTP_11).await;
    let hanging = tokio::spawn(async move {
        hanging
            .send(request(Version::HTTP_11, "/t.S/Hang", WEB))
            .await
    });
    while stack.gate.in_flight() == 0 {
        tokio::task::yield_now().await;
    }
    stack.gate.close();
    let mut client = stack.connect(Version::HTTP_2).await;
    let mut bad = request(Version::HTTP_2, "/t.S/Unary", NATIVE);
    bad.headers_mut().remove("authorization");
    let cases = [
        (bad, "16"),
        (request(Version::HTTP_2, "/t.S/Unary", NATIVE), "14"),
        (
            request(Version::HTTP_2, "/grpc.health.v1.Health/Check", NATIVE),
            "0",
        ),
    ];
    for (sent, status) in cases {
        assert_eq!(
            read(client.send(sent).await).await.2.as_deref(),
            Some(status)
        );
    }
    let drained = stack.gate.drained();
    assert!(
        tokio::time::timeout(Duration::from_millis(50), drained)
            .await
            .is_err()
    );
    stack.gate.cut();
    tokio::time::timeout(Duration::from_secs(10), stack.gate.drained())
        .await
        .unwrap();
    let (headers, _, status) = read(hanging.await.unwrap()).await;
    assert_eq!(status.as_deref(), Some("14"));
    assert_eq!(headers["content-type"], WEB);
    let mut codes = Vec::new();
    for _ in 0..4 {
        codes.push(stack.event().await.done.code);
    }
    codes.sort_unstable();
    assert_eq!(
        codes,
        [
            Code::Ok,
            Code::Unavailable,
            Code::Unavailable,
            Code::Unauthenticated
        ]
    );
    // Health is told complete, but not metered.
    stack
        .is_idle(&[Code::Unauthenticated, Code::Unavailable, Code::Unavailable])
        .await;
}

/// Goal: the trace context and the scope reach the handler. Method: the handler answers in headers
/// what it found. ARC-099.
#[tokio::test]
async fn the_handler_runs_inside_the_scope_of_its_trace() {
    let stack = Stack::start();
    let mut sent = request(Version::HTTP_2, "/t.S/Unary", NATIVE);
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    sent.headers_mut()
        .insert("traceparent", parent.parse().unwrap());
    let mut client = stack.connect(Version::HTTP_2).await;
    let response = client.send(sent).await;
    assert_eq!(
        response.headers()["x-trace"],
        "4bf92f3577b34da6a3ce929d0e0e4736"
    );
    assert_eq!(response.headers()["x-scopes"], "1");
    let without = request(Version::HTTP_2, "/t.S/Unary", NATIVE);
    let mut client = stack.connect(Version::HTTP_2).await;
    let response = client.send(without).await;
    assert!(!response.headers().contains_key("x-trace"));
    assert_eq!(response.headers()["x-scopes"], "1");
}
