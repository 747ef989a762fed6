//! The stack of layers around the real services, as a client meets it (ARC-002, ARC-003, ARC-095,
//! ARC-098).

use bytes::Bytes;
use envelope::wire::xmtp::backend::v1::{PublishRequest, PublishResponse};
use envelope::{Limits, fixtures};
use harness::{AdvisoryLock, Form, Http, TestServer, Transport, WebCall, eventually};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use tonic::Code;
use tonic::Status;

const PUBLISH: &str = "/xmtp.backend.v1.PublishService/Publish";

/// Sends a request over HTTP/1.1, as a browser would.
async fn send(server: &TestServer, method: Method, headers: &[(&str, &str)]) -> Response<Incoming> {
    let mut request = Request::builder()
        .method(method)
        .uri(format!("http://{}{PUBLISH}", server.address()))
        .header("host", server.address().to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let call = WebCall {
        address: server.address(),
        http: Http::One,
        form: Form::Binary,
    };
    call.send(request).await
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers
        .get(name)
        .map_or("", |value| value.to_str().unwrap())
}

/// A page of another origin may ask for what clients send, and the answer is never cached.
#[tokio::test]
async fn a_preflight_is_answered_with_what_it_asked_for() {
    let server = TestServer::start().await;
    let asked = "authorization,content-type,x-grpc-web,x-libxmtp-version,traceparent";
    let preflight = [
        ("origin", "https://app.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", asked),
    ];
    let response = send(&server, Method::OPTIONS, &preflight).await;
    assert_eq!(response.status(), 200);
    let headers = response.headers();
    assert_eq!(header(headers, "access-control-allow-origin"), "*");
    assert_eq!(header(headers, "access-control-allow-methods"), "POST");
    assert_eq!(header(headers, "access-control-allow-headers"), asked);
    assert!(!headers.contains_key("access-control-max-age"));
    assert_eq!(server.metric("grpc_server_started_total").await, 0);
    server.stop().await;
}

/// A page can read status, detail and request id of a refusal, and cannot choose the id.
#[tokio::test]
async fn a_refusal_can_be_read_by_a_page() {
    let server = TestServer::start().await;
    // The body is empty: not even one message.
    let headers = [
        ("content-type", "application/grpc-web+proto"),
        ("origin", "https://app.example"),
        ("x-request-id", "chosen by the caller"),
    ];
    let response = send(&server, Method::POST, &headers).await;
    let headers = response.headers();
    assert_eq!(header(headers, "access-control-allow-origin"), "*");
    let exposed = header(headers, "access-control-expose-headers").to_ascii_lowercase();
    for name in [
        "grpc-status",
        "grpc-message",
        "grpc-status-details-bin",
        "x-request-id",
    ] {
        assert!(
            exposed.split(',').any(|found| found.trim() == name),
            "{name} in {exposed}"
        );
    }
    let id = header(headers, "x-request-id");
    assert!(uuid::Uuid::parse_str(id).is_ok(), "{id}");
    server.stop().await;
}

/// One request is one request in the metrics, whatever the protocol and whatever the outcome.
#[tokio::test]
async fn requests_are_counted_once_with_their_status() {
    let server = TestServer::start().await;
    for transport in Transport::ALL {
        let good = PublishRequest {
            envelopes: fixtures::valid(7)[..1].to_vec(),
        };
        let _: PublishResponse = transport
            .call_path(server.address(), PUBLISH, &good)
            .await
            .unwrap();
        let bad = PublishRequest {
            envelopes: vec![Default::default()],
        };
        let refused: Result<PublishResponse, Status> =
            transport.call_path(server.address(), PUBLISH, &bad).await;
        assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    }
    let labels = "grpc_method=\"Publish\",grpc_service=\"xmtp.backend.v1.PublishService\",grpc_type=\"unary\"";
    let handled =
        |code: &str| format!("grpc_server_handled_total{{grpc_code=\"{code}\",{labels}}}");
    for code in ["OK", "InvalidArgument"] {
        eventually("every request is counted", async || {
            server.metric(&handled(code)).await == Transport::ALL.len() as u64
        })
        .await;
    }
    assert_eq!(
        server
            .metric(&format!("grpc_server_in_flight{{{labels}}}"))
            .await,
        0
    );
    server.stop().await;
}

/// Goal: shutdown refuses what is new and finishes what runs. Method: a publish waits for a lock that
/// the test holds while the server is asked to stop.
#[tokio::test]
async fn shutdown_finishes_what_runs_and_refuses_what_is_new() {
    let server = TestServer::start().await;
    let address = server.address();
    let locks = server.database().advisory_locks().await;
    let [message, ..] = fixtures::valid(1);
    let bounds = Limits {
        envelope_bytes_max: usize::MAX,
        contract_signatures_max: 0,
    };
    let topic = envelope::parse(message.clone(), bounds).unwrap().topic;
    let lock = AdvisoryLock::of_topic(topic.as_bytes());
    let held = locks.hold(lock).await;
    let running = server.begin_publish(Transport::Native, vec![message.clone()]);
    locks.until_waiting(lock, 1).await;
    drop(locks);

    let stopping = tokio::spawn(server.stop_keeping_database());
    eventually("new requests are refused", async || {
        let request = PublishRequest {
            envelopes: vec![message.clone()],
        };
        let refused: Result<PublishResponse, Status> = Transport::WebHttp1
            .call_path(address, PUBLISH, &request)
            .await;
        refused.is_err_and(|status| status.code() == Code::Unavailable)
    })
    .await;
    assert!(!stopping.is_finished());
    held.release().await;
    assert_eq!(running.await.unwrap().unwrap().envelope_metas.len(), 1);
    stopping.await.unwrap().drop().await;
}
