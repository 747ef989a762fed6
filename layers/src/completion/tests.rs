//! Every way a request can end, told once, with what is known by then.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response};
use tower::{Layer, Service, ServiceBuilder, service_fn};

use super::{Completed, CompletionLayer, Observe, OnComplete};
use crate::body::Ending;
use crate::code::{Code, GRPC_STATUS};
use crate::count_bytes::{CountBytesLayer, CountedRequestBody};
use crate::record::Record;
use crate::scripted::{Broken, ScriptedBody, Step, poll_once, transmit, unwind};

/// Collects what it is told, per path.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<(String, Completed)>>>);

struct Call(Told, String);

impl Observe for Told {
    type Call = Call;

    fn observe(&self, head: &Parts) -> Call {
        Call(self.clone(), head.uri.path().to_owned())
    }
}

impl OnComplete for Call {
    fn complete(self, completed: Completed) {
        let Self(told, path) = self;
        told.0.lock().unwrap().push((path, completed));
    }
}

impl Told {
    fn only(&self) -> Completed {
        let told = self.0.lock().unwrap();
        let [(_, completed)] = told[..] else {
            panic!("told {} times", told.len())
        };
        completed
    }
}

const DATA: Step = Step::Data(5);
const END: Step = Step::Trailers(Some(Code::NotFound));

/// Header status, body, polls before the drop; ending, code, emitted bytes.
type Case = (Option<Code>, &'static [Step], usize, Ending, Code, u64);

// A table reads by its columns.
#[rustfmt::skip]
const CASES: &[Case] = &[
    (None, &[DATA, END], 2, Ending::Complete, Code::NotFound, 5),
    (None, &[DATA, END], 1, Ending::Dropped, Code::Cancelled, 5),
    (None, &[DATA, END], 0, Ending::Dropped, Code::Cancelled, 0),
    (None, &[Step::Pending, DATA], 1, Ending::Dropped, Code::Cancelled, 0),
    (None, &[DATA], 1, Ending::Complete, Code::Unknown, 5),
    (None, &[DATA, Step::Trailers(None)], 2, Ending::Complete, Code::Unknown, 5),
    (None, &[], 0, Ending::Complete, Code::Unknown, 0),
    (None, &[DATA, Step::Error], 2, Ending::Failed, Code::Unknown, 5),
    (Some(Code::Unauthenticated), &[], 0, Ending::Complete, Code::Unauthenticated, 0),
    (Some(Code::Ok), &[DATA], 0, Ending::Dropped, Code::Ok, 0),
    (Some(Code::Aborted), &[Step::Error], 1, Ending::Failed, Code::Aborted, 0),
];

/// Goal: ending, code and bytes are right for every body, and the last frame is counted before the
/// end is told. Method: scripted bodies through this layer around the counting one. ARC-095, ARC-098.
#[test]
fn every_body_completes_its_request_once() {
    for &(header, steps, polls, ending, code, bytes) in CASES {
        let told = Told::default();
        let mut service = ServiceBuilder::new()
            .layer(CompletionLayer::new(told.clone()))
            .layer(CountBytesLayer)
            .service(service_fn(
                move |_: Request<CountedRequestBody<ScriptedBody>>| async move {
                    let mut response = Response::new(ScriptedBody::new(steps, true));
                    if let Some(code) = header {
                        response
                            .headers_mut()
                            .insert(GRPC_STATUS, code.header_value());
                    }
                    Ok::<_, Broken>(response)
                },
            ));
        {
            let mut future = pin!(service.call(Request::new(ScriptedBody::empty())));
            let Poll::Ready(Ok(response)) = poll_once(future.as_mut()) else {
                panic!("the script does not wait")
            };
            if !steps.is_empty() {
                assert!(
                    told.0.lock().unwrap().is_empty(),
                    "headers complete nothing"
                );
            }
            transmit(pin!(response.into_body()), polls);
        }
        let completed = told.only();
        let seen = (completed.ending, completed.code, completed.response_bytes);
        assert_eq!(
            seen,
            (ending, code, bytes),
            "{header:?} {steps:?} after {polls}"
        );
    }
}

/// Goal: without a response the request completes too. Method: drop the future unpolled and waiting,
/// fail it, and panic in the call and in a poll. ARC-098.
#[test]
fn a_request_without_a_response_completes_once() {
    #[derive(Clone, Copy, Debug)]
    enum Script {
        DropUnpolled,
        DropWaiting,
        Fail,
        PanicInCall,
        PanicInPoll,
    }
    let cases = [
        (Script::DropUnpolled, Ending::Dropped, Code::Cancelled),
        (Script::DropWaiting, Ending::Dropped, Code::Cancelled),
        (Script::Fail, Ending::Failed, Code::Unknown),
        (Script::PanicInCall, Ending::Panicked, Code::Internal),
        (Script::PanicInPoll, Ending::Panicked, Code::Internal),
    ];
    for (script, ending, code) in cases {
        let told = Told::default();
        let mut service =
            CompletionLayer::new(told.clone()).layer(service_fn(move |_: Request<()>| {
                if matches!(script, Script::PanicInCall) {
                    unwind();
                }
                async move {
                    match script {
                        Script::Fail => Err::<Response<ScriptedBody>, _>(Broken),
                        Script::PanicInPoll => unwind(),
                        Script::DropUnpolled | Script::DropWaiting | Script::PanicInCall => {
                            std::future::pending().await
                        }
                    }
                }
            }));
        let _ = catch_unwind(AssertUnwindSafe(move || {
            let mut future = pin!(service.call(Request::new(())));
            if !matches!(script, Script::DropUnpolled) {
                let _ = poll_once(future.as_mut());
            }
        }));
        let completed = told.only();
        assert_eq!(
            (completed.ending, completed.code),
            (ending, code),
            "{script:?}"
        );
    }
}

/// Goal: the hook sees the head of its own request, and the time since arrival. Method: two requests
/// completed in reverse order, the first one after a wait.
#[test]
fn each_hook_knows_its_request() {
    let told = Told::default();
    let mut service = CompletionLayer::new(told.clone()).layer(service_fn(|_: Request<()>| {
        std::future::pending::<Result<Response<ScriptedBody>, Broken>>()
    }));
    let mut request = Request::get("/first").body(()).unwrap();
    let record = Record::of(request.extensions_mut());
    let first = service.call(request);
    let second = service.call(Request::get("/second").body(()).unwrap());
    std::thread::sleep(Duration::from_millis(2));
    drop(second);
    drop(first);
    let told = told.0.lock().unwrap();
    let paths: Vec<_> = told.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["/second", "/first"]);
    let elapsed = told[1].1.elapsed;
    assert!(elapsed >= Duration::from_millis(2) && elapsed <= record.elapsed());
}
