//! The gate before, during and after its closing, and the wait for the last request.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body::Body;
use tower::{Layer, Service, ServiceExt, service_fn};

use super::{DrainBody, DrainHandle, gate};
use crate::code::Code;
use crate::record::Record;
use crate::scripted::{Broken, ScriptedBody, Step, poll, poll_once};

const EXEMPT: &[&str] = &["/grpc.health.v1."];

/// A gated service that answers `/wait` never, `/fail` with an error and everything else at once.
fn gated() -> (
    impl Service<
        Request<()>,
        Response = Response<DrainBody<ScriptedBody>>,
        Error = Broken,
        Future: Send,
    > + Clone,
    DrainHandle,
) {
    let (layer, handle) = gate(EXEMPT);
    let service = layer.layer(service_fn(|request: Request<()>| async move {
        match request.uri().path() {
            "/wait" | "/grpc.health.v1.Health/Wait" => pending().await,
            "/fail" => Err(Broken),
            _ => Ok(Response::new(ScriptedBody::new(&[Step::Data(1)], true))),
        }
    }));
    (service, handle)
}

fn get(path: &str) -> Request<()> {
    Request::get(path).body(()).unwrap()
}

/// Goal: a closed gate refuses in the protocol of the request, except where exempt. Method: table of
/// paths and content types after closing; the status is in the record. ARC-003.
#[tokio::test]
async fn a_closed_gate_refuses_in_the_callers_protocol() {
    let (service, handle) = gated();
    assert!(!handle.is_closed());
    handle.close();
    handle.close();
    assert!(handle.is_closed());
    let cases = [
        (
            "/shop.Till/Pay",
            "application/grpc",
            Some("application/grpc"),
        ),
        (
            "/shop.Till/Pay",
            "application/grpc-web",
            Some("application/grpc-web+proto"),
        ),
        (
            "/shop.Till/Pay",
            "application/grpc-web-text",
            Some("application/grpc-web-text+proto"),
        ),
        ("/", "text/html", Some("application/grpc")),
        (
            "/grpc.health.v1",
            "application/grpc",
            Some("application/grpc"),
        ),
        (
            "//grpc.health.v1.Health/Check",
            "application/grpc",
            Some("application/grpc"),
        ),
        ("/grpc.health.v1.Health/Check", "application/grpc", None),
    ];
    for (path, sent, answered) in cases {
        let mut request = get(path);
        request
            .headers_mut()
            .insert("content-type", sent.parse().unwrap());
        let record = Record::of(request.extensions_mut());
        let response = service.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let Some(answered) = answered else {
            assert!(response.headers().is_empty(), "{path}");
            assert_eq!(record.status(), None);
            continue;
        };
        assert_eq!(response.headers()["content-type"], answered);
        assert_eq!(response.headers()["grpc-status"], "14");
        assert_eq!(
            response.headers()["grpc-message"],
            "the server is shutting down"
        );
        assert!(response.body().is_end_stream());
        assert_eq!(record.status(), Some(Code::Unavailable));
        assert_eq!(handle.in_flight(), 0, "a refusal is not inside");
    }
}

/// Goal: a request is inside from its call until its body is dropped, whatever becomes of it.
/// Method: read the count at each step; exempt requests are never counted. ARC-003.
#[tokio::test]
async fn requests_are_inside_until_their_body_is_dropped() {
    let (mut service, handle) = gated();
    let exempt = service.call(get("/grpc.health.v1.Health/Wait"));
    assert_eq!(handle.in_flight(), 0);
    let unpolled = service.call(get("/wait"));
    let mut waiting = Box::pin(service.call(get("/wait")));
    assert!(poll_once(waiting.as_mut()).is_pending());
    assert_eq!(handle.in_flight(), 2);
    let response = service.call(get("/")).await.unwrap();
    assert_eq!(handle.in_flight(), 3);
    {
        let mut body = pin!(response.into_body());
        assert!(matches!(poll(body.as_mut()), Poll::Ready(Some(Ok(_)))));
        assert!(body.is_end_stream());
        assert_eq!(handle.in_flight(), 3);
    }
    assert_eq!(handle.in_flight(), 2);
    assert_eq!(service.call(get("/fail")).await.err(), Some(Broken));
    assert_eq!(handle.in_flight(), 2);
    drop(unpolled);
    drop(waiting);
    assert_eq!(handle.in_flight(), 0);
    drop(exempt);
    assert_eq!(handle.in_flight(), 0);
}

/// Goal: the wait ends when the gate is closed and empty, and at no other moment. Method: poll it
/// through every order of entering, closing and leaving. ARC-003.
#[tokio::test]
async fn drained_waits_for_closing_and_for_the_last_request() {
    let (mut service, handle) = gated();
    let mut drained = pin!(handle.drained());
    assert!(poll_once(drained.as_mut()).is_pending(), "open and empty");
    let first = service.call(get("/wait"));
    let second = service.call(get("/")).await.unwrap();
    drop(first);
    assert!(poll_once(drained.as_mut()).is_pending(), "open");
    handle.close();
    assert!(poll_once(drained.as_mut()).is_pending(), "one inside");
    drop(second);
    assert!(poll_once(drained.as_mut()).is_ready());
    assert!(
        poll_once(pin!(handle.drained())).is_ready(),
        "closed and empty"
    );

    let (_, handle) = gated();
    let mut drained = pin!(handle.drained());
    assert!(poll_once(drained.as_mut()).is_pending());
    handle.close();
    assert!(poll_once(drained.as_mut()).is_ready(), "closed while empty");
}

/// Goal: a cut answers those without a response, and leaves the others alone. Method: one request
/// waiting, one unpolled, one with a response, one exempt; the handler's drop is seen. ARC-003.
#[tokio::test]
async fn a_cut_answers_whoever_still_waits() {
    struct Gone(Arc<AtomicUsize>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let gone = Arc::new(AtomicUsize::new(0));
    let (layer, handle) = gate(EXEMPT);
    let handlers = Arc::clone(&gone);
    let mut service = layer.layer(service_fn(move |request: Request<()>| {
        let local = Gone(Arc::clone(&handlers));
        async move {
            if request.uri().path() != "/" {
                pending::<()>().await;
            }
            drop(local);
            Ok::<_, Infallible>(Response::new(ScriptedBody::new(&[Step::Data(1)], true)))
        }
    }));
    let mut request = get("/wait");
    request
        .headers_mut()
        .insert("content-type", "application/grpc-web".parse().unwrap());
    let record = Record::of(request.extensions_mut());
    let mut waiting = pin!(service.call(request));
    assert!(poll_once(waiting.as_mut()).is_pending());
    let mut unpolled = pin!(service.call(get("/wait")));
    let mut exempt = pin!(service.call(get("/grpc.health.v1.Health/Wait")));
    assert!(poll_once(exempt.as_mut()).is_pending());
    let answered = service.call(get("/")).await.unwrap();
    assert_eq!((handle.in_flight(), gone.load(Ordering::Relaxed)), (3, 1));

    handle.cut();
    let Poll::Ready(Ok(response)) = poll_once(waiting.as_mut()) else {
        panic!("it was cut")
    };
    assert_eq!(response.headers()["grpc-status"], "14");
    assert_eq!(
        response.headers()["content-type"],
        "application/grpc-web+proto"
    );
    assert_eq!(record.status(), Some(Code::Unavailable));
    assert_eq!((handle.in_flight(), gone.load(Ordering::Relaxed)), (2, 2));
    assert!(matches!(poll_once(unpolled.as_mut()), Poll::Ready(Ok(_))));
    assert!(poll_once(exempt.as_mut()).is_pending());
    assert!(handle.is_closed());
    assert_eq!(
        handle.in_flight(),
        1,
        "a response that began is its handler's to end"
    );
    assert!(matches!(
        poll(pin!(answered.into_body())),
        Poll::Ready(Some(Ok(_)))
    ));
    assert_eq!(handle.in_flight(), 0);
}

/// Goal: a cut wakes requests that are waiting in tasks, and an answer that is ready wins. Method:
/// spawned requests, and a future whose answer is ready when it is first polled after the cut.
#[tokio::test]
async fn a_cut_wakes_and_a_ready_answer_wins() {
    let (mut service, handle) = gated();
    let waiting = tokio::spawn(service.call(get("/wait")));
    let ready = service.call(get("/"));
    tokio::task::yield_now().await;
    handle.cut();
    let response = tokio::time::timeout(Duration::from_secs(10), waiting).await;
    assert_eq!(
        response.unwrap().unwrap().unwrap().headers()["grpc-status"],
        "14"
    );
    assert!(ready.await.unwrap().headers().is_empty());
    tokio::time::timeout(Duration::from_secs(10), handle.drained())
        .await
        .unwrap();
}

/// Goal: no request is both let in and missed by the wait. Method: many tasks race with the closing;
/// after the wait every admitted request must have left, and none may enter. ARC-003.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_slips_through_a_closing_gate() {
    for _ in 0..50 {
        let (layer, handle) = gate(EXEMPT);
        let inside = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&inside);
        let service = layer.layer(service_fn(move |_: Request<()>| {
            counter.fetch_add(1, Ordering::SeqCst);
            ready(Ok::<_, Infallible>(Response::new(ScriptedBody::empty())))
        }));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (mut service, inside) = (service.clone(), Arc::clone(&inside));
                tokio::spawn(async move {
                    loop {
                        let response = service.call(get("/")).await.unwrap();
                        if response.headers().contains_key("grpc-status") {
                            return;
                        }
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(response);
                    }
                })
            })
            .collect();
        tokio::task::yield_now().await;
        handle.close();
        tokio::time::timeout(Duration::from_secs(10), handle.drained())
            .await
            .unwrap();
        assert_eq!((inside.load(Ordering::SeqCst), handle.in_flight()), (0, 0));
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(inside.load(Ordering::SeqCst), 0);
    }
}
