//! Which paths need a credential: judged by the raw path alone, whatever the method, the content type
//! and the body (ARC-002).
//!
//! Requests are written byte by byte, so that no client library tidies a path.

use std::net::SocketAddr;

use harness::{TestServer, Transport, eventually};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::auth::{BOT, NOW, deployment, token};
use serde_json::json;

/// Sends the head of an HTTP/1.1 request and a body, and reads everything that comes back.
async fn raw(address: SocketAddr, line: &str, headers: &[&str], body: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let headers: String = headers
        .iter()
        .map(|header| format!("{header}\r\n"))
        .collect();
    let head = format!("{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut answer = Vec::new();
    // A server that answers before it has read everything may reset the connection.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).to_lowercase()
}

/// The status of an answer, from headers or from a trailers frame.
fn grpc_status(answer: &str) -> Option<u32> {
    let (_, rest) = answer.split_once("grpc-status:")?;
    let digits = rest
        .trim_start()
        .split(|c: char| !c.is_ascii_digit())
        .next()?;
    digits.parse().ok()
}

/// One empty gRPC-Web message.
const EMPTY: &[u8] = &[0; 5];

/// Sends an empty gRPC-Web message to a path, and answers the status.
async fn post(server: &TestServer, path: &str, credential: Option<&str>) -> Option<u32> {
    let authorization = credential.map(|credential| format!("authorization: Bearer {credential}"));
    let mut headers = vec![
        "content-type: application/grpc-web+proto",
        "content-length: 5",
    ];
    headers.extend(authorization.as_deref());
    let answer = raw(server.address(), &format!("POST {path}"), &headers, EMPTY).await;
    assert!(answer.starts_with("http/1.1 200"), "{path}: {answer}");
    grpc_status(&answer)
}

const OK: u32 = 0;
const UNIMPLEMENTED: u32 = 12;
const MISSING: u32 = 16;

/// Paths, and the status without a credential, which says who answered.
const PATHS: [(&str, &str, u32); 24] = [
    ("86", "/nope/Nope", MISSING),
    ("89", "/grpc.health.v1.Health/Check", OK),
    ("92", "/grpc.health.v1.Other/X", UNIMPLEMENTED),
    ("93", "//grpc.health.v1.Health/Check", MISSING),
    ("94", "/grpc.health.v1/Health/Check", MISSING),
    ("95", "/grpc.health.v1.Health/Check/", UNIMPLEMENTED),
    ("96", "/GRPC.health.v1.Health/Check", MISSING),
    ("97", "/grpc%2Ehealth.v1.Health/Check", MISSING),
    ("97", "/%67rpc.health.v1.Health/Check", MISSING),
    (
        "98",
        "/grpc.health.v1.%2e%2e/xmtp.backend.v1.QueryService/Query",
        UNIMPLEMENTED,
    ),
    (
        "98",
        "/grpc.health.v1./../xmtp.backend.v1.QueryService/Query",
        UNIMPLEMENTED,
    ),
    ("99", "/./grpc.health.v1.Health/Check", MISSING),
    ("99", "/x/../grpc.health.v1.Health/Check", MISSING),
    ("100", "/grpc.health.v1.Health/Check?x=1", OK),
    (
        "101",
        "/xmtp.backend.v1.QueryService/Query?/grpc.health.v1.",
        MISSING,
    ),
    (
        "102",
        "/xmtp.backend.v1.ConfigurationService/GetConfiguration",
        OK,
    ),
    (
        "102",
        "/xmtp.backend.v1.ConfigurationService/",
        UNIMPLEMENTED,
    ),
    ("103", "/xmtp.backend.v1.ConfigurationService", MISSING),
    ("104", "/xmtp.backend.v1.ConfigurationServiceX/Get", MISSING),
    ("a service", "/xmtp.backend.v1.QueryService/Query", MISSING),
    ("the root", "/", MISSING),
    (
        "absolute form, public",
        "http://x/grpc.health.v1.Health/Check",
        OK,
    ),
    (
        "absolute form",
        "http://grpc.health.v1.Health/xmtp.backend.v1.QueryService/Query",
        MISSING,
    ),
    ("105", "http://x", MISSING),
];

/// Goal: exactly two prefixes are public, byte for byte, and the router reads the same path. Method:
/// the paths above without a credential and, where they are public, with garbage.
#[tokio::test]
async fn two_prefixes_are_public() {
    let server = deployment().start().await;
    let mut missing = 0;
    for (row, path, expected) in PATHS {
        assert_eq!(
            post(&server, path, None).await,
            Some(expected),
            "{row} {path}"
        );
        missing += u64::from(expected == MISSING);
        if expected != MISSING {
            let answer = post(&server, path, Some("garbage")).await;
            assert_eq!(answer, Some(expected), "90 {path}");
        }
    }
    // Nothing public was counted.
    let rejections = async |reason: &str| {
        let series = format!("xmtp_auth_rejections_total{{reason=\"{reason}\"}}");
        server.metric(&series).await
    };
    assert_eq!(rejections("missing").await, missing);
    assert_eq!(rejections("malformed").await, 0);
    let unknown = "grpc_server_started_total{grpc_method=\"unknown\",grpc_service=\"unknown\",grpc_type=\"unary\"}";
    assert!(server.metric(unknown).await > 0, "92");
    server.stop().await;
}

/// Goal: a path that nobody serves is judged like any other. Method: with a good credential, without
/// the scope and with an API key.
#[tokio::test]
async fn unknown_paths_need_a_credential_and_its_scope() {
    let server = deployment().start().await;
    let path = "/nope/Nope";
    assert_eq!(
        post(&server, path, Some(&token(json!({})))).await,
        Some(12),
        "87"
    );
    let without_scope = token(json!({"scope": "x"}));
    assert_eq!(
        post(&server, path, Some(&without_scope)).await,
        Some(7),
        "88"
    );
    assert_eq!(post(&server, path, Some(BOT)).await, Some(12));
    server.stop().await;
}

/// Requests without a credential that the layers behind would answer with statuses of HTTP: method,
/// headers, and the content type of the answer.
const REQUESTS: [(&str, &str, &[&str], &str); 9] = [
    ("107", "OPTIONS", &[], GRPC),
    ("108", "OPTIONS", &["origin: https://app.example"], GRPC),
    (
        "108",
        "OPTIONS",
        &["access-control-request-method: POST"],
        GRPC,
    ),
    ("109", "GET", &[], GRPC),
    ("DELETE", "DELETE", &[], GRPC),
    ("GET of gRPC-Web", "GET", &[OF_WEB], WEB),
    ("110", "POST", &[OF_WEB, "content-length: 0"], WEB),
    (
        "110 text",
        "POST",
        &[OF_WEB_TEXT, "content-length: 0"],
        WEB_TEXT,
    ),
    // The body is announced and never sent: whoever waits for it waits for ever.
    (
        "111",
        "POST",
        &["content-type: x/y", "content-length: 99999999"],
        GRPC,
    ),
];

const GRPC: &str = "application/grpc";
const WEB: &str = "application/grpc-web+proto";
const WEB_TEXT: &str = "application/grpc-web-text+proto";
const OF_WEB: &str = "content-type: application/grpc-web+proto";
const OF_WEB_TEXT: &str = "content-type: application/grpc-web-text";

/// Checks that an answer refuses a missing credential, in the words of one protocol.
fn assert_missing(row: &str, answer: &str, content_type: &str) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("http/1.1 200"), "{row}: {head}");
    let values = |name: &str| -> Vec<&str> {
        let lines = head.lines();
        lines
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            .collect()
    };
    assert_eq!(values("content-type"), [content_type], "{row}");
    assert_eq!(values("grpc-status"), ["16"], "{row}");
    assert_eq!(values("grpc-message"), ["missing bearer token"], "{row}");
    assert_eq!(values("access-control-allow-origin"), ["*"], "{row}");
    assert!(
        values("access-control-expose-headers")[0].contains("grpc-status"),
        "{row}"
    );
    assert!(
        Uuid::parse_str(values("x-request-id")[0]).is_ok(),
        "{row}: {head}"
    );
    assert_eq!(values("www-authenticate"), [""; 0], "{row}");
    assert_eq!(body, "", "{row}");
}

/// Goal: the method, the content type and the body change nothing. Method: the requests above, and no
/// byte of a body is consumed.
#[tokio::test]
async fn nothing_but_the_path_counts() {
    let server = deployment().start().await;
    let path = "/xmtp.backend.v1.QueryService/Query";
    for (row, method, headers, content_type) in REQUESTS {
        let answer = raw(server.address(), &format!("{method} {path}"), headers, b"").await;
        assert_missing(row, &answer, content_type);
    }
    let star = raw(server.address(), "OPTIONS *", &[], b"").await;
    assert_eq!(grpc_status(&star), Some(16), "105");
    let labels =
        "grpc_method=\"Query\",grpc_service=\"xmtp.backend.v1.QueryService\",grpc_type=\"unary\"";
    let bytes = format!("grpc_server_request_bytes_total{{{labels}}}");
    assert_eq!(server.metric(&bytes).await, 0, "a body was read");
    let in_flight = format!("grpc_server_in_flight{{{labels}}}");
    eventually("nothing is in flight", async || {
        server.metric(&in_flight).await == 0
    })
    .await;
    server.stop().await;
}

/// Goal: a preflight needs no credential and is no request. Method: a preflight with a garbage
/// credential, and the metrics after it.
#[tokio::test]
async fn a_preflight_needs_no_credential() {
    let server = deployment().start().await;
    let headers = [
        "origin: https://app.example",
        "access-control-request-method: POST",
        "access-control-request-headers: authorization,content-type",
        "authorization: garbage",
    ];
    let answer = raw(
        server.address(),
        "OPTIONS /xmtp.backend.v1.QueryService/Query",
        &headers,
        b"",
    )
    .await;
    assert!(answer.starts_with("http/1.1 200"), "{answer}");
    assert!(
        answer.contains("access-control-allow-headers: authorization,content-type"),
        "{answer}"
    );
    assert!(!answer.contains("x-request-id: "), "{answer}");
    assert_eq!(grpc_status(&answer), None);
    let exposition = server.exposition().await;
    assert!(
        !exposition.contains("grpc_server_started_total{"),
        "{exposition}"
    );
    assert!(
        !exposition.contains("xmtp_auth_rejections_total{"),
        "{exposition}"
    );
    server.stop().await;
}

/// Goal: two headers are refused whatever the HTTP version. Method: two good credentials, one behind
/// the other, as raw HTTP/1.1 and over every transport.
#[tokio::test]
async fn two_credentials_are_refused() {
    let server = deployment().start().await;
    let header = format!("authorization: Bearer {BOT}");
    let headers = [header.as_str(), &header];
    let answer = raw(server.address(), "GET /", &headers, b"").await;
    assert!(
        answer.contains("authorization header is not a bearer token"),
        "{answer}"
    );
    let mut headers = crate::auth::authorization(Some(&format!("Bearer {BOT}")));
    headers.append("authorization", format!("Bearer {BOT}").parse().unwrap());
    for transport in Transport::ALL {
        let request = envelope::wire::xmtp::backend::v1::QueryRequest::default();
        let answer: Result<envelope::wire::xmtp::backend::v1::QueryResponse, _> = transport
            .call_with(server.address(), crate::auth::QUERY, &headers, &request)
            .await;
        let status = answer.unwrap_err();
        let text = "authorization header is not a bearer token";
        assert_eq!(status.message(), text, "{transport:?} at {NOW}");
    }
    server.stop().await;
}
