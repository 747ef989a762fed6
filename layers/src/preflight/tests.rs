//! What counts as a preflight, and the headers of both kinds of answer.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS};
use http::{HeaderName, Method, Request, Response, StatusCode};
use http_body::Body;
use tower::{Layer, ServiceExt, service_fn};

use super::{PreflightBody, PreflightLayer};
use crate::scripted::{Broken, ScriptedBody};

const EXPOSED: [HeaderName; 2] = [
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("x-request-id"),
];

/// Sends one request through the layer; answers the response and how often the inner service ran.
async fn send(
    method: Method,
    headers: &[(&str, &str)],
) -> (Response<PreflightBody<ScriptedBody>>, usize) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let service = PreflightLayer::exposing(&EXPOSED).layer(service_fn(move |_: Request<()>| {
        counter.fetch_add(1, Ordering::Relaxed);
        async {
            let refusal = Response::builder()
                .status(StatusCode::IM_A_TEAPOT)
                .header(ACCESS_CONTROL_ALLOW_ORIGIN, "https://only.example")
                .body(ScriptedBody::empty());
            Ok::<_, Infallible>(refusal.unwrap())
        }
    }));
    let mut request = Request::builder().method(method);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = service.oneshot(request.body(()).unwrap()).await.unwrap();
    (response, calls.load(Ordering::Relaxed))
}

/// Name and value.
type Header = (&'static str, &'static str);

const ORIGIN: Header = ("origin", "https://app.example");
const METHOD: Header = ("access-control-request-method", "POST");
const HEADERS: Header = (
    "access-control-request-headers",
    "authorization,x-grpc-web,traceparent,tracestate",
);

/// Goal: only the three-part definition is a preflight. Method: every subset of its parts, and other
/// methods; an ordinary request must reach the inner service. ARC-002.
#[tokio::test]
async fn only_all_three_parts_make_a_preflight() {
    let cases: [(Method, &[Header], bool); 8] = [
        (Method::OPTIONS, &[ORIGIN, METHOD], true),
        (Method::OPTIONS, &[ORIGIN, METHOD, HEADERS], true),
        (Method::OPTIONS, &[], false),
        (Method::OPTIONS, &[ORIGIN], false),
        (Method::OPTIONS, &[METHOD], false),
        (Method::OPTIONS, &[HEADERS, ORIGIN], false),
        (Method::POST, &[ORIGIN, METHOD, HEADERS], false),
        (Method::GET, &[ORIGIN, METHOD], false),
    ];
    for (method, headers, preflight) in cases {
        let (response, calls) = send(method.clone(), headers).await;
        assert_eq!(calls, usize::from(!preflight), "{method} {headers:?}");
        let status = if preflight {
            StatusCode::OK
        } else {
            StatusCode::IM_A_TEAPOT
        };
        assert_eq!(response.status(), status, "{method} {headers:?}");
    }
}

/// Goal: a preflight is answered with what was asked for and nothing a browser would keep. Method:
/// the exact header set, with and without requested headers. ARC-002, ARC-099.
#[tokio::test]
async fn a_preflight_is_mirrored() {
    let vary = "access-control-request-method, access-control-request-headers";
    let (response, _) = send(Method::OPTIONS, &[ORIGIN, METHOD, HEADERS]).await;
    let mut headers: Vec<_> = response
        .headers()
        .iter()
        .map(|(n, v)| (n.as_str(), v.to_str().unwrap()))
        .collect();
    headers.sort_unstable();
    assert_eq!(
        headers,
        [
            ("access-control-allow-headers", HEADERS.1),
            ("access-control-allow-methods", METHOD.1),
            ("access-control-allow-origin", "*"),
            ("vary", vary),
        ]
    );
    assert!(response.body().is_end_stream());

    let (response, _) = send(Method::OPTIONS, &[ORIGIN, METHOD]).await;
    assert_eq!(response.headers().len(), 3);

    let more = ("access-control-request-headers", "x-more");
    let (response, _) = send(Method::OPTIONS, &[ORIGIN, METHOD, HEADERS, more]).await;
    let allowed: Vec<_> = response
        .headers()
        .get_all("access-control-allow-headers")
        .iter()
        .collect();
    assert_eq!(allowed, [HEADERS.1, more.1]);
}

/// Goal: every other response can be read by a page, refusals included, and what an inner layer
/// said about origins is replaced. Method: with and without an origin. ARC-002.
#[tokio::test]
async fn every_other_response_is_readable() {
    for headers in [&[][..], &[ORIGIN][..], &[ORIGIN, METHOD][..]] {
        let (response, _) = send(Method::POST, headers).await;
        let origins: Vec<_> = response
            .headers()
            .get_all(ACCESS_CONTROL_ALLOW_ORIGIN)
            .iter()
            .collect();
        assert_eq!(origins, ["*"]);
        assert_eq!(
            response.headers()[ACCESS_CONTROL_EXPOSE_HEADERS],
            "grpc-status,x-request-id"
        );
        assert_eq!(response.headers().len(), 2);
    }
}

/// Goal: a layer with nothing to expose says nothing about it, and errors pass unchanged. Method: an
/// empty list around a good and a failing service.
#[tokio::test]
async fn nothing_to_expose_and_errors_pass() {
    let layer = PreflightLayer::exposing(&[]);
    let good = layer.layer(service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(ScriptedBody::empty()))
    }));
    let response = good.oneshot(Request::new(())).await.unwrap();
    assert!(
        !response
            .headers()
            .contains_key(ACCESS_CONTROL_EXPOSE_HEADERS)
    );
    let bad = layer.layer(service_fn(|_: Request<()>| async {
        Err::<Response<ScriptedBody>, _>(Broken)
    }));
    assert_eq!(bad.oneshot(Request::new(())).await.err(), Some(Broken));
}
