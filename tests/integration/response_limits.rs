//! Answers over `max_response_bytes`: they fail whole, and what a publish stored stays (API-134,
//! API-283, ARC-053, ARC-066).

use envelope::fixtures::{Wallet, filler, group_id, group_message, welcome};
use envelope::wire::xmtp::backend::v1::{
    ClientEnvelope, GetInboxIdsRequest, PublishRequest, get_inbox_ids_request,
};
use harness::{RawMessage, TestDatabase, TestServer, Transport};
use prost::Message as _;
use tonic::{Code, Status};

use crate::reading::{after, ids, newest_of, page_of, publish, query, topic_bytes};
use crate::refusal::stored;

/// A server whose answers may have this many bytes, over a database that exists.
async fn limited(database: TestDatabase, max_response_bytes: usize) -> TestServer {
    let limits = format!("max_response_bytes = {max_response_bytes}\nmax_envelope_bytes = 300");
    TestServer::builder()
        .table("limits", &limits)
        .database(database)
        .start()
        .await
}

/// The transport's own failure, or that of an application check; never a detail.
fn assert_too_large(claim: &str, status: &Status) {
    assert!(
        matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted),
        "{claim}: {status}"
    );
    assert!(status.details().is_empty(), "{claim}: {status}");
}

fn messages() -> Vec<ClientEnvelope> {
    (0..12)
        .map(|number| group_message::numbered_application(&group_id(1), number))
        .collect()
}

/// Requests with long answers, by method.
fn requests() -> Vec<(&'static str, RawMessage)> {
    let group = topic_bytes(0, &group_id(1));
    let topics: Vec<_> = (0..12).map(|fill| topic_bytes(1, &[fill; 32])).collect();
    let topics: Vec<&[u8]> = topics.iter().map(Vec::as_slice).collect();
    let lookup = get_inbox_ids_request::Request {
        identifier: Wallet::numbered(1).address(),
        identifier_kind: 1,
    };
    let lookups = GetInboxIdsRequest {
        requests: vec![lookup; 30],
    };
    let publish = PublishRequest {
        envelopes: messages(),
    };
    vec![
        (
            "QueryService/Query",
            page_of(vec![after(&group, 0)], 0).encode_to_vec().into(),
        ),
        (
            "QueryService/QueryNewest",
            newest_of(&topics, false).encode_to_vec().into(),
        ),
        (
            "QueryService/QueryNewest",
            newest_of(&topics, true).encode_to_vec().into(),
        ),
        (
            "IdentityService/GetInboxIds",
            lookups.encode_to_vec().into(),
        ),
        ("PublishService/Publish", publish.encode_to_vec().into()),
    ]
}

/// Every unary answer passes at exactly the limit and fails one byte past it, over every protocol.
/// The publish is one of duplicates, whose answer is as long as the first one.
#[tokio::test]
async fn an_answer_passes_at_the_limit_and_fails_one_past_it() {
    let server = TestServer::start().await;
    let welcomes = (0..12).map(|fill| welcome::v1(&[fill; 32], b"welcome"));
    publish(&server, messages().into_iter().chain(welcomes).collect()).await;
    let mut database = server.stop_keeping_database().await;

    for (method, request) in requests() {
        let server = limited(database, 1_000_000).await;
        let answer: RawMessage = server.call(method, &request).await.unwrap();
        let bytes = answer.0.len();
        assert!(bytes > 556, "the limit must admit an envelope");
        database = server.stop_keeping_database().await;

        let server = limited(database, bytes).await;
        for transport in Transport::ALL {
            let passed: RawMessage = transport
                .call(server.address(), method, &request)
                .await
                .expect("at the limit");
            assert_eq!(passed, answer, "{method} over {transport:?}");
        }
        database = server.stop_keeping_database().await;

        let server = limited(database, bytes - 1).await;
        for transport in Transport::ALL {
            let claim = format!("{method} over {transport:?}");
            let failed: Result<RawMessage, _> =
                transport.call(server.address(), method, &request).await;
            assert_too_large(&claim, &failed.expect_err(&claim));
        }
        database = server.stop_keeping_database().await;
    }
    database.drop().await;
}

/// A publish whose answer is too long has happened: all of it is found, and publishing it again in
/// smaller requests gives the metadata (API-037, API-290, ARC-053).
#[tokio::test]
async fn a_publish_whose_answer_is_too_long_has_happened() {
    let server = limited(TestDatabase::create().await, 600).await;
    let status = server.publish(messages()).await.unwrap_err();
    assert_too_large("publish", &status);
    assert_eq!(stored(&server).await.envelopes, 12);

    let mut settled = Vec::new();
    for message in messages() {
        settled.extend(publish(&server, vec![message]).await);
    }
    let group = topic_bytes(0, &group_id(1));
    let mut found = Vec::new();
    let mut cursor = 0;
    loop {
        let page = query(&server, &page_of(vec![after(&group, cursor)], 2))
            .await
            .unwrap();
        let Some(last) = ids(&page).last().copied() else {
            break;
        };
        cursor = last;
        found.extend(
            page.envelopes
                .into_iter()
                .filter_map(|envelope| envelope.meta),
        );
    }
    assert_eq!(found, settled);
    assert_eq!(stored(&server).await.envelopes, 12);
    server.stop().await;
}

/// The smallest answer limit that a deployment may have still carries its largest envelope, so
/// nothing that is stored is out of reach (ARC-079, API-282).
#[tokio::test]
async fn the_smallest_answer_limit_carries_the_largest_envelope() {
    let server = limited(TestDatabase::create().await, 556).await;
    let fill = |data| welcome::v1(&[1; 32], &filler(1, data));
    let largest = fill(300 - fill(0).encoded_len() - 5);
    assert_eq!(largest.encoded_len(), 300);
    publish(&server, vec![largest.clone()]).await;
    let topic = topic_bytes(1, &[1; 32]);
    let page = query(&server, &page_of(vec![after(&topic, 0)], 0))
        .await
        .unwrap();
    assert_eq!(page.envelopes[0].envelope.as_ref(), Some(&largest));
    server.stop().await;
}

/// Goal: an answer that cannot fit costs no memory. Method: the payloads alone exceed the limit, so
/// the database is asked not to load them; one byte of room more, and the transport decides (ARC-066).
#[tokio::test]
async fn payloads_over_the_limit_are_not_loaded() {
    let database = TestDatabase::create().await;
    let server = limited(database, 5_000).await;
    let envelopes: Vec<_> = messages();
    let bytes: usize = envelopes.iter().map(prost::Message::encoded_len).sum();
    for envelope in envelopes {
        server.publish(vec![envelope]).await.unwrap();
    }
    let database = server.stop_keeping_database().await;

    let group = topic_bytes(0, &group_id(1));
    let page = page_of(vec![after(&group, 0)], 0);
    for (limit, code) in [
        (bytes - 1, Code::ResourceExhausted),
        (bytes, Code::OutOfRange),
    ] {
        let limits = format!("max_response_bytes = {limit}\nmax_envelope_bytes = 100");
        let server = TestServer::builder()
            .table("limits", &limits)
            .database(database.share())
            .start()
            .await;
        let answer: Result<RawMessage, Status> = server.call("QueryService/Query", &page).await;
        assert_eq!(answer.unwrap_err().code(), code, "{limit}");
        server.stop_keeping_database().await;
    }
    database.drop().await;
}
