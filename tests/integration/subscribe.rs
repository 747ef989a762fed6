//! Subscriptions as clients see them (ARC-074 to ARC-085, API-100 to API-111).

use envelope::wire::xmtp::backend::v1::ServerEnvelope;
use envelope::wire::xmtp::backend::v1::subscribe_static_response::Response as StaticFrame;
use harness::{StaticSubscription, Subscription, TestServer, Transport};

use crate::given::{group_topic, id_of, ids, message};
use crate::reading::after;

/// The id of a delivered envelope.
fn of(envelope: &ServerEnvelope) -> u64 {
    id_of(envelope.meta.as_ref().expect("complete metadata"))
}

/// History first, then what is published while the stream is open, each once and in order: the
/// targets say where the history ended (ARC-075, ARC-076, API-100).
#[tokio::test]
async fn history_comes_first_and_then_live_envelopes() {
    let server = TestServer::start().await;
    let stored = ids(server
        .publish((0..3).map(|n| message(1, n)).collect())
        .await);

    let mut stream = Subscription::start(server.address()).await;
    let (targets, early) = stream.add(&[(group_topic(1).as_bytes(), 0)]).await;
    assert_eq!((targets, early), (vec![stored[2]], vec![]));
    let history = stream.envelopes(3).await;
    assert_eq!(history.iter().map(of).collect::<Vec<_>>(), stored);

    let live = ids(server.publish(vec![message(1, 3), message(1, 4)]).await);
    let received = stream.envelopes(2).await;
    assert_eq!(received.iter().map(of).collect::<Vec<_>>(), live);
    server.stop().await;
}

/// A static stream over every protocol: the first frame with its targets leaves before anything is
/// published, and later envelopes come one by one on the open response (ARC-084, ARC-113).
#[tokio::test]
async fn a_static_stream_delivers_while_it_is_open() {
    let server = TestServer::start().await;
    for (group, transport) in (1..).zip(Transport::ALL) {
        let topic = group_topic(group);
        let topics = vec![after(topic.as_bytes(), 0)];
        let mut stream = StaticSubscription::open(transport, server.address(), topics)
            .await
            .unwrap();
        let StaticFrame::Started(started) = stream.next().await.unwrap() else {
            panic!("{transport:?}: the first frame is Started");
        };
        assert_eq!(started.keepalive_interval_ms, 30_000);
        assert_eq!(started.targets[0].through_sequence_id, 0);
        for number in 0..2 {
            let published = ids(server.publish(vec![message(group, number)]).await);
            let received = stream.envelopes(1).await;
            assert_eq!(received.iter().map(of).collect::<Vec<_>>(), published);
        }
    }
    server.stop().await;
}
