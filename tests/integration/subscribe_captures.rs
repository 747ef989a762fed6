//! What real clients sent arrives at subscribers as it was sent (ARC-013, API-025).

use std::collections::HashMap;

use bytes::Bytes;
use envelope::wire::xmtp::backend::v1::SubscribeStaticRequest;
use harness::{Form, Http, TestServer, Transport, WebCall};
use prost::Message;

use crate::captures::{Capture, publish};
use crate::raw_reading::{Stored, sequence_id};
use crate::reading::after;
use crate::subscribers::RawSubscription;

/// `SubscribeResponse` and `SubscribeStaticResponse`, as far as they carry envelopes, which are left as
/// they came: their envelopes have different numbers in the two.
#[derive(Clone, PartialEq, Message)]
struct Envelopes {
    #[prost(message, optional, tag = "2")]
    of_static: Option<Stamped>,
    #[prost(message, optional, tag = "3")]
    of_bidi: Option<Stamped>,
}

#[derive(Clone, PartialEq, Message)]
struct Stamped {
    #[prost(message, repeated, tag = "1")]
    envelopes: Vec<Stored>,
}

/// Every payload of every set, live on a bidirectional stream and later from history on a static one
/// over gRPC-Web: the topics, the order and each byte are what they were, metadata as the publish
/// answered it.
#[tokio::test]
async fn real_payloads_arrive_as_they_were_sent() {
    for set in ["node-api", "gateway-api", "proposals"] {
        let capture = Capture::load(set);
        let server = TestServer::builder()
            .at_unix_seconds(capture.moment_s())
            .wallets(capture.wallets())
            .start()
            .await;
        let mut topics: Vec<Bytes> = capture.payloads.iter().map(|p| p.topic()).collect();
        topics.sort();
        topics.dedup();
        let adds: Vec<_> = topics.iter().map(|topic| after(topic, 0)).collect();
        let mut live = RawSubscription::open(server.address()).await;
        live.next().await.unwrap();
        live.update(1, adds.clone());
        live.next().await.unwrap();

        let mut expected: HashMap<Bytes, Vec<Stored>> = HashMap::new();
        let mut number = 0;
        for payloads in capture.requests() {
            let metas = publish(&server, Transport::Native, payloads).await.unwrap();
            let mut seen = Vec::new();
            for (payload, meta) in payloads.iter().zip(metas) {
                let stored = Stored {
                    meta: Some(meta),
                    envelope: payload.canonical.clone(),
                };
                let on_topic = expected.entry(payload.topic()).or_default();
                // Some payloads were sent twice; they are stored once.
                if !on_topic.contains(&stored) {
                    number += 1;
                    seen.push(sequence_id(stored.meta.as_ref().unwrap()));
                    on_topic.push(stored);
                }
            }
        }
        let mut received = Vec::new();
        while received.len() < number {
            let frame = live.next().await.unwrap();
            let envelopes = Envelopes::decode(frame).unwrap().of_bidi;
            received.extend(envelopes.expect("envelopes").envelopes);
        }
        check(set, received, &expected);

        let call = WebCall {
            address: server.address(),
            http: Http::One,
            form: Form::Binary,
        };
        let request = SubscribeStaticRequest { topics: adds };
        let path = "/xmtp.backend.v1.SubscriptionService/SubscribeStatic";
        let mut history = call
            .stream::<_, harness::RawMessage>(path, &[request])
            .await
            .unwrap();
        history.next().await.unwrap();
        let mut received = Vec::new();
        while received.len() < number {
            let frame = history.next().await.unwrap().expect("it is open").0;
            let envelopes = Envelopes::decode(frame).unwrap().of_static;
            received.extend(envelopes.expect("envelopes").envelopes);
        }
        check(set, received, &expected);
        server.stop().await;
    }
}

fn check(set: &str, received: Vec<Stored>, expected: &HashMap<Bytes, Vec<Stored>>) {
    let mut by_topic: HashMap<Bytes, Vec<Stored>> = HashMap::new();
    for stored in received {
        by_topic.entry(stored.topic()).or_default().push(stored);
    }
    assert_eq!(&by_topic, expected, "{set}");
}
