//! Who is asked, who is let in, and how the others are answered.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use http::{Method, Request, Response, StatusCode, Uri};
use http_body::Body;
use tower::{Layer, Service, ServiceExt, service_fn};

use super::{AdmissionBody, AdmissionLayer, Attempt, Verify};
use crate::code::Code;
use crate::record::Record;
use crate::refusal::Refusal;
use crate::scripted::{Broken, ScriptedBody, Step, poll_once};

const PUBLIC: &[&str] = &["/grpc.health.v1.", "/shop.Door/"];
const MISSING: Refusal = Refusal::new(Code::Unauthenticated, "missing bearer token");
const SCOPE: Refusal = Refusal::new(Code::PermissionDenied, "token is missing a required scope");

#[derive(Clone, Debug, PartialEq, Eq)]
struct Principal(String);

/// Lets `key ...` in, denies `token ...`, refuses the rest; counts how often it is asked.
#[derive(Clone, Default)]
struct Keys(Arc<AtomicUsize>);

impl Verify for Keys {
    type Principal = Principal;
    type Future = Ready<Result<Principal, Refusal>>;

    fn verify(&self, attempt: Attempt<'_>) -> Self::Future {
        self.0.fetch_add(1, Ordering::Relaxed);
        let credential = attempt
            .headers
            .get("authorization")
            .and_then(|v| v.to_str().ok());
        ready(match credential.and_then(|c| c.split_once(' ')) {
            Some(("key", name)) => Ok(Principal(format!("{name} at {}", attempt.path))),
            Some(("token", _)) => Err(SCOPE),
            Some(_) | None => Err(MISSING),
        })
    }
}

/// Sends one request; answers the response, what the inner service saw of a principal, and how often
/// the verifier was asked.
async fn send(
    request: Request<ScriptedBody>,
) -> (
    Response<AdmissionBody<ScriptedBody>>,
    Option<Option<Principal>>,
    usize,
) {
    let keys = Keys::default();
    let layer = AdmissionLayer::new(Some(keys.clone()), PUBLIC);
    let (seen, inner) = std::sync::mpsc::channel();
    let service = layer.layer(service_fn(move |request: Request<ScriptedBody>| {
        let _ = seen.send(request.extensions().get::<Principal>().cloned());
        ready(Ok::<_, Infallible>(Response::new(request.into_body())))
    }));
    let response = service.oneshot(request).await.unwrap();
    (
        response,
        inner.try_recv().ok(),
        keys.0.load(Ordering::Relaxed),
    )
}

fn request(method: Method, target: &str, headers: &[(&str, &str)]) -> Request<ScriptedBody> {
    let mut request = Request::builder()
        .method(method)
        .uri(target.parse::<Uri>().unwrap());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    // A body that unwinds when it is polled: admission must not do that.
    request
        .body(ScriptedBody::new(&[Step::Panic], true))
        .unwrap()
}

/// Goal: exactly the raw paths that start with a prefix are public. Method: table of targets around
/// the prefixes, encoded, doubled, dotted, cased and in absolute form, with a bad credential. A
/// public request must reach the inner service unasked and without a principal.
#[tokio::test]
async fn raw_paths_alone_decide_what_is_public() {
    let cases = [
        ("/grpc.health.v1.Health/Check", true),
        ("/grpc.health.v1.", true),
        ("/grpc.health.v1.Other/X", true),
        ("/grpc.health.v1.Health/Check/", true),
        ("/grpc.health.v1.Health/Check?x=1", true),
        ("/grpc.health.v1.%2e%2e/shop.Till/Pay", true),
        ("/shop.Door/", true),
        ("/shop.Door/Knock", true),
        ("http://shop.example/shop.Door/Knock", true),
        ("/grpc.health.v1", false),
        ("/grpc.health.v1/Health/Check", false),
        ("//grpc.health.v1.Health/Check", false),
        ("/GRPC.health.v1.Health/Check", false),
        ("/grpc%2Ehealth.v1.Health/Check", false),
        ("/%67rpc.health.v1.Health/Check", false),
        ("/./grpc.health.v1.Health/Check", false),
        ("/x/../grpc.health.v1.Health/Check", false),
        ("/shop.Door", false),
        ("/shop.DoorX/Knock", false),
        ("/shop.Till/Pay?/shop.Door/", false),
        ("http://shop.Door/", false),
        ("http://shop.example", false),
        ("/nope", false),
        ("/", false),
        ("*", false),
        ("shop.example:443", false),
    ];
    for (target, public) in cases {
        let garbage = [("authorization", "garbage")];
        let (response, seen, asked) = send(request(Method::POST, target, &garbage)).await;
        if public {
            assert_eq!((seen, asked), (Some(None), 0), "{target}");
            assert!(response.headers().is_empty(), "{target}");
        } else {
            assert_eq!((seen, asked), (None, 1), "{target}");
            assert_eq!(response.headers()["grpc-status"], "16", "{target}");
        }
    }
}

/// Goal: refusals look the same for every method and speak the protocol of the request. Method:
/// table of methods, content types and credentials, against the whole header set; the body of the
/// request would unwind if it was polled.
#[tokio::test]
async fn refusals_speak_the_callers_protocol() {
    let protocols = [
        (None, "application/grpc"),
        (Some("application/grpc"), "application/grpc"),
        (Some("text/html"), "application/grpc"),
        (
            Some("application/grpc-web+proto"),
            "application/grpc-web+proto",
        ),
        (
            Some("application/grpc-web-text"),
            "application/grpc-web-text+proto",
        ),
    ];
    let credentials = [
        (None, "16", "missing bearer token"),
        (Some("token t"), "7", "token is missing a required scope"),
    ];
    for method in [
        Method::POST,
        Method::GET,
        Method::OPTIONS,
        Method::PUT,
        Method::HEAD,
    ] {
        for (sent, answered) in protocols {
            for (credential, status, message) in credentials {
                let mut headers = Vec::new();
                headers.extend(sent.map(|value| ("content-type", value)));
                headers.extend(credential.map(|value| ("authorization", value)));
                let mut request = request(method.clone(), "/shop.Till/Pay", &headers);
                let record = Record::of(request.extensions_mut());
                let (response, seen, asked) = send(request).await;
                assert_eq!((seen, asked), (None, 1));
                assert_eq!(response.status(), StatusCode::OK);
                assert_eq!(response.headers().len(), 3);
                assert_eq!(response.headers()["content-type"], answered);
                assert_eq!(response.headers()["grpc-status"], status);
                assert_eq!(response.headers()["grpc-message"], message);
                assert!(response.body().is_end_stream());
                assert_eq!(
                    record.status().map(|code| code.number().to_string()),
                    Some(status.into())
                );
            }
        }
    }
}

/// Goal: an admitted request carries its principal, keeps its body and notes no status. Method: a
/// good credential.
#[tokio::test]
async fn an_admitted_request_carries_its_principal() {
    let mut request = request(
        Method::POST,
        "/shop.Till/Pay?x",
        &[("authorization", "key bob")],
    );
    let record = Record::of(request.extensions_mut());
    let (response, seen, asked) = send(request).await;
    assert_eq!(
        (seen, asked),
        (Some(Some(Principal("bob at /shop.Till/Pay".to_owned()))), 1)
    );
    assert!(response.headers().is_empty());
    assert!(!response.body().is_end_stream());
    assert_eq!(record.status(), None);
}

/// Goal: without a verifier everything is let in and no principal appears. Method: a protected path
/// with and without a credential.
#[tokio::test]
async fn no_verifier_admits_everything() {
    for headers in [&[][..], &[("authorization", "garbage")]] {
        let layer = AdmissionLayer::<Keys>::new(None, PUBLIC);
        let service = layer.layer(service_fn(|request: Request<ScriptedBody>| async move {
            assert!(request.extensions().get::<Principal>().is_none());
            Ok::<_, Infallible>(Response::new(ScriptedBody::empty()))
        }));
        let response = service
            .oneshot(request(Method::GET, "/nope", headers))
            .await
            .unwrap();
        assert!(response.headers().is_empty());
    }
}

/// Goal: the inner service runs after the verdict, never before it, and never for a request that was
/// dropped while it was judged. Method: a verdict that waits for a signal.
#[tokio::test]
async fn nothing_runs_before_the_verdict() {
    let calls = Arc::new(AtomicUsize::new(0));
    let (signal, verdicts) = tokio::sync::watch::channel(false);
    let verify = move |_: Attempt<'_>| {
        let mut verdict = verdicts.clone();
        async move {
            let _ = verdict.wait_for(|given| *given).await;
            Ok::<_, Refusal>(Principal("anyone".to_owned()))
        }
    };
    let counter = Arc::clone(&calls);
    let mut service = AdmissionLayer::new(Some(verify), PUBLIC).layer(service_fn(
        move |_: Request<ScriptedBody>| {
            counter.fetch_add(1, Ordering::Relaxed);
            ready(Ok::<_, Infallible>(Response::new(ScriptedBody::empty())))
        },
    ));
    let mut dropped = Box::pin(service.call(request(Method::GET, "/nope", &[])));
    assert!(poll_once(dropped.as_mut()).is_pending());
    let mut waiting = pin!(service.call(request(Method::GET, "/nope", &[])));
    assert!(poll_once(waiting.as_mut()).is_pending());
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    drop(dropped);
    signal.send(true).unwrap();
    assert!(matches!(poll_once(waiting.as_mut()), Poll::Ready(Ok(_))));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

/// Goal: the service that was found ready is the one that is called. Method: an inner service whose
/// clones are not ready, and which unwinds when called unready.
#[tokio::test]
async fn the_ready_service_is_called() {
    struct ReadyOnce(bool);
    impl Clone for ReadyOnce {
        fn clone(&self) -> Self {
            Self(false)
        }
    }
    impl Service<Request<ScriptedBody>> for ReadyOnce {
        type Response = Response<ScriptedBody>;
        type Error = Broken;
        type Future = Ready<Result<Response<ScriptedBody>, Broken>>;

        fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), Broken>> {
            self.0 = true;
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request<ScriptedBody>) -> Self::Future {
            assert!(std::mem::take(&mut self.0), "called without being ready");
            ready(Err(Broken))
        }
    }
    let mut service = AdmissionLayer::new(Some(Keys::default()), PUBLIC).layer(ReadyOnce(false));
    for target in ["/shop.Door/Knock", "/shop.Till/Pay", "/shop.Till/Pay"] {
        let request = request(Method::GET, target, &[("authorization", "key bob")]);
        let answered = service.ready().await.unwrap().call(request).await;
        assert_eq!(answered.err(), Some(Broken), "errors pass unchanged");
    }
}
