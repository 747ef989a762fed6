//! The id is ours, well formed, and the same in all three places.

use std::collections::HashSet;
use std::convert::Infallible;

use http::{HeaderMap, Request, Response};
use tower::{Layer, ServiceExt, service_fn};

use super::{RequestId, RequestIdLayer, X_REQUEST_ID};
use crate::scripted::Broken;

/// Sends a request with these `x-request-id` values; answers the response headers, the id in the
/// extensions and the request headers the inner service saw.
async fn send(sent: &[&str]) -> (HeaderMap, RequestId, HeaderMap) {
    let service = RequestIdLayer.layer(service_fn(|request: Request<()>| async move {
        let id = *request.extensions().get::<RequestId>().unwrap();
        let mut response = Response::new((id, request.headers().clone()));
        response
            .headers_mut()
            .insert(X_REQUEST_ID, "inner".parse().unwrap());
        Ok::<_, Infallible>(response)
    }));
    let mut request = Request::builder();
    for value in sent {
        request = request.header(X_REQUEST_ID, *value);
    }
    let (head, (id, seen)) = service
        .oneshot(request.body(()).unwrap())
        .await
        .unwrap()
        .into_parts();
    (head.headers, id, seen)
}

/// Goal: whatever the caller or an inner layer says, the one header is ours and the caller's is
/// gone. Method: no header, one, two, and a well-formed foreign id. ARC-095.
#[tokio::test]
async fn the_caller_has_no_say() {
    let foreign = "2f1c1c8e-9e0f-4a34-8d1c-6a2f0c8ab001";
    for sent in [&[][..], &["abc"], &["abc", "def"], &[foreign]] {
        let (headers, id, seen) = send(sent).await;
        let values: Vec<_> = headers.get_all(X_REQUEST_ID).iter().collect();
        assert_eq!(values, [&id.header_value()]);
        assert!(!seen.contains_key(X_REQUEST_ID));
        assert!(!sent.contains(&id.to_string().as_str()));
    }
}

/// Goal: the text is a version 4 UUID in lower case, and no two are alike. Method: check the fixed
/// characters of a thousand ids.
#[test]
fn ids_are_random_uuids_of_version_four() {
    let ids: HashSet<String> = (0..1000).map(|_| RequestId::fresh().to_string()).collect();
    assert_eq!(ids.len(), 1000);
    for id in ids {
        let groups: Vec<_> = id.split('-').map(str::len).collect();
        assert_eq!(groups, [8, 4, 4, 4, 12], "{id}");
        assert!(
            id.bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f' | b'-')),
            "{id}"
        );
        assert_eq!(id.as_bytes()[14], b'4', "{id}");
        assert!(
            matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b'),
            "{id}"
        );
    }
}

/// Goal: header, display and debug forms agree. Method: compare the three.
#[test]
fn every_form_is_the_same_text() {
    let id = RequestId::fresh();
    assert_eq!(id.header_value(), id.to_string().as_str());
    assert_eq!(format!("{id:?}"), id.to_string());
}

/// Goal: an error of the inner service passes unchanged. Method: a failing service.
#[tokio::test]
async fn errors_pass() {
    let service = RequestIdLayer.layer(service_fn(|_: Request<()>| async {
        Err::<Response<()>, _>(Broken)
    }));
    assert_eq!(service.oneshot(Request::new(())).await.err(), Some(Broken));
}
