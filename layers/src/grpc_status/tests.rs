//! The status is noted from wherever it is carried, and only from there.

use std::convert::Infallible;
use std::pin::pin;

use http::{Request, Response};
use tower::{Layer, ServiceExt, service_fn};

use super::GrpcStatusLayer;
use crate::code::{Code, GRPC_STATUS};
use crate::record::Record;
use crate::scripted::{Broken, ScriptedBody, Step, transmit};

const END: Step = Step::Trailers(Some(Code::Aborted));

/// Header status, body, polls before the drop; noted at the headers, noted after the drop.
type Case = (
    Option<Code>,
    &'static [Step],
    usize,
    Option<Code>,
    Option<Code>,
);

/// Goal: headers give a status at once, trailers when they pass, and nothing else gives one. Method:
/// scripted answers, with the record read after the headers and after the drop. ARC-098.
#[tokio::test]
async fn the_status_is_noted_where_it_stands() {
    // A table reads by its columns.
    #[rustfmt::skip]
    const CASES: &[Case] = &[
        (Some(Code::Internal), &[], 0, Some(Code::Internal), Some(Code::Internal)),
        (None, &[Step::Data(1), END], 2, None, Some(Code::Aborted)),
        (None, &[END], 1, None, Some(Code::Aborted)),
        (None, &[Step::Data(1), END], 1, None, None),
        (None, &[Step::Data(1), Step::Trailers(None)], 9, None, None),
        (None, &[Step::Data(1), Step::Error], 9, None, None),
        (None, &[Step::Data(1)], 9, None, None),
        (None, &[], 0, None, None),
        (Some(Code::Ok), &[Step::Data(1), END], 2, Some(Code::Ok), Some(Code::Aborted)),
    ];
    for &(header, steps, polls, at_headers, at_end) in CASES {
        let service = GrpcStatusLayer.layer(service_fn(move |_: Request<()>| async move {
            let mut response = Response::new(ScriptedBody::new(steps, true));
            if let Some(code) = header {
                response
                    .headers_mut()
                    .insert(GRPC_STATUS, code.header_value());
            }
            Ok::<_, Infallible>(response)
        }));
        let mut request = Request::new(());
        let record = Record::of(request.extensions_mut());
        let response = service.oneshot(request).await.unwrap();
        assert_eq!(record.status(), at_headers, "{header:?} {steps:?}");
        transmit(pin!(response.into_body()), polls);
        assert_eq!(record.status(), at_end, "{header:?} {steps:?}");
    }
}

/// Goal: an error passes unchanged and notes nothing. Method: a failing service.
#[tokio::test]
async fn errors_pass() {
    let service = GrpcStatusLayer.layer(service_fn(|_: Request<()>| async {
        Err::<Response<ScriptedBody>, _>(Broken)
    }));
    let mut request = Request::new(());
    let record = Record::of(request.extensions_mut());
    assert_eq!(service.oneshot(request).await.err(), Some(Broken));
    assert_eq!(record.status(), None);
}
