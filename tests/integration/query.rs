//! Pages of envelopes: what `Query` accepts, merges, limits and leaves for later (API-070 to
//! API-077, API-240 to API-243, ARC-061, ARC-062).

use std::collections::BTreeMap;

use envelope::fixtures::{group_id, group_message, valid, welcome};
use envelope::wire::xmtp::backend::v1::{QueryResponse, TopicQuery};
use harness::{TestServer, Transport};
use tonic::Code;

use crate::reading::{after, has_more, id, ids, page_of, publish, query, topic, topic_bytes};
use crate::refusal::{assert_plain, assert_silent_about};

const QUERY: &str = "QueryService/Query";

/// The greatest sequence id there can be.
const LAST_ID: u64 = i64::MAX as u64;

/// The topic of the numbered group's messages.
fn group_topic(number: u64) -> Vec<u8> {
    topic_bytes(0, &group_id(number))
}

/// Publishes that many messages of a group, and answers their ids.
async fn fill(server: &TestServer, group: u64, count: u64) -> Vec<u64> {
    let message = |number| group_message::numbered_application(&group_id(group), number);
    let metas = publish(server, (0..count).map(message).collect()).await;
    metas.iter().map(id).collect()
}

async fn page(server: &TestServer, queries: Vec<TopicQuery>, limit: u32) -> QueryResponse {
    query(server, &page_of(queries, limit))
        .await
        .expect("a page")
}

/// The limit bounds the whole page: 0 is the default and more than the maximum is the maximum.
/// Whether there is more is exact at the limit and one past it (API-072, API-242).
#[tokio::test]
async fn the_limit_bounds_the_page_and_more_is_told_exactly() {
    let server = TestServer::builder()
        .table("limits", "default_query_limit = 3\nmax_query_limit = 5")
        .start()
        .await;
    // How many are stored, the limit that is asked for, how many come.
    let cases = [
        (2, 0, 2),
        (3, 0, 3),
        (4, 0, 3),
        (1, 1, 1),
        (2, 1, 1),
        (4, 4, 4),
        (5, 4, 4),
        (5, 5, 5),
        (6, 5, 5),
        (5, 6, 5),
        (6, 6, 5),
        (7, u32::MAX, 5),
        (0, 5, 0),
    ];
    for (group, (stored, limit, answered)) in (1..).zip(cases) {
        let all = fill(&server, group, stored).await;
        let page = page(&server, vec![after(&group_topic(group), 0)], limit).await;
        let claim = format!("{stored} stored, limit {limit}");
        assert_eq!(ids(&page), all[..answered], "{claim}");
        assert_eq!(has_more(&page), all.len() > answered, "{claim}");
    }
    server.stop().await;
}

/// The limit is one for all topics, and the page has the lowest ids of each topic that is on it
/// (API-073, ARC-061).
#[tokio::test]
async fn the_limit_is_shared_by_all_topics() {
    let server = TestServer::start().await;
    let first = fill(&server, 1, 3).await;
    let second = fill(&server, 2, 3).await;
    let queries = vec![after(&group_topic(1), first[0]), after(&group_topic(2), 0)];
    for (limit, more) in [(4, true), (5, false), (6, false)] {
        let page = page(&server, queries.clone(), limit).await;
        assert_eq!(page.envelopes.len(), 5.min(limit as usize));
        assert_eq!(has_more(&page), more, "limit {limit}");
        for (group, all) in [(1, &first[1..]), (2, &second[..])] {
            let on_page: Vec<_> = page
                .envelopes
                .iter()
                .filter_map(|envelope| envelope.meta.as_ref())
                .filter(|meta| meta.topic == Some(topic(&group_topic(group))))
                .map(id)
                .collect();
            assert!(all.starts_with(&on_page), "{on_page:?} of {all:?}");
        }
    }
    server.stop().await;
}

/// The cursor is exclusive. Absent it is 0, and a repeated topic is read once, from the lowest of
/// its cursors (API-004, API-015, API-071).
#[tokio::test]
async fn repeats_are_read_once_from_the_lowest_cursor() {
    let server = TestServer::start().await;
    let all = fill(&server, 1, 4).await;
    let group = group_topic(1);
    let absent = || TopicQuery {
        topic: Some(topic(&group)),
        cursor: None,
    };
    let from = |id| after(&group, id);
    let cases = [
        ("absent", vec![absent()], 0),
        ("0", vec![from(0)], 0),
        ("below the first", vec![from(all[0] - 1)], 0),
        ("the first", vec![from(all[0])], 1),
        ("the last but one", vec![from(all[2])], 3),
        ("the last", vec![from(all[3])], 4),
        ("above the last", vec![from(all[3] + 1)], 4),
        ("the greatest", vec![from(LAST_ID)], 4),
        ("lowest first", vec![from(all[1]), from(all[2])], 2),
        (
            "lowest last",
            vec![from(all[2]), from(LAST_ID), from(all[1])],
            2,
        ),
        ("one absent", vec![from(all[2]), absent(), from(all[1])], 0),
    ];
    for (claim, queries, start) in cases {
        for transport in Transport::ALL {
            let request = page_of(queries.clone(), 0);
            let page: QueryResponse = transport
                .call(server.address(), QUERY, &request)
                .await
                .unwrap();
            assert_eq!(ids(&page), all[start..], "{claim} over {transport:?}");
            assert!(!has_more(&page), "{claim} over {transport:?}");
        }
    }
    server.stop().await;
}

/// No queries, and topics without envelopes, are a page without envelopes that says so.
#[tokio::test]
async fn a_page_of_nothing_is_an_answer() {
    let server = TestServer::start().await;
    fill(&server, 1, 1).await;
    for queries in [vec![], vec![after(&group_topic(2), 0)]] {
        for transport in Transport::ALL {
            let request = page_of(queries.clone(), 1);
            let page: QueryResponse = transport
                .call(server.address(), QUERY, &request)
                .await
                .unwrap();
            assert!(
                page.envelopes.is_empty() && !has_more(&page),
                "{transport:?}"
            );
        }
    }
    server.stop().await;
}

/// Topics of unknown kind or wrong length, absent topics, topics of key packages and cursors above
/// the greatest id are refused, alone, behind a good entry and as a repeat that would be merged
/// (API-003, API-004, API-074).
#[tokio::test]
async fn a_bad_entry_refuses_the_whole_query() {
    let server = TestServer::start().await;
    fill(&server, 1, 1).await;
    let id16 = group_id(7);
    let id32 = [id16, id16].concat();
    let mut bad: Vec<(String, TopicQuery)> = vec![
        ("absent topic".into(), TopicQuery::default()),
        ("empty topic".into(), after(&[], 0)),
        ("key-package topic".into(), after(&topic_bytes(3, &id32), 0)),
        (
            "cursor out of range".into(),
            after(&group_topic(1), LAST_ID + 1),
        ),
        ("greatest cursor".into(), after(&group_topic(1), u64::MAX)),
    ];
    for kind in [5, 6, 0x7f, 0x80, 0xff] {
        for identifier in [&id16[..], &id32] {
            bad.push((
                format!("kind {kind}"),
                after(&topic_bytes(kind, identifier), 0),
            ));
        }
    }
    let lengths = [(0, 16), (1, 32), (2, 32), (3, 32), (4, 16)];
    for (kind, length) in lengths {
        let wrong = [0, 1, 15, 16, 17, 31, 32, 33, 127]
            .into_iter()
            .filter(|l| *l != length);
        for wrong in wrong {
            let claim = format!("kind {kind} with {wrong} bytes");
            bad.push((claim, after(&topic_bytes(kind, &vec![0xa7; wrong]), 0)));
        }
    }
    let good = after(&group_topic(1), 0);
    for (claim, entry) in bad {
        let secret = entry.topic.clone().unwrap_or_default().topic;
        for queries in [
            vec![entry.clone()],
            vec![good.clone(), entry.clone()],
            vec![entry.clone(), entry.clone(), good.clone()],
        ] {
            let status = query(&server, &page_of(queries, 0))
                .await
                .expect_err(&claim);
            assert_plain(&claim, &status, Code::InvalidArgument);
            assert_silent_about(&claim, &status, &[&secret]);
        }
    }
    server.stop().await;
}

/// Entries are counted before repeats are merged (API-070).
#[tokio::test]
async fn entries_of_a_query_are_bounded() {
    let server = TestServer::builder()
        .table("limits", "max_query_topics = 3")
        .start()
        .await;
    let all = fill(&server, 1, 2).await;
    for transport in Transport::ALL {
        let of = |count| page_of(vec![after(&group_topic(1), 0); count], 0);
        let page: QueryResponse = transport
            .call(server.address(), QUERY, &of(3))
            .await
            .expect("at the limit");
        assert_eq!(ids(&page), all);
        let answer: Result<QueryResponse, _> =
            transport.call(server.address(), QUERY, &of(4)).await;
        assert_plain("one past", &answer.unwrap_err(), Code::InvalidArgument);
    }
    server.stop().await;
}

/// Every kind but key packages can be queried, also together.
#[tokio::test]
async fn every_kind_but_key_packages_can_be_queried() {
    let server = TestServer::start().await;
    let envelopes = valid(1);
    let metas = publish(&server, envelopes.to_vec()).await;
    let queries: Vec<_> = metas
        .iter()
        .map(|meta| meta.topic.clone().unwrap().topic)
        .filter(|topic| topic[0] != 3)
        .map(|topic| after(&topic, 0))
        .collect();
    assert_eq!(queries.len(), 4);
    let page = page(&server, queries, 0).await;
    let mut read: Vec<_> = page
        .envelopes
        .into_iter()
        .map(|e| (e.meta.unwrap(), e.envelope.unwrap()))
        .collect();
    read.sort_by_key(|(meta, _)| id(meta));
    let expected: Vec<_> = metas
        .into_iter()
        .zip(envelopes)
        .filter(|(meta, _)| meta.topic.as_ref().unwrap().topic[0] != 3)
        .collect();
    assert_eq!(read, expected);
    server.stop().await;
}

/// A client that raises the cursor of each topic to what it got, and goes on while there is more,
/// reads every envelope of every topic once and in order, and never gets an empty page before the
/// end (API-075, ARC-062).
#[tokio::test]
async fn paging_drains_all_topics_without_loss_or_repeat() {
    let server = TestServer::start().await;
    let mut expected = BTreeMap::new();
    for round in 0..3 {
        // Unequal topics, interleaved, and one that stays empty.
        for group in 1..=6 {
            let numbers = round * 100..round * 100 + group;
            let message = |number| group_message::numbered_application(&group_id(group), number);
            let metas = publish(&server, numbers.map(message).collect()).await;
            let all: &mut Vec<u64> = expected.entry(group_topic(group)).or_default();
            all.extend(metas.iter().map(id));
        }
    }
    for limit in [1, 4, 7, 62, 63, 64] {
        let mut cursors: BTreeMap<_, _> = (1..=7).map(|group| (group_topic(group), 0)).collect();
        let mut read: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
        loop {
            let queries = cursors
                .iter()
                .map(|(topic, id)| after(topic, *id))
                .collect();
            let page = page(&server, queries, limit).await;
            assert!(page.envelopes.len() <= limit as usize);
            for meta in page
                .envelopes
                .iter()
                .filter_map(|envelope| envelope.meta.as_ref())
            {
                let topic = meta.topic.as_ref().unwrap().topic.to_vec();
                read.entry(topic.clone()).or_default().push(id(meta));
                cursors.insert(topic, id(meta));
            }
            if !has_more(&page) {
                break;
            }
            assert_eq!(page.envelopes.len(), limit as usize);
        }
        assert_eq!(read, expected, "limit {limit}");
    }
    server.stop().await;
}

/// A query that begins after a publish was answered sees it, whatever was published in between
/// (API-202).
#[tokio::test]
async fn a_query_reads_what_was_published_before_it() {
    let server = TestServer::start().await;
    let mut last = 0;
    for number in 0..20 {
        let envelope = welcome::v1(&[9; 32], &[number]);
        let meta = publish(&server, vec![envelope]).await.remove(0);
        let page = page(&server, vec![after(&topic_bytes(1, &[9; 32]), last)], 0).await;
        assert_eq!(ids(&page), [id(&meta)]);
        last = id(&meta);
    }
    server.stop().await;
}
