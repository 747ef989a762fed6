//! Whose turn it is: histories of several topics share a stream fairly, and a removal takes effect at
//! once however much is owed (ARC-074, ARC-086, ARC-087, ARC-088, API-105, API-261).

use std::collections::{HashMap, HashSet};

use envelope::wire::xmtp::backend::v1::subscribe_response::Response;
use envelope::wire::xmtp::backend::v1::subscribe_static_response::Response as StaticFrame;
use envelope::wire::xmtp::backend::v1::{ServerEnvelope, TopicQuery};
use harness::{StaticSubscription, Subscription, TestServer, Transport, eventually};

use crate::given::{ids, message};
use crate::reading::{after, topic as topic_message};
use crate::subscribers::{
    narrow_channel, of, received, received_on, sized, store, topic, topic_of, until_pong,
};

/// A group, the number of its messages, and the bytes of each.
type History = (u64, u64, usize);

/// Publishes histories; answers what each topic must deliver.
async fn histories(server: &TestServer, plan: &[History]) -> HashMap<Vec<u8>, Vec<u64>> {
    let mut stored = HashMap::new();
    for (group, messages, bytes) in plan {
        let mut on_topic = Vec::new();
        let numbers: Vec<u64> = (0..*messages).collect();
        for batch in numbers.chunks((4_000_000 / bytes).min(500)) {
            let batch = batch.iter().map(|n| sized(*group, *n, *bytes)).collect();
            on_topic.extend(ids(server.publish(batch).await));
        }
        stored.insert(topic(*group), on_topic);
    }
    stored
}

fn adds(plan: &[History]) -> Vec<TopicQuery> {
    let groups = plan.iter();
    groups.map(|(group, ..)| after(&topic(*group), 0)).collect()
}

/// No topic with rows owed gets a second frame before every other one got its first, at every moment
/// (API-261): between two frames of a topic, each other that still owes something had one.
fn check_fairness(
    claim: &str,
    frames: &[Vec<ServerEnvelope>],
    stored: &HashMap<Vec<u8>, Vec<u64>>,
) {
    let mut delivered: HashMap<Vec<u8>, usize> = HashMap::new();
    // The topics that got a frame since this one did.
    let mut since: HashMap<Vec<u8>, HashSet<Vec<u8>>> = HashMap::new();
    for frame in frames {
        let in_frame: HashSet<Vec<u8>> = frame.iter().map(topic_of).collect();
        for topic in &in_frame {
            let Some(others) = since.get(topic) else {
                continue;
            };
            for (other, all) in stored {
                let owes = delivered.get(other).copied().unwrap_or(0) < all.len();
                let served = others.contains(other) || in_frame.contains(other);
                assert!(!owes || served, "{claim}: one topic was passed over");
            }
        }
        for topic in &in_frame {
            for others in since.values_mut() {
                others.insert(topic.clone());
            }
        }
        for topic in &in_frame {
            since.insert(topic.clone(), HashSet::new());
        }
        for envelope in frame {
            *delivered.entry(topic_of(envelope)).or_default() += 1;
        }
    }
}

/// One huge topic and many small ones, small and large envelopes, more topics than a turn has: all of
/// every history comes in order, and nobody is passed over.
#[tokio::test]
async fn no_topic_gets_a_second_frame_before_every_other_one_got_its_first() {
    const LARGEST: usize = 1024 * 1024;

    let small = |groups: std::ops::Range<u64>, messages, bytes| {
        groups.map(move |group| (group, messages, bytes))
    };
    let cases: [(&str, Vec<History>); 5] = [
        (
            "the worked example",
            vec![(1, 5_000, 200), (2, 1, 200), (3, 1, 200)],
        ),
        (
            "one huge, forty small",
            [(1, 2_000, 200)]
                .into_iter()
                .chain(small(2..42, 3, 200))
                .collect(),
        ),
        (
            "large beside small",
            [(1, 12, LARGEST)]
                .into_iter()
                .chain(small(2..20, 2, 200))
                .collect(),
        ),
        (
            "large everywhere, more than a turn holds",
            small(1..13, 3, LARGEST).collect(),
        ),
        (
            "more topics than a turn has",
            [(1, 500, 200)]
                .into_iter()
                .chain(small(2..400, 1, 200))
                .collect(),
        ),
    ];
    for (claim, plan) in cases {
        let server = TestServer::start().await;
        let stored = histories(&server, &plan).await;
        let mut stream = Subscription::start(server.address()).await;
        let queries = adds(&plan);
        let names: Vec<_> = queries
            .iter()
            .map(|query| query.topic.clone().unwrap().topic)
            .collect();
        let topics: Vec<(&[u8], u64)> = names.iter().map(|name| (&name[..], 0)).collect();
        let (targets, early) = stream.add(&topics).await;
        assert!(early.is_empty());
        for (name, target) in names.iter().zip(targets) {
            assert_eq!(stored[&name[..]].last(), Some(&target), "{claim}");
        }
        let all: usize = stored.values().map(Vec::len).sum();
        let mut frames = Vec::new();
        while frames.iter().map(Vec::len).sum::<usize>() < all {
            frames.push(stream.messages().await);
        }
        check_fairness(claim, &frames, &stored);
        let envelopes = frames.concat();
        for (name, expected) in &stored {
            assert_eq!(&received_on(name, &envelopes), expected, "{claim}");
        }
        server.stop().await;
    }
}

/// The same for a static stream (API-261, ARC-084).
#[tokio::test]
async fn a_static_stream_is_fair_too() {
    let server = TestServer::start().await;
    let plan: Vec<_> = [(1, 1_000, 200)]
        .into_iter()
        .chain((2..30).map(|group| (group, 70, 200)))
        .collect();
    let stored = histories(&server, &plan).await;
    let all: usize = stored.values().map(Vec::len).sum();
    for transport in Transport::ALL {
        let mut stream = StaticSubscription::open(transport, server.address(), adds(&plan))
            .await
            .unwrap();
        let mut frames = Vec::new();
        while frames.iter().map(Vec::len).sum::<usize>() < all {
            match stream.next().await.unwrap() {
                StaticFrame::Started(started) => assert_eq!(started.targets.len(), plan.len()),
                StaticFrame::Messages(messages) => frames.push(messages.envelopes),
                StaticFrame::Keepalive(_) => {}
            }
        }
        check_fairness("static", &frames, &stored);
        let envelopes = frames.concat();
        for (name, expected) in &stored {
            assert_eq!(&received_on(name, &envelopes), expected, "{transport:?}");
        }
    }
    server.stop().await;
}

/// A topic that gets live rows goes on while another one has a long history (ARC-078).
#[tokio::test]
async fn a_current_topic_does_not_wait_for_the_history_of_another() {
    let server = TestServer::builder()
        .table("streams", "poll_interval_ms = 1")
        .start()
        .await;
    let plan = [(1, 30, 1024 * 1024)];
    let stored = histories(&server, &plan).await;
    let channel = narrow_channel(server.address(), 65_535).await;
    let mut stream = Subscription::open_on(channel).await.unwrap();
    stream.next().await.unwrap();
    stream.add(&[(&topic(2), 0), (&topic(1), 0)]).await;
    // The client reads nothing now, so the history stands still with most of it owed.
    let caught_up = "xmtp_stream_envelopes_sent_total{phase=\"catch_up\"}";
    eventually("half of the queue is full", async || {
        server.metric(caught_up).await >= 7
    })
    .await;
    let live = store(&server, 2, 0..3).await;
    let queued = "xmtp_stream_envelopes_sent_total{phase=\"live\"}";
    eventually("the live rows are queued", async || {
        server.metric(queued).await == 3
    })
    .await;
    let mut got = Vec::new();
    while received_on(&topic(2), &got).len() < 3 {
        got.extend(stream.messages().await);
    }
    assert_eq!(received_on(&topic(2), &got), live);
    assert!(got.len() < 20, "{} came before", got.len());
    got.extend(stream.envelopes(33 - got.len()).await);
    assert_eq!(received_on(&topic(1), &got), stored[&topic(1)]);
    server.stop().await;
}

/// A removal in the middle of a long history is answered at once: rows that were queued by then may
/// come before the Applied, and none after it, though the client reads slowly and fetches run
/// (ARC-074, API-105). Method: many times, with the removal after a different number of frames.
#[tokio::test]
async fn nothing_of_a_removed_topic_comes_after_its_applied() {
    let server = TestServer::builder()
        .table("streams", "poll_interval_ms = 1")
        .start()
        .await;
    let mut stored = store(&server, 1, 0..10_000).await;
    for frames in 0..12 {
        let other = 100 + frames;
        let mut stream = Subscription::start(server.address()).await;
        stream.add(&[(&topic(1), 0), (&topic(other), 0)]).await;
        let mut got = Vec::new();
        for _ in 0..frames {
            got.extend(received(&stream.messages().await));
        }
        got.extend(received(&stream.remove(&[&topic(1)]).await));
        assert!(stored.starts_with(&got), "{} rows", got.len());
        assert!(got.len() < stored.len(), "it did not wait for the backlog");
        // Live rows of it, and a fence behind them.
        let missed = ids(server.publish(vec![message(1, 20_000 + frames)]).await);
        let fence = ids(server.publish(vec![message(other, 0)]).await);
        let mut rest = Vec::new();
        while rest.last() != fence.last() {
            let envelopes = stream.messages().await;
            assert!(envelopes.iter().all(|e| topic_of(e) == topic(other)));
            rest.extend(envelopes.iter().map(of));
        }
        assert!(until_pong(&mut stream, 1).await.is_empty());

        // The next registration begins where its own cursor says.
        let (targets, early) = stream.add(&[(&topic(1), stored[9_990])]).await;
        assert_eq!((targets, early), (missed.clone(), vec![]));
        stored.extend(missed);
        let again = stream.envelopes(stored.len() - 9_991).await;
        assert_eq!(received(&again), stored[9_991..]);
    }
    server.stop().await;
}

/// A topic that is removed and added again many times, without waiting, while rows come in: after each
/// Applied only rows of the current registration come, each above its cursor and once.
#[tokio::test]
async fn generations_of_a_registration_do_not_mix() {
    const ROUNDS: u64 = 40;

    let server = TestServer::builder()
        .table("streams", "poll_interval_ms = 1")
        .start()
        .await;
    let stored = store(&server, 1, 0..500).await;
    let mut stream = Subscription::start(server.address()).await;
    let mut cursors = HashMap::new();
    for round in 0..ROUNDS {
        let place = usize::try_from(round * 37 % 500).unwrap();
        cursors.insert(2 * round + 1, stored[place]);
        stream.update(2 * round + 1, vec![after(&topic(1), stored[place])], vec![]);
        stream.update(2 * round + 2, vec![], vec![topic_message(&topic(1))]);
    }
    let publishing = server.begin_publish(Transport::Native, vec![message(1, 500)]);
    let mut floor = None;
    let mut last = 0;
    while last < 2 * ROUNDS {
        match stream.next().await.unwrap() {
            Response::Applied(applied) => {
                last = applied.id;
                floor = cursors.get(&last).copied();
            }
            Response::Messages(messages) => {
                let mut above = floor.expect("no rows while nothing is registered");
                for id in received(&messages.envelopes) {
                    // Each is the next one of the topic: nothing is skipped, nothing repeated.
                    let next = stored.iter().copied().find(|stored| *stored > above);
                    assert!(next.is_none_or(|next| next == id), "{id} after {above}");
                    assert!(id > above);
                    above = id;
                }
                floor = Some(above);
            }
            other @ (Response::Started(_) | Response::Ping(_) | Response::Pong(_)) => {
                panic!("{other:?}")
            }
        }
    }
    ids(publishing.await.unwrap());
    assert!(until_pong(&mut stream, 1).await.is_empty());
    server.stop().await;
}
