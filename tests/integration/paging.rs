//! The paging loop of Query against a model that is a sorted list (ARC-061, ARC-062, API-070).
//!
//! The model decides which envelopes every single page must hold, and whether it must announce more.
//! Across topics the server answers with the lowest ids first; the model does as well.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use envelope::fixtures::{
    Installation, Wallet, commit_log, group_id, group_message, identity, update_envelope, welcome,
};
use envelope::wire::xmtp::backend::v1::{
    ClientEnvelope, Cursor, PublishRequest, PublishResponse, TopicQuery,
};
use envelope::{MessageHash, TopicKind, canonical};
use harness::{TestServer, Transport};

use crate::random::{Random, seeds};
use crate::raw_reading::{Stored, advance, after, hash, page};

/// What the server answers with when no limit is asked for. Both are small, so that the limits of
/// the loops lie on every side of them.
const DEFAULT_LIMIT: u32 = 4;
/// What the server answers with at most.
const LIMIT_MAX: u32 = 6;
/// Groups, installations and wallets that take part.
const NAMES: u64 = 4;
/// Publishes and loops of one run.
const ROUNDS: usize = 8;

/// Every page of random loops over a random log, written to between pages, is exactly what the model
/// says.
#[tokio::test]
async fn every_page_of_a_random_log_is_what_the_model_predicts() {
    for seed in seeds(2) {
        let mut run = Run::start(seed).await;
        for _ in 0..ROUNDS {
            run.publish().await;
            run.publish().await;
            let queries = (0..run.random.below(9)).map(|_| run.query()).collect();
            let limit = u32::try_from(run.random.below(8)).expect("small");
            run.read(queries, limit).await;
        }
        // However the dice fell, one long loop over every topic, an envelope at a time.
        let topics: BTreeSet<_> = run.log.iter().map(Stored::topic).collect();
        let queries = topics.into_iter().map(|topic| after(topic, 0)).collect();
        let envelopes = run.log.len();
        assert!(run.read(queries, 1).await >= envelopes);
        run.server.stop().await;
    }
}

/// A page is full, not full, or full with nothing behind it; and the last of these says so.
#[tokio::test]
async fn a_page_that_ends_with_the_log_announces_no_more() {
    let server = TestServer::start().await;
    let topics: [Bytes; 2] = [1, 2].map(|number| [&[0][..], &group_id(number)].concat().into());
    // Ids alternate between the topics.
    for number in 0..6 {
        let group = group_id(1 + number % 2);
        let envelope = group_message::numbered_application(&group, number);
        server.publish(vec![envelope]).await.expect("valid");
    }
    for transport in Transport::ALL {
        for (limit, rows, has_more) in [(1, 1, true), (5, 5, true), (6, 6, false), (7, 6, false)] {
            let queries = topics.iter().map(|topic| after(topic.clone(), 0));
            let page = page((server.address(), transport), queries.collect(), limit).await;
            assert_eq!(page.envelopes.len(), rows, "{transport:?}, limit {limit}");
            assert_eq!(page.has_more(), has_more, "{transport:?}, limit {limit}");
        }
    }
    server.stop().await;
}

/// The same topic query from another cursor.
fn at(query: TopicQuery, sequence_id: u64) -> TopicQuery {
    TopicQuery {
        cursor: Some(Cursor { sequence_id }),
        ..query
    }
}

/// A server, what it must hold, and the choices of one seed.
struct Run {
    random: Random,
    server: TestServer,
    /// Ascending by id.
    log: Vec<Stored>,
    /// Where each envelope lies in the log, by its bytes.
    places: BTreeMap<Bytes, usize>,
    /// Distinguishes envelopes of one topic.
    number: u64,
}

impl Run {
    async fn start(seed: u64) -> Self {
        let limits =
            format!("default_query_limit = {DEFAULT_LIMIT}\nmax_query_limit = {LIMIT_MAX}");
        Self {
            random: Random::new(seed),
            server: TestServer::builder().table("limits", &limits).start().await,
            log: Vec::new(),
            places: BTreeMap::new(),
            number: 0,
        }
    }

    /// One request with several envelopes, some of them stored before or repeated.
    async fn publish(&mut self) {
        let envelopes: Vec<_> = (0..self.random.below(8)).map(|_| self.envelope()).collect();
        let transport = *self.random.choose(&Transport::ALL);
        let request = PublishRequest {
            envelopes: envelopes.clone(),
        };
        let method = "PublishService/Publish";
        let response: PublishResponse = transport
            .call(self.server.address(), method, &request)
            .await
            .expect("valid envelopes");
        assert_eq!(response.envelope_metas.len(), envelopes.len());
        for (envelope, meta) in envelopes.iter().zip(response.envelope_metas) {
            let bytes = canonical::encode(envelope);
            let stored = Stored {
                meta: Some(meta),
                envelope: bytes.clone(),
            };
            let next = self.log.len();
            let place = *self.places.entry(bytes.clone()).or_insert(next);
            if place < next {
                assert_eq!(stored, self.log[place]);
                continue;
            }
            assert!(
                self.log
                    .last()
                    .is_none_or(|last| last.sequence_id() < stored.sequence_id())
            );
            let meta = stored.meta.as_ref().expect("just set");
            assert_eq!(hash(meta), MessageHash::of(&bytes).as_bytes()[..]);
            self.log.push(stored);
        }
    }

    fn envelope(&mut self) -> ClientEnvelope {
        let name = self.random.below(NAMES);
        if self.random.once_in(8) {
            // The same every time.
            let (wallet, installation) = (Wallet::numbered(name), Installation::numbered(name));
            return update_envelope(identity::create_inbox(&wallet, &installation));
        }
        // An old number makes a duplicate.
        let number = self.random.below(self.number + 2);
        self.number = self.number.max(number + 1);
        match self.random.below(3) {
            0 => group_message::numbered_application(&group_id(name), number),
            1 => welcome::v1(
                &Installation::numbered(name).public_key(),
                &number.to_be_bytes(),
            ),
            _ => commit_log::entry(&group_id(name), number),
        }
    }

    /// A loop to the end, page by page, with publishes between some of them; answers how many pages
    /// it took.
    async fn read(&mut self, mut queries: Vec<TopicQuery>, limit: u32) -> usize {
        let rows = match limit {
            0 => DEFAULT_LIMIT,
            limit => limit.min(LIMIT_MAX),
        };
        let mut pages = 0;
        loop {
            if self.random.once_in(6) {
                self.publish().await;
            }
            let transport = *self.random.choose(&Transport::ALL);
            let server = (self.server.address(), transport);
            let page = page(server, queries.clone(), limit).await;
            let expected = self.eligible(&queries);
            let cut = expected.len().min(rows as usize);
            assert!(
                page.envelopes.iter().eq(expected[..cut].iter().copied()),
                "{transport:?}, limit {limit}, {} of {}",
                page.envelopes.len(),
                expected.len()
            );
            assert_eq!(page.has_more(), cut < expected.len(), "limit {limit}");
            advance(&mut queries, &page);
            pages += 1;
            if !page.has_more() {
                // Nothing that any page could have held is left behind.
                assert!(self.eligible(&queries).is_empty());
                return pages;
            }
        }
    }

    /// A topic that may be empty, or named already, and a cursor of any kind.
    fn query(&mut self) -> TopicQuery {
        let name = self.random.below(NAMES + 1);
        let identifier = match self.random.below(4) {
            0 => [&[TopicKind::GroupMessage.byte()][..], &group_id(name)].concat(),
            1 => [
                &[TopicKind::Welcome.byte()][..],
                &Installation::numbered(name).public_key(),
            ]
            .concat(),
            2 => [&[TopicKind::CommitLogEntry.byte()][..], &group_id(name)].concat(),
            _ => {
                let inbox_id = identity::inbox_of(&Wallet::numbered(name), 0);
                let inbox_id = hex::decode(inbox_id).expect("hexadecimal");
                [&[TopicKind::IdentityUpdate.byte()][..], &inbox_id].concat()
            }
        };
        let newest = self.log.last().map_or(0, Stored::sequence_id);
        let mut query = after(identifier, 0);
        match self.random.below(8) {
            0 => query.cursor = None,
            1 => query = at(query, newest + 1),
            2 => query = at(query, i64::MAX.unsigned_abs()),
            3..=5 => query = at(query, self.random.below(newest + 1)),
            _ => {}
        }
        query
    }

    /// What is above the lowest cursor of its topic.
    fn eligible(&self, queries: &[TopicQuery]) -> Vec<&Stored> {
        let mut cursors: BTreeMap<Bytes, u64> = BTreeMap::new();
        for query in queries {
            let topic = query.topic.as_ref().expect("set").topic.clone();
            let cursor = query.cursor.map_or(0, |cursor| cursor.sequence_id);
            let lowest = cursors.entry(topic).or_insert(cursor);
            *lowest = cursor.min(*lowest);
        }
        let above = |stored: &&Stored| {
            let cursor = cursors.get(&stored.topic());
            cursor.is_some_and(|&cursor| stored.sequence_id() > cursor)
        };
        self.log.iter().filter(above).collect()
    }
}
