//! The order of ids, and what readers see of it while publishes race (ARC-030, ARC-033).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use envelope::fixtures::{filler, welcome};
use envelope::wire::xmtp::backend::v1::{
    ClientEnvelope, Cursor, QueryRequest, QueryResponse, Topic, TopicQuery,
};
use harness::{TestServer, Transport};

use crate::given::{group_topic, id_of, ids, message, metas};

/// The greatest page that the tests here ask for: more than they publish.
const PAGE: u32 = 10_000;

fn whole_logs(groups: &[u64]) -> QueryRequest {
    let query = |group: &u64| TopicQuery {
        topic: Some(Topic {
            topic: group_topic(*group).as_bytes().to_vec().into(),
        }),
        cursor: Some(Cursor { sequence_id: 0 }),
    };
    QueryRequest {
        queries: groups.iter().map(query).collect(),
        limit: PAGE,
    }
}

/// A thousand envelopes on five hundred topics, none beside its neighbours of the same topic, get
/// ids in request order and one timestamp; each topic's log has them in that order (ARC-030,
/// ARC-035).
#[tokio::test]
async fn ids_follow_the_request_whatever_the_topics() {
    let server = TestServer::start().await;
    // 617 is prime to 1000: every envelope once, topics and kinds in no order.
    let envelope = |place: u64| match (place * 617) % 1_000 {
        number @ 0..500 => welcome::v1(&filler(number % 250, 32), &filler(number, 16)),
        number => message(number % 250, number),
    };
    let request: Vec<ClientEnvelope> = (0..1_000).map(envelope).collect();
    let metas = metas(server.publish(request.clone()).await);

    let ids: Vec<u64> = metas.iter().map(id_of).collect();
    assert_eq!(ids, (1..=1_000).collect::<Vec<_>>());
    assert!(
        metas
            .iter()
            .all(|meta| meta.server_ns == metas[0].server_ns)
    );
    let rows: Vec<(i64, Vec<u8>)> =
        sqlx::query_as("SELECT sequence_id, topic FROM envelopes ORDER BY sequence_id")
            .fetch_all(&mut server.database().connection().await)
            .await
            .unwrap();
    for ((id, topic), meta) in rows.into_iter().zip(&metas) {
        assert_eq!(u64::try_from(id).unwrap(), id_of(meta));
        assert_eq!(topic, meta.topic.as_ref().unwrap().topic);
    }
    server.stop().await;
}

/// A deterministic sequence of numbers.
struct Numbers(u64);

impl Numbers {
    /// The next one below a bound.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// What one publish of the race stored, and when it ran by the race's own clock.
struct Publication {
    began: u64,
    ended: u64,
    /// Group, number and id of each new message.
    stored: Vec<(u64, u64, u64)>,
}

/// The groups of the race: few, so that publishers meet.
const GROUPS: [u64; 3] = [1, 2, 3];
const PUBLISHERS: u64 = 8;
const PUBLISHES_EACH: u64 = 25;

/// One publisher of the race: one to four new messages at a time, and sometimes an old one again.
async fn publish_at_random(
    server: Arc<TestServer>,
    seed: u64,
    clock: Arc<AtomicU64>,
) -> Vec<Publication> {
    let mut random = Numbers(seed);
    let mut known: HashMap<u64, (u64, u64)> = HashMap::new();
    let mut publications = Vec::new();
    for round in 0..PUBLISHES_EACH {
        let first = (seed % 1_000) * 1_000 + round * 10;
        let new: Vec<(u64, u64)> = (0..=random.below(4))
            .map(|place| {
                (
                    GROUPS[usize::try_from(random.below(3)).unwrap()],
                    first + place,
                )
            })
            .collect();
        let old = known.iter().next().filter(|_| random.below(4) == 0);
        let old: Vec<(u64, u64, u64)> = old.map(|(n, (g, id))| (*g, *n, *id)).into_iter().collect();
        let envelopes = old
            .iter()
            .map(|(group, number, _)| message(*group, *number))
            .chain(new.iter().map(|(group, number)| message(*group, *number)))
            .collect();

        let began = clock.fetch_add(1, Ordering::SeqCst);
        let transport = Transport::ALL[usize::try_from(random.below(4)).unwrap()];
        let ids = ids(server.begin_publish(transport, envelopes).await.unwrap());
        let ended = clock.fetch_add(1, Ordering::SeqCst);

        let (again, ids) = ids.split_at(old.len());
        assert!(
            old.iter().map(|(_, _, id)| id).eq(again),
            "a duplicate keeps its id"
        );
        assert!(ids.is_sorted(), "request order");
        let stored: Vec<_> = new
            .iter()
            .zip(ids)
            .map(|((g, n), id)| (*g, *n, *id))
            .collect();
        known.extend(
            stored
                .iter()
                .map(|(group, number, id)| (*number, (*group, *id))),
        );
        publications.push(Publication {
            began,
            ended,
            stored,
        });
    }
    publications
}

/// The messages of one topic, by their envelopes and ids, as some reader saw them.
type Log = Vec<(u64, ClientEnvelope)>;

/// The logs of one answer, by topic.
fn logs(page: QueryResponse) -> BTreeMap<Vec<u8>, Log> {
    assert!(
        !page.continuation.unwrap().has_more,
        "the page is larger than the logs"
    );
    let mut logs: BTreeMap<Vec<u8>, Log> = BTreeMap::new();
    for stored in page.envelopes {
        let meta = stored.meta.unwrap();
        let id = id_of(&meta);
        let log = logs.entry(meta.topic.unwrap().topic.to_vec()).or_default();
        log.push((id, stored.envelope.unwrap()));
    }
    logs
}

/// Eight publishers race on three topics over all protocols while readers read everything again and
/// again. Checked against the model: each read is a prefix of each topic's final log; the final
/// logs hold exactly what was acknowledged; and a publish that began after another had ended has
/// only greater ids (ARC-033, ARC-111, API-201, API-289).
#[tokio::test(flavor = "multi_thread")]
async fn readers_see_prefixes_of_every_topic_while_publishes_race() {
    let seed = std::env::var("XMTP_TEST_SEED").map_or(20_417, |seed| seed.parse().unwrap());
    println!("XMTP_TEST_SEED={seed}");
    let server = TestServer::builder()
        .table("limits", &format!("max_query_limit = {PAGE}"))
        .start()
        .await;
    let server = Arc::new(server);
    let clock = Arc::new(AtomicU64::new(0));
    let over = Arc::new(AtomicBool::new(false));

    let readers: Vec<_> = [Transport::Native, Transport::WebHttp1]
        .map(|transport| {
            let (address, over) = (server.address(), Arc::clone(&over));
            tokio::spawn(async move {
                let (mut reads, request) = (Vec::new(), whole_logs(&GROUPS));
                while !over.load(Ordering::SeqCst) {
                    let page = transport.call(address, "QueryService/Query", &request);
                    reads.push(logs(page.await.unwrap()));
                }
                reads
            })
        })
        .into();
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|number| {
            publish_at_random(Arc::clone(&server), seed * 100 + number, Arc::clone(&clock))
        })
        .map(tokio::spawn)
        .collect();
    let mut publications = Vec::new();
    for publisher in publishers {
        publications.extend(publisher.await.unwrap());
    }
    over.store(true, Ordering::SeqCst);
    let answer = server
        .call("QueryService/Query", &whole_logs(&GROUPS))
        .await;
    let last = logs(answer.unwrap());

    let mut reads = 0;
    for reader in readers {
        for seen in reader.await.unwrap() {
            reads += 1;
            for (topic, log) in seen {
                assert_eq!(log, last[&topic][..log.len()], "a read is a prefix");
            }
        }
    }
    assert!(reads > 0, "the readers read during the race");
    check_acknowledged(&publications, &last);
    check_real_time_order(&publications);
    Arc::into_inner(server).unwrap().stop().await;
}

fn check_acknowledged(publications: &[Publication], last: &BTreeMap<Vec<u8>, Log>) {
    let mut model: BTreeMap<Vec<u8>, Log> = BTreeMap::new();
    for (group, number, id) in publications.iter().flat_map(|p| &p.stored) {
        let topic = group_topic(*group).as_bytes().to_vec();
        model
            .entry(topic)
            .or_default()
            .push((*id, message(*group, *number)));
    }
    for log in model.values_mut() {
        log.sort_unstable_by_key(|(id, _)| *id);
    }
    assert_eq!(&model, last, "exactly what was acknowledged, ascending");
}

fn check_real_time_order(publications: &[Publication]) {
    for earlier in publications {
        for later in publications
            .iter()
            .filter(|later| earlier.ended < later.began)
        {
            let greatest = earlier.stored.iter().map(|(_, _, id)| id).max();
            let least = later.stored.iter().map(|(_, _, id)| id).min();
            assert!(greatest < least, "{greatest:?} was there before {least:?}");
        }
    }
}
