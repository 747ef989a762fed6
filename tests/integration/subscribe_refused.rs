//! Frames and requests that must not be: the stream ends and says why, and nothing of them happens
//! (ARC-082, ARC-085, API-004, API-106, API-134).

use envelope::wire::xmtp::backend::v1::subscribe_request::Update;
use envelope::wire::xmtp::backend::v1::{Topic, TopicQuery};
use harness::{RawMessage, StaticSubscription, Subscription, TestServer, Transport};
use tonic::Code;

use crate::reading::{after, topic as topic_message};
use crate::subscribers::{RawSubscription, applied, store, topic, until_all_ended, until_pong};

/// Above every cursor there is.
const BEYOND: u64 = 1 << 63;

/// Topics that are not well formed.
fn malformed() -> Vec<Vec<u8>> {
    let [group, welcome] = [topic(1), [vec![1], vec![0x11; 32]].concat()];
    vec![
        vec![],
        vec![0],
        group[..16].to_vec(),
        [group.clone(), vec![0]].concat(),
        welcome[..32].to_vec(),
        [vec![9], vec![0x11; 32]].concat(),
        vec![0x11; 1_000],
    ]
}

/// Updates that are not valid on a stream whose last id was 7 and which has topic 1.
fn invalid_updates() -> Vec<(&'static str, Update)> {
    let update = |id, adds, removes| Update { id, adds, removes };
    let add = |group, cursor| after(&topic(group), cursor);
    let remove = |group| topic_message(&topic(group));
    let mut cases = vec![
        ("the same id", update(7, vec![add(2, 0)], vec![])),
        ("a lower id", update(3, vec![add(2, 0)], vec![])),
        ("id 0", update(0, vec![], vec![])),
        ("added twice", update(8, vec![add(2, 0), add(2, 5)], vec![])),
        (
            "added twice, both registered",
            update(8, vec![add(1, 0), add(1, 0)], vec![]),
        ),
        (
            "removed twice",
            update(8, vec![], vec![remove(1), remove(1)]),
        ),
        (
            "removed twice, both absent",
            update(8, vec![], vec![remove(3), remove(3)]),
        ),
        (
            "added and removed",
            update(8, vec![add(1, 0)], vec![remove(1)]),
        ),
        (
            "a cursor out of range",
            update(8, vec![add(2, BEYOND)], vec![]),
        ),
        (
            "the greatest cursor",
            update(8, vec![add(2, u64::MAX)], vec![]),
        ),
        (
            "a cursor out of range of a registered topic",
            update(8, vec![add(1, BEYOND)], vec![]),
        ),
        (
            "an add without topic",
            update(8, vec![TopicQuery::default()], vec![]),
        ),
        (
            "a remove without topic",
            update(8, vec![], vec![Topic::default()]),
        ),
    ];
    for topic in malformed() {
        cases.push((
            "a malformed add",
            update(8, vec![add(2, 0), after(&topic, 0)], vec![]),
        ));
        let removes = vec![remove(1), topic_message(&topic)];
        cases.push(("a malformed remove", update(8, vec![], removes)));
    }
    cases
}

/// Each invalid Update ends its stream with `INVALID_ARGUMENT`, after what was admitted before and
/// without an Applied; nothing stays registered, and it counts as invalid once.
#[tokio::test]
async fn an_invalid_update_ends_the_stream() {
    let server = TestServer::start().await;
    let cases = invalid_updates();
    let number = cases.len() as u64;
    for (claim, update) in cases {
        let mut stream = Subscription::start(server.address()).await;
        stream.update(7, vec![after(&topic(1), 0)], vec![]);
        assert_eq!(applied(&mut stream).await.0, 7);
        stream.update(update.id, update.adds, update.removes);
        let status = stream.next().await.expect_err(claim);
        assert_eq!(status.code(), Code::InvalidArgument, "{claim}: {status}");
        assert!(status.details().is_empty(), "{claim}");
    }
    until_all_ended(&server, "invalid", number).await;
    let updates = |outcome| format!("xmtp_stream_updates_total{{outcome=\"{outcome}\"}}");
    assert_eq!(server.metric(&updates("invalid")).await, number);
    assert_eq!(server.metric(&updates("applied")).await, number);
    server.stop().await;
}

/// The greatest cursor that there is, on a stream of either kind.
#[tokio::test]
async fn the_greatest_cursor_is_a_cursor() {
    let server = TestServer::start().await;
    let head = store(&server, 1, 0..1).await[0];
    let mut stream = Subscription::start(server.address()).await;
    assert_eq!(stream.add(&[(&topic(1), BEYOND - 1)]).await.0, [head]);
    for transport in Transport::ALL {
        let topics = vec![after(&topic(1), BEYOND - 1)];
        let opened = StaticSubscription::open(transport, server.address(), topics).await;
        opened.unwrap().next().await.unwrap();
    }
    assert!(until_pong(&mut stream, 1).await.is_empty());
    server.stop().await;
}

/// A request for a static stream that is not one is refused before anything begins, over every
/// protocol, and no session is counted (API-108, API-109).
#[tokio::test]
async fn an_invalid_static_request_is_refused() {
    let server = TestServer::start().await;
    let good = after(&topic(1), 0);
    let mut cases = vec![
        ("no topics", vec![]),
        ("a topic twice", vec![good.clone(), after(&topic(1), 5)]),
        (
            "a cursor out of range",
            vec![good.clone(), after(&topic(2), BEYOND)],
        ),
        ("a topic that is unset", vec![TopicQuery::default()]),
    ];
    for topic in malformed() {
        cases.push(("a malformed topic", vec![good.clone(), after(&topic, 0)]));
    }
    for (claim, topics) in cases {
        for transport in Transport::ALL {
            let opened =
                StaticSubscription::open(transport, server.address(), topics.clone()).await;
            let status = opened.expect_err(claim);
            assert_eq!(
                status.code(),
                Code::InvalidArgument,
                "{claim} over {transport:?}: {status}"
            );
        }
    }
    until_all_ended(&server, "invalid", 0).await;
    server.stop().await;
}

/// A frame without a kind, with a kind that nobody knows, or one that is no message, ends the stream;
/// so does one that is a byte too long, and one that is not passes (ARC-085, API-106, API-134).
#[tokio::test]
async fn a_frame_that_is_none_ends_the_stream() {
    const MAX: usize = 5_000;

    let server = TestServer::builder()
        .table(
            "limits",
            &format!("max_request_bytes = {MAX}\nmax_envelope_bytes = 1000"),
        )
        .start()
        .await;
    // Each is an Update of id 1 that something is wrong with, or nothing.
    let padded = |bytes: usize| {
        let padding = RawMessage::padding(bytes - 4).0.to_vec();
        [vec![0x0a, 0x02, 0x08, 0x01], padding].concat()
    };
    let cases: [(&str, Vec<u8>, Option<Code>); 8] = [
        ("no kind", vec![], Some(Code::InvalidArgument)),
        (
            "an unknown kind",
            vec![0x22, 0x00],
            Some(Code::InvalidArgument),
        ),
        ("half a field", vec![0x0a, 0x02, 0x08], Some(Code::Internal)),
        ("a wrong wire type", vec![0x08, 0x01], Some(Code::Internal)),
        ("no protobuf", vec![0xff; 20], Some(Code::Internal)),
        ("one byte below the limit", padded(MAX - 1), None),
        ("at the limit", padded(MAX), None),
        (
            "one byte above the limit",
            padded(MAX + 1),
            Some(Code::OutOfRange),
        ),
    ];
    let refused = cases.iter().filter(|case| case.2.is_some()).count() as u64;
    for (claim, frame, expected) in cases {
        let mut stream = RawSubscription::open(server.address()).await;
        assert!(stream.next().await.is_ok(), "{claim}: Started");
        stream.send(frame);
        match (stream.next().await, expected) {
            (Ok(applied), None) => assert_eq!(applied[..], [0x12, 0x02, 0x08, 0x01], "{claim}"),
            (Err(status), Some(code)) => assert_eq!(status.code(), code, "{claim}: {status}"),
            (answer, _) => panic!("{claim}: {answer:?}"),
        }
        drop(stream);
    }
    let ended = crate::subscribers::ended("invalid");
    harness::eventually("every stream has ended", async || {
        crate::subscribers::registered(&server).await == [0; 3]
    })
    .await;
    assert_eq!(server.metric(&ended).await, refused);
    server.stop().await;
}
