//! The newest envelope of each topic, with and without its payload (API-080 to API-084, API-244,
//! API-245, ARC-063).

use std::collections::BTreeMap;

use envelope::fixtures::{group_id, group_message, valid};
use envelope::wire::xmtp::backend::v1::{
    ClientEnvelope, EnvelopeMeta, QueryNewestRequest, QueryNewestResponse, Topic,
};
use harness::{TestServer, Transport};
use tonic::{Code, Status};

use crate::reading::{newest_of, publish, query_newest, topic, topic_bytes};
use crate::refusal::{assert_plain, assert_silent_about};

/// What is answered for each topic. Results come in no particular order, each topic once.
type Newest = BTreeMap<Vec<u8>, (EnvelopeMeta, Option<ClientEnvelope>)>;

async fn ask(
    server: &TestServer,
    transport: Transport,
    request: &QueryNewestRequest,
) -> Result<Newest, Status> {
    let response: QueryNewestResponse = transport
        .call(server.address(), "QueryService/QueryNewest", request)
        .await?;
    let count = response.results.len();
    let newest: Newest = response
        .results
        .into_iter()
        .map(|result| {
            let meta = result.meta.expect("metadata");
            assert_eq!(result.topic, meta.topic);
            let topic = result.topic.expect("a topic").topic.to_vec();
            (topic, (meta, result.envelope))
        })
        .collect();
    assert_eq!(newest.len(), count, "each topic once");
    Ok(newest)
}

/// Every kind is served, key packages included; topics without envelopes are absent, repeats come
/// once, and the payload comes only when it is asked for (API-080, API-081).
#[tokio::test]
async fn each_topic_that_has_an_envelope_is_answered_once() {
    let server = TestServer::start().await;
    let older = valid(1);
    publish(&server, older.to_vec()).await;
    let newer = group_message::commit(&group_id(1));
    let newer_meta = publish(&server, vec![newer.clone()]).await.remove(0);

    let mut expected: Newest = BTreeMap::new();
    let metas = publish(&server, older.to_vec()).await;
    for (meta, envelope) in metas.into_iter().zip(older) {
        let topic = meta.topic.clone().unwrap().topic.to_vec();
        expected.insert(topic, (meta, Some(envelope)));
    }
    expected.insert(topic_bytes(0, &group_id(1)), (newer_meta, Some(newer)));
    assert_eq!(expected.len(), 5);

    let empty = topic_bytes(0, &group_id(2));
    let topics: Vec<&[u8]> = expected
        .keys()
        .chain([&empty])
        .chain(expected.keys())
        .map(Vec::as_slice)
        .collect();
    let without_payloads: Newest = expected
        .iter()
        .map(|(topic, (meta, _))| (topic.clone(), (meta.clone(), None)))
        .collect();
    for transport in Transport::ALL {
        let full = ask(&server, transport, &newest_of(&topics, true))
            .await
            .unwrap();
        assert_eq!(full, expected, "{transport:?}");
        let metadata = ask(&server, transport, &newest_of(&topics, false))
            .await
            .unwrap();
        assert_eq!(metadata, without_payloads, "{transport:?}");
    }
    server.stop().await;
}

/// No topics, and topics without envelopes, have no results.
#[tokio::test]
async fn nothing_has_no_results() {
    let server = TestServer::start().await;
    let empty = topic_bytes(3, &[1; 32]);
    for full in [false, true] {
        for topics in [vec![], vec![&empty[..]]] {
            for transport in Transport::ALL {
                let newest = ask(&server, transport, &newest_of(&topics, full)).await;
                assert_eq!(newest.unwrap(), BTreeMap::new(), "{transport:?}");
            }
        }
    }
    server.stop().await;
}

/// Each form has a bound of its own, and topics are counted before repeats are merged (API-082).
#[tokio::test]
async fn topics_of_each_form_are_bounded() {
    let limits = "max_newest_full_topics = 2\nmax_newest_metadata_topics = 4";
    let server = TestServer::builder().table("limits", limits).start().await;
    let group = topic_bytes(0, &group_id(1));
    publish(&server, vec![group_message::application(&group_id(1))]).await;
    for (full, limit) in [(true, 2), (false, 4)] {
        for transport in Transport::ALL {
            let of = |count| newest_of(&vec![&group[..]; count], full);
            let newest = ask(&server, transport, &of(limit))
                .await
                .expect("at the limit");
            assert_eq!(newest.len(), 1, "{transport:?}");
            let status = ask(&server, transport, &of(limit + 1)).await.unwrap_err();
            assert_plain("one past", &status, Code::InvalidArgument);
        }
    }
    server.stop().await;
}

/// One topic that is none refuses the whole request (API-003).
#[tokio::test]
async fn a_bad_topic_refuses_the_whole_request() {
    let server = TestServer::start().await;
    let good = topic(&topic_bytes(0, &group_id(1)));
    let bad = [
        ("absent", Topic::default()),
        ("unknown kind", topic(&topic_bytes(5, &[0xa7; 16]))),
        ("kind 255", topic(&topic_bytes(0xff, &[0xa7; 32]))),
        ("kind only", topic(&[0])),
        ("group id of 15 bytes", topic(&topic_bytes(0, &[0xa7; 15]))),
        ("group id of 17 bytes", topic(&topic_bytes(0, &[0xa7; 17]))),
        (
            "key package of 16 bytes",
            topic(&topic_bytes(3, &[0xa7; 16])),
        ),
        (
            "key package of 33 bytes",
            topic(&topic_bytes(3, &[0xa7; 33])),
        ),
        (
            "commit log of 32 bytes",
            topic(&topic_bytes(4, &[0xa7; 32])),
        ),
    ];
    for (claim, bad) in bad {
        for include_full_envelope in [false, true] {
            for topics in [
                vec![bad.clone()],
                vec![good.clone(), bad.clone(), good.clone()],
            ] {
                let request = QueryNewestRequest {
                    topics,
                    include_full_envelope,
                };
                let status = query_newest(&server, &request).await.expect_err(claim);
                assert_plain(claim, &status, Code::InvalidArgument);
                assert_silent_about(claim, &status, &[&bad.topic]);
            }
        }
    }
    server.stop().await;
}
