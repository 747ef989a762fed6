//! The bounds of streams: at each value, one below and one above it (ARC-085, API-107, API-130).

use envelope::fixtures::group_id;
use envelope::wire::xmtp::backend::v1::TopicQuery;
use envelope::wire::xmtp::backend::v1::subscribe_request::Update;
use envelope::wire::xmtp::backend::v1::subscribe_response::Response;
use envelope::wire::xmtp::backend::v1::subscribe_static_response::Response as StaticFrame;
use harness::{StaticSubscription, Subscription, TestServer, Transport};
use prost::Message as _;
use tonic::{Code, Status};

use crate::reading::{after, topic as topic_message};
use crate::subscribers::{applied, ended, topic, until_all_ended};

/// Adds of these groups' topics.
fn adds(groups: impl IntoIterator<Item = u64>) -> Vec<TopicQuery> {
    let groups = groups.into_iter();
    groups.map(|group| after(&topic(group), 0)).collect()
}

async fn limited(lines: &str) -> TestServer {
    TestServer::builder().table("limits", lines).start().await
}

/// Entries of one Update, and topics of one stream: removals count first, and adds of what is there
/// do not count again (API-130).
#[tokio::test]
async fn the_number_of_topics_is_bounded_per_update_and_per_stream() {
    let server =
        limited("max_update_adds = 3\nmax_update_removes = 2\nmax_stream_topics = 4").await;
    let remove = |groups: &[u64]| {
        let groups = groups.iter();
        groups.map(|group| topic_message(&topic(*group))).collect()
    };
    let update = |adds, removes| Update {
        id: 0,
        adds,
        removes,
    };
    // Valid ones, one after the other on one stream, with the number of new topics.
    let valid = [
        ("two adds", update(adds([1, 2]), vec![]), 2),
        ("two removes", update(vec![], remove(&[2, 9])), 0),
        ("three adds", update(adds([2, 3, 1]), vec![]), 2),
        ("one new topic of two", update(adds([4, 1]), vec![]), 1),
        ("one for one", update(adds([5]), remove(&[1])), 1),
        ("adds of what is there", update(adds([2, 3, 4]), vec![]), 0),
        ("two for two", update(adds([6, 7, 2]), remove(&[3, 4])), 2),
    ];
    let invalid = [
        ("a fifth topic", update(adds([8]), vec![])),
        (
            "a fifth topic for an absent one",
            update(adds([8]), remove(&[9])),
        ),
        ("two for one", update(adds([8, 9]), remove(&[2]))),
        ("four adds", update(adds([2, 5, 6, 7]), vec![])),
        ("three removes", update(vec![], remove(&[2, 5, 6]))),
        (
            "three removes of absent ones",
            update(vec![], remove(&[10, 11, 12])),
        ),
    ];
    let number = invalid.len() as u64;
    for (claim, last) in invalid {
        let mut stream = Subscription::start(server.address()).await;
        for (id, (claim, update, new)) in (1..).zip(valid.clone()) {
            stream.update(id, update.adds, update.removes);
            let (answered, targets) = applied(&mut stream).await;
            assert_eq!((answered, targets.len()), (id, new), "{claim}");
        }
        stream.update(100, last.adds, last.removes);
        let status = stream.next().await.expect_err(claim);
        assert_eq!(status.code(), Code::InvalidArgument, "{claim}: {status}");
    }
    until_all_ended(&server, "invalid", number).await;
    server.stop().await;
}

/// Topics of a static stream, over every protocol.
#[tokio::test]
async fn the_number_of_static_topics_is_bounded() {
    let server = limited("max_static_topics = 3").await;
    for transport in Transport::ALL {
        for (topics, fits) in [(1, true), (2, true), (3, true), (4, false)] {
            let opened =
                StaticSubscription::open(transport, server.address(), adds(1..=topics)).await;
            match (opened, fits) {
                (Ok(mut stream), true) => {
                    let StaticFrame::Started(started) = stream.next().await.unwrap() else {
                        panic!("the first frame is Started");
                    };
                    assert_eq!(started.targets.len() as u64, topics);
                }
                (Err(status), false) => assert_eq!(status.code(), Code::InvalidArgument),
                (answer, _) => panic!("{topics} topics over {transport:?}: {answer:?}"),
            }
        }
    }
    server.stop().await;
}

/// The defaults of these bounds, as they are published: 10,000 static topics pass and one more does
/// not.
#[tokio::test]
async fn the_default_bound_of_static_topics_holds() {
    let server = TestServer::start().await;
    let topics = adds(0..10_001);
    for transport in [Transport::Native, Transport::WebHttp1] {
        let open = async |number: usize| {
            StaticSubscription::open(transport, server.address(), topics[..number].to_vec()).await
        };
        let StaticFrame::Started(started) = open(10_000).await.unwrap().next().await.unwrap()
        else {
            panic!("the first frame is Started");
        };
        assert_eq!(started.targets.len(), 10_000);
        let refused = open(10_001).await.expect_err("one too many");
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
    server.stop().await;
}

/// A burst of frames passes and the next one ends the stream, with what was admitted before it sent.
/// Both buckets: of Updates and of Pings; they do not share (API-107). No refill is in reach: one
/// token each second, and the frames go out at once.
#[tokio::test]
async fn a_burst_passes_and_one_more_frame_ends_the_stream() {
    const BURST: u64 = 20;

    let server = limited(
        "max_update_burst = 20\nmax_update_frames_per_second = 1\n\
         max_ping_burst = 20\nmax_ping_frames_per_second = 1",
    )
    .await;
    for frames in [BURST - 1, BURST, BURST + 3] {
        let passed = frames.min(BURST);
        let mut stream = Subscription::start(server.address()).await;
        for id in 1..=frames {
            stream.update(id, vec![], vec![]);
        }
        for id in 1..=passed {
            assert_eq!(applied(&mut stream).await.0, id);
        }
        check_end(&mut stream, frames > BURST, &|stream| stream.ping(1)).await;

        let mut stream = Subscription::start(server.address()).await;
        for nonce in 1..=frames {
            stream.ping(nonce);
        }
        for nonce in 1..=passed {
            let answer = stream.next().await.unwrap();
            assert!(matches!(answer, Response::Pong(pong) if pong.nonce == nonce));
        }
        let update = |stream: &Subscription| stream.update(1, vec![], vec![]);
        check_end(&mut stream, frames > BURST, &update).await;
    }
    harness::eventually("four streams are gone", async || {
        server.metric(&ended("client")).await == 4
    })
    .await;
    assert_eq!(server.metric(&ended("rate_limited")).await, 2);
    let limited = "xmtp_stream_updates_total{outcome=\"rate_limited\"}";
    assert_eq!(server.metric(limited).await, 1);
    server.stop().await;
}

/// Either the stream has ended for its frames, or it still answers one of the other kind.
async fn check_end(stream: &mut Subscription, is_over: bool, ask: &dyn Fn(&Subscription)) {
    if is_over {
        let status = stream.next().await.expect_err("one frame too many");
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    } else {
        ask(stream);
        stream.next().await.expect("the other bucket is full");
    }
}

/// Pongs cost nothing, wanted or not (API-107).
#[tokio::test]
async fn unasked_pongs_are_free_and_ignored() {
    let server = limited("max_ping_burst = 1\nmax_update_burst = 1").await;
    let mut stream = Subscription::start(server.address()).await;
    for nonce in 0..1_000 {
        stream.pong(nonce);
    }
    stream.ping(5);
    let answer = stream.next().await.unwrap();
    assert!(matches!(answer, Response::Pong(pong) if pong.nonce == 5));
    let received = "xmtp_stream_frames_received_total{frame=\"pong\"}";
    assert_eq!(server.metric(received).await, 1_000);
    server.stop().await;
}

/// The default bucket, as it is published: of 101 Pings at once, at least 100 are answered, and when
/// the last was refused that is how the stream ended.
#[tokio::test]
async fn the_default_burst_is_a_hundred_frames() {
    let server = TestServer::start().await;
    let mut stream = Subscription::start(server.address()).await;
    // More than can be refilled on the way: ten a second.
    for nonce in 1..=1_000 {
        stream.ping(nonce);
    }
    let mut pongs = 0;
    let status = loop {
        match stream.next().await {
            Ok(Response::Pong(_)) => pongs += 1,
            Ok(other) => panic!("{other:?}"),
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    // The queue may have been full before the bucket was empty; then nothing more is told.
    assert!(pongs == 0 || (64..200).contains(&pongs), "{pongs}");
    server.stop().await;
}

/// The Applied of a stream and the Started of a static one pass at `max_response_bytes` and fail one
/// byte above, before anything is sent (API-134).
#[tokio::test]
async fn a_control_frame_must_fit_a_response() {
    let groups = 1..=40;
    // What an unlimited server answers.
    let server = TestServer::start().await;
    let mut stream = Subscription::start(server.address()).await;
    stream.update(1, adds(groups.clone()), vec![]);
    let applied_bytes = encoded(stream.next().await.unwrap());
    let mut stream =
        StaticSubscription::open(Transport::Native, server.address(), adds(groups.clone()))
            .await
            .unwrap();
    let started_bytes = stream.next().await.unwrap().encoded_len();
    server.stop().await;

    for (limit, fits) in [
        (applied_bytes - 1, false),
        (applied_bytes, true),
        (applied_bytes + 1, true),
    ] {
        let server = responding(limit).await;
        let mut stream = Subscription::start(server.address()).await;
        stream.update(1, adds(groups.clone()), vec![]);
        let answer = stream.next().await.map(encoded);
        check_fit(&server, limit, fits, applied_bytes, answer).await;
        server.stop().await;
    }
    // The oneof's own length, as for any response.
    for (limit, fits) in [
        (started_bytes - 1, false),
        (started_bytes, true),
        (started_bytes + 1, true),
    ] {
        let server = responding(limit).await;
        for transport in Transport::ALL {
            let opened =
                StaticSubscription::open(transport, server.address(), adds(groups.clone())).await;
            let answer = match opened {
                Ok(mut stream) => stream.next().await.map(|frame| frame.encoded_len()),
                Err(status) => Err(status),
            };
            let expected = if fits {
                Ok(started_bytes)
            } else {
                Err(Code::ResourceExhausted)
            };
            assert_eq!(
                answer.map_err(|status| status.code()),
                expected,
                "{transport:?}"
            );
        }
        server.stop().await;
    }
}

fn encoded(response: Response) -> usize {
    response.encoded_len()
}

async fn responding(max_response_bytes: usize) -> TestServer {
    limited(&format!(
        "max_response_bytes = {max_response_bytes}\nmax_envelope_bytes = 300"
    ))
    .await
}

async fn check_fit(
    server: &TestServer,
    limit: usize,
    fits: bool,
    bytes: usize,
    answer: Result<usize, Status>,
) {
    match answer {
        Ok(got) => assert!(fits && got == bytes, "{got} bytes within {limit}"),
        Err(status) => {
            assert!(!fits, "{bytes} bytes within {limit}: {status}");
            assert_eq!(status.code(), Code::ResourceExhausted);
            until_all_ended(server, "capacity", 1).await;
        }
    }
}

/// The largest Update there may be by default is answered with one frame, which fits; and all its
/// topics are gone when it ends (ARC-074).
#[tokio::test]
async fn the_largest_update_is_answered_with_one_frame() {
    const TOPICS: u64 = 100_000;

    let server = TestServer::start().await;
    let mut stream = Subscription::start(server.address()).await;
    let queries: Vec<TopicQuery> = (0..TOPICS)
        .map(|number| {
            let mut topic = vec![0];
            topic.extend_from_slice(&group_id(1)[..8]);
            topic.extend_from_slice(&number.to_be_bytes());
            after(&topic, 0)
        })
        .collect();
    stream.update(1, queries.clone(), vec![]);
    let Response::Applied(answer) = stream.next().await.unwrap() else {
        panic!("an Applied is due");
    };
    assert_eq!(answer.added_targets.len() as u64, TOPICS);
    for (target, query) in answer.added_targets.iter().zip(&queries) {
        assert_eq!(
            (&target.topic, target.through_sequence_id),
            (&query.topic, 0)
        );
    }
    let gauge = "xmtp_stream_topics_registered";
    assert_eq!(server.metric(gauge).await, TOPICS);

    // One more does not fit the stream; as many removals fit one Update.
    let removes = queries.into_iter().filter_map(|query| query.topic);
    stream.update(2, vec![], removes.collect());
    assert_eq!(applied(&mut stream).await, (2, vec![]));
    assert_eq!(server.metric(gauge).await, 0);
    server.stop().await;
}

/// An Applied that fits a response but not the outbound queue of 16 MiB ends the stream (ARC-080): a
/// target of an empty welcome topic has 39 bytes, and what surrounds all of them 7.
#[tokio::test]
async fn a_control_frame_must_fit_the_queue() {
    const FIT: u64 = (16 * 1024 * 1024 - 7) / 39;

    let server = limited("max_update_adds = 500000\nmax_stream_topics = 500000").await;
    for (topics, fits) in [(FIT, true), (FIT + 1, false)] {
        let mut stream = Subscription::start(server.address()).await;
        let queries = (0..topics).map(|number| {
            let mut topic = vec![1; 33];
            topic[25..].copy_from_slice(&number.to_be_bytes());
            TopicQuery {
                topic: Some(topic_message(&topic)),
                cursor: None,
            }
        });
        stream.update(1, queries.collect(), vec![]);
        match stream.next().await {
            Ok(Response::Applied(answer)) => {
                assert!(fits, "{} bytes", answer.encoded_len());
                assert_eq!(answer.added_targets.len() as u64, topics);
            }
            Ok(other) => panic!("{other:?}"),
            Err(status) => {
                assert!(!fits, "{topics}: {status}");
                assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
            }
        }
    }
    harness::eventually("nothing is registered", async || {
        crate::subscribers::registered(&server).await == [0; 3]
    })
    .await;
    assert_eq!(server.metric(&ended("capacity")).await, 1);
    server.stop().await;
}
