//! Updates: what they change, what they leave alone, and how they are answered (ARC-074, API-102,
//! API-104, API-105).

use envelope::wire::xmtp::backend::v1::subscribe_response::Response;
use harness::{Form, Http, Subscription, TestServer, WebCall};
use tonic::Code;

use crate::given::{ids, message};
use crate::reading::{after, topic as topic_message};
use crate::subscribers::{SUBSCRIBE, applied, of, received, store, topic, until_pong};
use envelope::wire::xmtp::backend::v1::subscribe_request::{Request, Update};
use envelope::wire::xmtp::backend::v1::{Ping, SubscribeRequest, SubscribeResponse};

/// An add of a topic that is registered changes nothing, whatever cursor comes with it: no target, no
/// replay, and the next row comes (API-103).
#[tokio::test]
async fn an_add_of_a_registered_topic_is_answered_and_changes_nothing() {
    let server = TestServer::start().await;
    let stored = store(&server, 1, 0..3).await;
    let mut stream = Subscription::start(server.address()).await;
    stream.add(&[(&topic(1), 0)]).await;
    assert_eq!(received(&stream.envelopes(3).await), stored);
    for cursor in [0, stored[1], stored[2] + 1_000] {
        let answer = stream.add(&[(&topic(1), cursor)]).await;
        assert_eq!(answer, (vec![], vec![]), "after {cursor}");
    }
    assert!(until_pong(&mut stream, 1).await.is_empty());
    let live = ids(server.publish(vec![message(1, 3)]).await);
    assert_eq!(received(&stream.envelopes(1).await), live);

    // Beside a new topic, whose target is the only one.
    let (targets, early) = stream.add(&[(&topic(1), 0), (&topic(2), 0)]).await;
    assert_eq!((targets, early), (vec![0], vec![]));
    server.stop().await;
}

/// A removed topic delivers nothing; added again with a lower cursor, it begins there, with a target
/// of its own, though ids go backwards (API-105).
#[tokio::test]
async fn a_topic_that_is_added_again_begins_at_its_new_cursor() {
    let server = TestServer::start().await;
    let stored = store(&server, 1, 0..3).await;
    let mut stream = Subscription::start(server.address()).await;
    stream.add(&[(&topic(1), 0), (&topic(2), 0)]).await;
    assert_eq!(received(&stream.envelopes(3).await), stored);

    assert!(stream.remove(&[&topic(1)]).await.is_empty());
    let missed = ids(server.publish(vec![message(1, 3)]).await);
    let fence = ids(server.publish(vec![message(2, 0)]).await);
    assert_eq!(received(&stream.envelopes(1).await), fence);

    for cursor in [stored[0], 0, stored[2]] {
        let (targets, early) = stream.add(&[(&topic(1), cursor)]).await;
        assert_eq!((targets, early), (missed.clone(), vec![]));
        let all = [stored.clone(), missed.clone()].concat();
        let expected: Vec<u64> = all.into_iter().filter(|id| *id > cursor).collect();
        assert_eq!(received(&stream.envelopes(expected.len()).await), expected);
        assert!(stream.remove(&[&topic(1)]).await.is_empty());
    }
    server.stop().await;
}

/// Removing what is not there, and changing nothing, are both answered; the first id may be any, and
/// so may every step up to the greatest (API-102).
#[tokio::test]
async fn updates_without_effect_are_answered() {
    let server = TestServer::start().await;
    let mut stream = Subscription::start(server.address()).await;
    stream.update(5, vec![], vec![topic_message(&topic(1))]);
    assert_eq!(applied(&mut stream).await, (5, vec![]));
    stream.update(6, vec![], vec![]);
    assert_eq!(applied(&mut stream).await, (6, vec![]));
    stream.update(u64::MAX, vec![after(&topic(1), 0)], vec![]);
    assert_eq!(applied(&mut stream).await, (u64::MAX, vec![0]));
    // A new stream begins anew.
    let mut stream = Subscription::start(server.address()).await;
    stream.update(1, vec![], vec![]);
    assert_eq!(applied(&mut stream).await, (1, vec![]));
    server.stop().await;
}

/// Updates that are sent without waiting are answered in order, one by one; rows of a topic come only
/// between the answers of its add and its removal (API-102, ARC-074).
#[tokio::test]
async fn updates_in_flight_are_applied_in_order() {
    let server = TestServer::start().await;
    let stored = store(&server, 1, 0..3).await;
    for _ in 0..20 {
        let mut stream = Subscription::start(server.address()).await;
        stream.update(1, vec![after(&topic(1), 0)], vec![]);
        stream.update(2, vec![after(&topic(2), 0)], vec![]);
        stream.update(3, vec![], vec![topic_message(&topic(1))]);
        stream.ping(9);
        let mut answers = Vec::new();
        let mut delivered = Vec::new();
        loop {
            match stream.next().await.unwrap() {
                Response::Applied(applied) => answers.push(applied.id),
                Response::Messages(messages) => {
                    assert!(
                        answers == [1] || answers == [1, 2],
                        "rows after {answers:?}"
                    );
                    delivered.extend(messages.envelopes.iter().map(of));
                }
                Response::Pong(_) => break,
                other @ (Response::Started(_) | Response::Ping(_)) => panic!("{other:?}"),
            }
        }
        assert_eq!(answers, [1, 2, 3]);
        assert!(stored.starts_with(&delivered), "{delivered:?}");
        assert!(until_pong(&mut stream, 10).await.is_empty());
    }
    server.stop().await;
}

/// An invalid Update between valid ones: what came before it is answered, what came after it never
/// (ARC-085).
#[tokio::test]
async fn nothing_after_an_invalid_update_is_answered() {
    let server = TestServer::start().await;
    let mut stream = Subscription::start(server.address()).await;
    stream.update(1, vec![after(&topic(1), 0)], vec![]);
    stream.update(1, vec![after(&topic(2), 0)], vec![]);
    stream.update(2, vec![after(&topic(3), 0)], vec![]);
    stream.ping(1);
    assert_eq!(applied(&mut stream).await, (1, vec![0]));
    assert_eq!(
        stream.next().await.unwrap_err().code(),
        Code::InvalidArgument
    );
    server.stop().await;
}

/// A bidirectional call over gRPC-Web has its whole request at once: every frame of it is answered,
/// then the stream ends as after a half-close, with success (API-101).
#[tokio::test]
async fn over_grpc_web_all_frames_are_answered_and_the_stream_ends() {
    let server = TestServer::start().await;
    store(&server, 1, 0..3).await;
    let update = |id, adds| {
        let update = Update {
            id,
            adds,
            removes: vec![],
        };
        Some(Request::Update(update))
    };
    let requests = [
        update(1, vec![after(&topic(1), 0), after(&topic(2), 0)]),
        Some(Request::Ping(Ping { nonce: 7 })),
        update(2, vec![]),
    ]
    .map(|request| SubscribeRequest { request });
    for (http, form) in [
        (Http::One, Form::Binary),
        (Http::One, Form::Text),
        (Http::Two, Form::Binary),
        (Http::Two, Form::Text),
    ] {
        for requests in [&requests[..], &[]] {
            let call = WebCall {
                address: server.address(),
                http,
                form,
            };
            let mut stream = call.stream(SUBSCRIBE, requests).await.unwrap();
            let mut answers = Vec::new();
            while let Some(SubscribeResponse { response }) = stream.next().await.unwrap() {
                match response.unwrap() {
                    Response::Started(_) => answers.push("started"),
                    Response::Applied(applied) if applied.id == 1 => answers.push("first"),
                    Response::Applied(_) => answers.push("second"),
                    Response::Pong(_) => answers.push("pong"),
                    // History may come before the end.
                    Response::Messages(_) => {}
                    other @ Response::Ping(_) => panic!("{other:?}"),
                }
            }
            let expected: &[_] = if requests.is_empty() {
                &["started"]
            } else {
                &["started", "first", "pong", "second"]
            };
            assert_eq!(answers, expected, "{http:?} {form:?}");
        }
    }
    server.stop().await;
}
