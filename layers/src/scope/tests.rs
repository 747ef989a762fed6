//! What runs inside the scope, and how long the scope lives.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::{Body, Frame};
use tower::{Layer, Service, service_fn};

use super::{Scope, ScopeLayer};
use crate::scripted::{Broken, poll, poll_once};

thread_local! {
    /// How many scopes are entered on this thread.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// What ran, and how many scopes were entered then.
    static SEEN: RefCell<Vec<(&'static str, u32)>> = const { RefCell::new(Vec::new()) };
}

fn note(what: &'static str) {
    SEEN.with_borrow_mut(|seen| seen.push((what, DEPTH.get())));
}

fn noted() -> Vec<(&'static str, u32)> {
    SEEN.take()
}

/// A scope whose clones are counted by the `Arc`.
#[derive(Clone)]
struct Counted(#[expect(dead_code, reason = "held only to be counted")] Arc<()>);

struct Entered;

impl Scope for Counted {
    type Entered<'a> = Entered;

    fn enter(&self) -> Entered {
        DEPTH.set(DEPTH.get() + 1);
        Entered
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// A body and a handler part that note when they run.
struct Noting(&'static str);

impl Drop for Noting {
    fn drop(&mut self) {
        note(self.0);
    }
}

impl Body for Noting {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        note("body polled");
        Poll::Ready(None)
    }
}

/// Goal: call, polls and drops run inside the scope, nothing else does, and the scope lives exactly
/// until the body is dropped. Method: note the depth at each step of one request. ARC-099.
#[test]
fn everything_of_a_request_runs_inside_its_scope() {
    let alive = Arc::new(());
    let opened = Counted(Arc::clone(&alive));
    let mut service = ScopeLayer::new(move |_: &Parts| opened.clone()).layer(service_fn(
        |request: Request<()>| {
            note("called");
            assert!(request.extensions().get::<Counted>().is_some());
            async {
                note("future polled");
                let _local = Noting("handler dropped");
                Ok::<_, Infallible>(Response::new(Noting("body dropped")))
            }
        },
    ));
    let before = Arc::strong_count(&alive);
    let response = {
        let mut future = pin!(service.call(Request::new(())));
        match poll_once(future.as_mut()) {
            Poll::Ready(Ok(response)) => response,
            Poll::Pending => panic!("the script does not wait"),
        }
    };
    assert_eq!(
        noted(),
        [("called", 1), ("future polled", 1), ("handler dropped", 1)]
    );
    assert_eq!(
        Arc::strong_count(&alive),
        before + 1,
        "the body holds the scope"
    );
    {
        let mut body = pin!(response.into_body());
        assert!(!body.is_end_stream());
        assert!(matches!(poll(body.as_mut()), Poll::Ready(None)));
        assert_eq!(DEPTH.get(), 0);
    }
    assert_eq!(noted(), [("body polled", 1), ("body dropped", 1)]);
    assert_eq!(
        Arc::strong_count(&alive),
        before,
        "the scope went with the body"
    );
}

/// Goal: a cancelled handler is dropped inside its scope. Method: drop the future while it waits.
#[test]
fn a_cancelled_handler_is_dropped_inside() {
    let mut service = ScopeLayer::new(|_: &Parts| Counted(Arc::default())).layer(service_fn(
        |_: Request<()>| async {
            let _local = Noting("handler dropped");
            std::future::pending::<Result<Response<Noting>, Infallible>>().await
        },
    ));
    {
        let mut future = pin!(service.call(Request::new(())));
        assert!(poll_once(future.as_mut()).is_pending());
        assert_eq!(DEPTH.get(), 0);
    }
    assert_eq!(noted(), [("handler dropped", 1)]);
}

/// Goal: an error passes and leaves no scope entered. Method: a failing service.
#[test]
fn errors_pass() {
    let mut service = ScopeLayer::new(|_: &Parts| Counted(Arc::default())).layer(service_fn(
        |_: Request<()>| async { Err::<Response<Noting>, _>(Broken) },
    ));
    let mut future = pin!(service.call(Request::new(())));
    assert!(matches!(
        poll_once(future.as_mut()),
        Poll::Ready(Err(Broken))
    ));
    assert_eq!(DEPTH.get(), 0);
}
