//! What the operator sees of streams: metrics and log lines, and no topic in either (ARC-085, ARC-093,
//! ARC-094, ARC-101).

use std::ops::RangeInclusive;

use client::SubscriptionServiceClient;
use envelope::wire::xmtp::backend::v1::SubscribeStaticRequest;
use envelope::wire::xmtp::backend::v1::subscribe_request::{Request, Update};
use envelope::wire::xmtp::backend::v1::{Ping, SubscribeRequest};
use harness::{Subscription, TestDatabase, TestServer, channel, eventually};
use serde_json::Value;
use tokio_stream::{StreamExt as _, iter};

use crate::given::{ids, message};
use crate::process::{Process, document, free_address};
use crate::reading::{after, topic as topic_message};
use crate::subscribers::{store, topic, until_pong};

/// Each frame and each envelope counts once, under its kind and phase; so does each Update.
#[tokio::test]
async fn frames_envelopes_and_updates_are_counted() {
    let server = TestServer::start().await;
    store(&server, 1, 0..5).await;
    let mut stream = Subscription::start(server.address()).await;
    stream.add(&[(&topic(1), 0), (&topic(2), 0)]).await;
    stream.envelopes(5).await;
    ids(server.publish(vec![message(2, 0)]).await);
    stream.envelopes(1).await;
    stream.remove(&[&topic(1)]).await;
    assert!(until_pong(&mut stream, 1).await.is_empty());
    stream.pong(3);
    until_pong(&mut stream, 2).await;
    for (series, value) in [
        ("xmtp_stream_sessions{kind=\"bidi\"}", 1),
        ("xmtp_stream_topics_registered", 1),
        ("xmtp_stream_frames_sent_total{frame=\"started\"}", 1),
        ("xmtp_stream_frames_sent_total{frame=\"applied\"}", 2),
        ("xmtp_stream_frames_sent_total{frame=\"messages\"}", 2),
        ("xmtp_stream_frames_sent_total{frame=\"pong\"}", 2),
        ("xmtp_stream_frames_sent_total{frame=\"ping\"}", 0),
        ("xmtp_stream_frames_received_total{frame=\"update\"}", 2),
        ("xmtp_stream_frames_received_total{frame=\"ping\"}", 2),
        ("xmtp_stream_frames_received_total{frame=\"pong\"}", 1),
        ("xmtp_stream_envelopes_sent_total{phase=\"catch_up\"}", 5),
        ("xmtp_stream_envelopes_sent_total{phase=\"live\"}", 1),
        ("xmtp_stream_updates_total{outcome=\"applied\"}", 2),
        ("xmtp_stream_updates_total{outcome=\"invalid\"}", 0),
        ("xmtp_stream_delivery_lag_seconds_count", 1),
        ("xmtp_tailer_ready", 1),
        ("xmtp_tailer_restarts_total", 1),
    ] {
        assert_eq!(server.metric(series).await, value, "{series}");
    }
    let permits = server.metric("xmtp_stream_fetch_wait_seconds_count").await;
    assert_eq!(
        permits, 2,
        "the heads of one Update, and one turn of history"
    );
    server.stop().await;
}

/// A change of interest is one log line with the number of topics that were really added and removed,
/// inside its request; the end of a stream is one more. No line has a topic (ARC-085, ARC-094, ARC-096).
#[tokio::test]
async fn changes_of_interest_and_ends_are_logged_without_topics() {
    let database = TestDatabase::create_bare().await;
    let lines = "server.log_format = \"json\"";
    let address = free_address();
    let document = document(&database.url(), lines).replace(
        "server.listen = \"127.0.0.1:0\"",
        &format!("server.listen = \"{address}\""),
    );
    let process = Process::with_document(&document);
    process.until_logged("\"serving\"").await;
    let mut client = SubscriptionServiceClient::new(channel(address).await);

    let update = |id, adds: &[u64], removes: &[u64]| SubscribeRequest {
        request: Some(Request::Update(Update {
            id,
            adds: adds.iter().map(|group| after(&topic(*group), 0)).collect(),
            removes: removes
                .iter()
                .map(|group| topic_message(&topic(*group)))
                .collect(),
        })),
    };
    let ping = Some(Request::Ping(Ping { nonce: 1 }));
    let frames = vec![
        update(1, &[1, 2, 3], &[4]),
        update(2, &[1, 5], &[2, 3, 6]),
        SubscribeRequest { request: ping },
        update(3, &[], &[]),
    ];
    let response = client.subscribe(iter(frames)).await.unwrap();
    let request_id = request_id(&response);
    let answers: Vec<_> = response.into_inner().collect().await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");

    let request = SubscribeStaticRequest {
        topics: vec![after(&topic(7), 0), after(&topic(8), 0)],
    };
    let response = client.subscribe_static(request).await.unwrap();
    let static_id = self::request_id(&response);
    drop(response);

    eventually("both requests are over", async || {
        let output = process.output();
        output.matches("\"request completed\"").count() == 2
    })
    .await;
    let output = process.output();
    let changes: Vec<(&str, [u64; 2])> = vec![
        (&request_id, [3, 0]),
        (&request_id, [1, 2]),
        (&request_id, [0, 0]),
        (&static_id, [2, 0]),
    ];
    let seen = changes_logged(&output);
    let seen: Vec<(&str, [u64; 2])> = seen.iter().map(|(id, n)| (id.as_str(), *n)).collect();
    assert_eq!(seen, changes);
    for (id, path, code) in [
        (&request_id, "Subscribe", "OK"),
        (&static_id, "SubscribeStatic", "Cancelled"),
    ] {
        let path = format!("\"/xmtp.backend.v1.SubscriptionService/{path}\"");
        let line = output
            .lines()
            .find(|line| line.contains("\"request completed\"") && line.contains(&path));
        let line = line.expect("a line of its end");
        assert!(line.contains(id.as_str()) && line.contains(code), "{line}");
    }
    check_no_topic(&output, 1..=8);
    process.signal("TERM");
    process.end().await.check(0, "drained");
    database.drop().await;
}

fn request_id<T>(response: &tonic::Response<T>) -> String {
    let id = response.metadata().get("x-request-id").unwrap();
    id.to_str().unwrap().to_owned()
}

/// The request ids of logged changes of interest, with the numbers of topics.
fn changes_logged(output: &str) -> Vec<(String, [u64; 2])> {
    let lines = output.lines();
    let lines = lines.map(|line| serde_json::from_str(line).expect("JSON"));
    lines
        .filter(|line: &Value| line["message"] == "interests changed")
        .map(|line| {
            assert_eq!(line["level"], "INFO");
            let number = |field: &str| line[field].as_u64().expect("a number");
            let id = line["span"]["request_id"].as_str().expect("an id");
            (id.to_owned(), [number("added"), number("removed")])
        })
        .collect()
}

/// Neither as hexadecimal nor as a list of numbers.
fn check_no_topic(output: &str, groups: RangeInclusive<u64>) {
    for group in groups {
        let topic = topic(group);
        let list = format!("{:?}", &topic[1..5]);
        assert!(!output.contains(&hex::encode(&topic[1..])), "{output}");
        assert!(!output.contains(list.trim_matches(['[', ']'])), "{output}");
    }
}
