//! Subscribers that read slowly or not at all: what is kept for them is bounded, nothing is lost, and
//! nobody else waits (ARC-073, ARC-077, ARC-079, ARC-080, API-110).

use envelope::wire::xmtp::backend::v1::subscribe_response::Response;
use harness::{Subscription, TestServer, eventually};
use tonic::Code;

use crate::given::ids;
use crate::reading::after;
use crate::subscribers::{
    RawSubscription, all_ended, ended, narrow_channel, received, received_on, sized, store, topic,
    until_pong,
};

/// Bytes in flight towards a client with a narrow connection.
const WINDOW: u32 = 1_024;

/// The largest stored envelope that a minimal deployment takes.
const LARGEST: usize = 1024 * 1024;

/// Envelopes of catch-up that were queued so far.
const CAUGHT_UP: &str = "xmtp_stream_envelopes_sent_total{phase=\"catch_up\"}";

async fn start(lines: &str) -> TestServer {
    TestServer::builder()
        .table("streams", "poll_interval_ms = 1")
        .table("limits", lines)
        .start()
        .await
}

/// A stream of topics, over a connection that keeps next to nothing, whose client reads only as far
/// as their Applied.
async fn stalled(server: &TestServer, groups: &[u64]) -> Subscription {
    let channel = narrow_channel(server.address(), WINDOW).await;
    let mut stream = Subscription::open_on(channel).await.unwrap();
    let adds = groups.iter().map(|group| after(&topic(*group), 0));
    stream.update(1, adds.collect(), vec![]);
    loop {
        match stream.next().await.unwrap() {
            Response::Started(_) => {}
            Response::Applied(_) => return stream,
            other @ (Response::Messages(_) | Response::Ping(_) | Response::Pong(_)) => {
                panic!("{other:?}")
            }
        }
    }
}

/// Live traffic on a topic whose subscriber does not read: it is told `RESOURCE_EXHAUSTED` when a
/// second queueful has come in, and what it got is a prefix. Somebody else on the same topic gets every
/// envelope while the next one is not even published. Small envelopes fill the frames of the queue,
/// large ones its bytes, on one topic or on many.
#[tokio::test]
async fn a_subscriber_that_does_not_read_is_told_so_and_nobody_waits_for_it() {
    let server = start("").await;
    let cases: [(&str, u64, usize, u64); 3] = [
        ("small, one topic", 1, 1_500, 1_000),
        ("large, one topic", 1, LARGEST, 200),
        ("large, four topics", 4, LARGEST, 200),
    ];
    for (number, (claim, topics, bytes, most)) in (1..).zip(cases) {
        let groups: Vec<u64> = (0..topics).map(|n| number * 100 + n).collect();
        let mut slow = stalled(&server, &groups).await;
        let mut quick = Subscription::start(server.address()).await;
        let names: Vec<Vec<u8>> = groups.iter().map(|group| topic(*group)).collect();
        let adds: Vec<(&[u8], u64)> = names.iter().map(|name| (name.as_slice(), 0)).collect();
        quick.add(&adds).await;

        let mut published = Vec::new();
        while server.metric(&ended("backpressure")).await < number {
            let next = published.len() as u64;
            assert!(next < most, "{claim}: it is still open");
            let group = groups[usize::try_from(next % topics).unwrap()];
            let live = ids(server.publish(vec![sized(group, next, bytes)]).await);
            assert_eq!(received(&quick.envelopes(1).await), live, "{claim}");
            published.extend(live);
        }
        assert!(until_pong(&mut quick, 1).await.is_empty());

        let mut got = Vec::new();
        let status = loop {
            match slow.next().await {
                Ok(Response::Messages(messages)) => got.extend(received(&messages.envelopes)),
                Ok(other) => panic!("{claim}: {other:?}"),
                Err(status) => break status,
            }
        };
        assert_eq!(status.code(), Code::ResourceExhausted, "{claim}: {status}");
        assert!(published.starts_with(&got), "{claim}: {got:?}");
    }
    assert_eq!(server.metric(&ended("backpressure")).await, 3);
    server.stop().await;
}

/// With only history owed, nothing ends: the server stops fetching when half of the queue is full, and
/// the client gets all of it whenever it reads on. Ten times as much history as the queue holds.
#[tokio::test]
async fn history_waits_for_a_subscriber_that_pauses() {
    const MESSAGES: u64 = 40;

    let server = start("").await;
    let mut stored = Vec::new();
    for number in 0..MESSAGES {
        stored.extend(ids(server.publish(vec![sized(1, number, LARGEST)]).await));
    }
    let mut slow = stalled(&server, &[1]).await;
    eventually("half of the queue is full", async || {
        server.metric(CAUGHT_UP).await >= 7
    })
    .await;
    // Others read and write meanwhile, on its topic too.
    let mut quick = Subscription::start(server.address()).await;
    quick.add(&[(&topic(1), *stored.last().unwrap())]).await;
    for number in MESSAGES..MESSAGES + 5 {
        let live = ids(server.publish(vec![sized(1, number, 1_000)]).await);
        assert_eq!(received(&quick.envelopes(1).await), live);
        stored.extend(live);
    }
    // Seven in half of the queue, and what the connection took.
    let caught_up = server.metric(CAUGHT_UP).await;
    assert!((7..=10).contains(&caught_up), "{caught_up} were queued");
    assert_eq!(all_ended(&server).await, 0);

    // It can still change its interests, before it reads on.
    slow.update(2, vec![after(&topic(2), 0)], vec![]);
    let mut got = Vec::new();
    let mut answered = 0;
    while got.len() < stored.len() || answered == 0 {
        match slow.next().await.unwrap() {
            Response::Messages(messages) => got.extend(received(&messages.envelopes)),
            Response::Applied(applied) => answered = applied.id,
            other @ (Response::Started(_) | Response::Ping(_) | Response::Pong(_)) => {
                panic!("{other:?}")
            }
        }
    }
    assert_eq!((got, answered), (stored, 2));
    assert_eq!(all_ended(&server).await, 0);
    server.stop().await;
}

/// A subscriber that reads, only slower than others publish, falls back to history and loses nothing.
#[tokio::test]
async fn a_slow_reader_falls_behind_and_catches_up() {
    const ROUNDS: u64 = 100;

    let server = start("").await;
    let mut slow = stalled(&server, &[1, 2]).await;
    let mut published = [Vec::new(), Vec::new()];
    let mut got = Vec::new();
    for number in 0..ROUNDS {
        for (group, published) in [1, 2].into_iter().zip(&mut published) {
            let large = sized(group, number, LARGEST / 4);
            published.extend(ids(server.publish(vec![large]).await));
        }
        // Now and then it takes one frame, of up to eight envelopes.
        if number % 8 == 0 {
            got.extend(slow.messages().await);
        }
    }
    assert!(got.len() < 150, "{} of 200: it is not slow", got.len());
    got.extend(slow.envelopes(200 - got.len()).await);
    for (group, published) in [1, 2].into_iter().zip(published) {
        assert_eq!(received_on(&topic(group), &got), published);
    }
    assert_eq!(all_ended(&server).await, 0);
    server.stop().await;
}

/// No frame is longer than 2 MiB or than `max_response_bytes`, whatever is owed: history and live, small
/// envelopes and the largest ones (ARC-079).
#[tokio::test]
async fn frames_are_bounded() {
    const MIB: usize = 1024 * 1024;

    let cases = [
        ("", 2 * MIB, vec![MIB, MIB - 300, MIB / 2, 100_000, 100]),
        (
            "max_response_bytes = 1048832",
            MIB + 256,
            vec![MIB, 600_000],
        ),
        (
            "max_response_bytes = 50000\nmax_envelope_bytes = 49744",
            50_000,
            vec![49_744, 24_744, 24_745, 200],
        ),
    ];
    for (lines, bound, sizes) in cases {
        let server = start(lines).await;
        let mut stored = Vec::new();
        let mut number = 0;
        let mut publish = async || {
            for size in &sizes {
                for _ in 0..6 {
                    number += 1;
                    stored.extend(ids(server.publish(vec![sized(1, number, *size)]).await));
                }
            }
            stored.len()
        };
        let history = publish().await;
        let mut stream = RawSubscription::open(server.address()).await;
        stream.next().await.unwrap();
        let adds = vec![after(&topic(1), 0)];
        stream.update(1, adds);
        stream.next().await.unwrap();
        let mut got = Vec::new();
        let mut largest = 0;
        read(&mut stream, &mut got, &mut largest, history).await;
        let all = publish().await;
        read(&mut stream, &mut got, &mut largest, all).await;
        assert_eq!(got, stored);
        assert!(largest <= bound, "{largest} of {bound} bytes");
        // The bound is used: two of the second size would fit otherwise.
        assert!(largest > bound / 2, "{largest} of {bound} bytes");
        server.stop().await;
    }
}

async fn read(
    stream: &mut RawSubscription,
    got: &mut Vec<u64>,
    largest: &mut usize,
    number: usize,
) {
    while got.len() < number {
        let (length, envelopes) = stream.messages().await;
        *largest = length.max(*largest);
        got.extend(received(&envelopes));
    }
}

/// Many small envelopes of history: each turn has 64 rows of a topic at most, and all of them come.
#[tokio::test]
async fn a_long_history_comes_whole() {
    let server = start("").await;
    let stored = store(&server, 1, 0..3_000).await;
    let mut stream = Subscription::start(server.address()).await;
    stream.add(&[(&topic(1), 0)]).await;
    let mut got = Vec::new();
    while got.len() < stored.len() {
        let envelopes = stream.messages().await;
        assert!(envelopes.len() <= 64, "{}", envelopes.len());
        got.extend(received(&envelopes));
    }
    assert_eq!(got, stored);
    server.stop().await;
}
