//! Bytes count when they pass, and only then.

use std::convert::Infallible;
use std::pin::pin;

use http::header::CONTENT_LENGTH;
use http::{Request, Response};
use http_body_util::BodyExt;
use tower::{Layer, ServiceExt, service_fn};

use super::{CountBytesLayer, CountedRequestBody};
use crate::code::Code;
use crate::record::Record;
use crate::scripted::{Broken, ScriptedBody, Step, poll, transmit};

const BODY: [Step; 5] = [
    Step::Data(3),
    Step::Pending,
    Step::Data(0),
    Step::Data(4),
    Step::Trailers(Some(Code::Ok)),
];

/// Goal: the counts stand at what was consumed and emitted, at every moment. Method: the handler
/// takes a given number of frames, the transport polls a given number of times; the promised length
/// is a lie. ARC-095.
#[tokio::test]
async fn only_what_passed_is_counted() {
    let cases = [
        (0, 0, 0, 0),
        (1, 1, 3, 3),
        (2, 2, 3, 3),
        (3, 3, 7, 3),
        (9, 4, 7, 7),
        (9, 9, 7, 7),
    ];
    for (taken, polls, consumed, emitted) in cases {
        let service = CountBytesLayer.layer(service_fn(
            move |mut request: Request<CountedRequestBody<ScriptedBody>>| async move {
                for _ in 0..taken {
                    let _ = request.body_mut().frame().await;
                }
                Ok::<_, Infallible>(Response::new(ScriptedBody::new(&BODY, false)))
            },
        ));
        let mut request = Request::new(ScriptedBody::new(&BODY, false));
        request
            .headers_mut()
            .insert(CONTENT_LENGTH, 1_000_000.into());
        let record = Record::of(request.extensions_mut());
        let response = service.oneshot(request).await.unwrap();
        assert_eq!(
            (record.request_bytes(), record.response_bytes()),
            (consumed, 0)
        );
        transmit(pin!(response.into_body()), polls);
        assert_eq!(
            (record.request_bytes(), record.response_bytes()),
            (consumed, emitted)
        );
    }
}

/// Goal: inbound frames of an open stream count while the response is still running. Method: consume
/// the request body from outside, after the response headers. ARC-095.
#[tokio::test]
async fn inbound_frames_count_while_the_stream_is_open() {
    let service = CountBytesLayer.layer(service_fn(
        |request: Request<CountedRequestBody<ScriptedBody>>| async {
            Ok::<_, Infallible>(Response::new(request.into_body()))
        },
    ));
    let mut request = Request::new(ScriptedBody::new(&[Step::Data(6); 10], false));
    let record = Record::of(request.extensions_mut());
    let mut echoed = pin!(service.oneshot(request).await.unwrap().into_body());
    for frames in 1..=10 {
        assert!(poll(echoed.as_mut()).is_ready());
        assert_eq!(
            (record.request_bytes(), record.response_bytes()),
            (6 * frames, 6 * frames)
        );
    }
}

/// Goal: an error passes unchanged. Method: a failing service.
#[tokio::test]
async fn errors_pass() {
    let service = CountBytesLayer.layer(service_fn(
        |_: Request<CountedRequestBody<ScriptedBody>>| async {
            Err::<Response<ScriptedBody>, _>(Broken)
        },
    ));
    let request = Request::new(ScriptedBody::empty());
    assert_eq!(service.oneshot(request).await.err(), Some(Broken));
}
