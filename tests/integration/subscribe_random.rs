//! Random histories of subscribers and publishers against a model of the log: what a stream delivers
//! is determined by its Updates and by what was published, and by nothing else (ARC-074 to ARC-078,
//! ARC-110).

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use envelope::wire::xmtp::backend::v1::TopicQuery;
use envelope::wire::xmtp::backend::v1::subscribe_response::{Applied, Response};
use harness::{Subscription, TestServer, eventually};

use crate::given::ids;
use crate::random::{Random, seeds};
use crate::reading::{after, topic as topic_message};
use crate::subscribers::{
    REASONS, ended, narrow_channel, of, registered, sized, topic, topic_of, until_all_ended,
};

/// Runs with different seeds.
const RUNS: u64 = 4;
const GROUPS: u64 = 8;
const SUBSCRIBERS: u64 = 6;
const PUBLISHERS: u64 = 3;
/// Requests of each publisher.
const PUBLISHES: u64 = 60;

/// Ids that the server has said it stored, by group. They are visible, so every later head and every
/// delivery must know them.
#[derive(Default)]
struct Log(Mutex<HashMap<u64, Vec<u64>>>);

impl Log {
    fn add(&self, group: u64, stored: Vec<u64>) {
        let mut log = self.0.lock().unwrap();
        let on_topic = log.entry(group).or_default();
        on_topic.extend(stored);
        on_topic.sort_unstable();
    }

    fn of(&self, group: u64) -> Vec<u64> {
        let log = self.0.lock().unwrap();
        log.get(&group).cloned().unwrap_or_default()
    }

    fn len(&self) -> u64 {
        let log = self.0.lock().unwrap();
        log.values().map(|ids| ids.len() as u64).sum()
    }

    fn head(&self, group: u64) -> u64 {
        self.of(group).last().copied().unwrap_or(0)
    }
}

/// One registration, as its client sees it.
struct Registration {
    group: u64,
    cursor: u64,
    /// The head when its Update was sent, at least.
    head_before: u64,
    target: Option<u64>,
    delivered: Vec<u64>,
    is_over: bool,
}

/// An Update without its Applied.
struct Pending {
    id: u64,
    added: Vec<u64>,
    removed: Vec<u64>,
}

/// A subscriber that notes everything.
struct Subscriber {
    stream: Subscription,
    random: Random,
    last_id: u64,
    pending: Vec<Pending>,
    /// What the client asked for, by group: an index into all registrations.
    wanted: BTreeMap<u64, usize>,
    /// What is applied, by topic.
    applied: HashMap<Vec<u8>, usize>,
    registrations: Vec<Registration>,
}

impl Subscriber {
    async fn start(server: &TestServer, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let window = *random.choose(&[4_096, 65_535, 1 << 20]);
        let channel = narrow_channel(server.address(), window).await;
        let mut stream = Subscription::open_on(channel).await.unwrap();
        let first = stream.next().await.unwrap();
        assert!(matches!(first, Response::Started(_)), "{first:?}");
        Self {
            stream,
            random,
            last_id: 0,
            pending: Vec::new(),
            wanted: BTreeMap::new(),
            applied: HashMap::new(),
            registrations: Vec::new(),
        }
    }

    /// Sends a random Update: some topics added, anew or without effect, and some removed.
    fn update(&mut self, log: &Log) {
        self.last_id += 1 + self.random.below(3);
        let mut pending = Pending {
            id: self.last_id,
            added: Vec::new(),
            removed: Vec::new(),
        };
        let (mut adds, mut removes): (Vec<TopicQuery>, Vec<_>) = (Vec::new(), Vec::new());
        for group in 1..=GROUPS {
            match self.random.below(6) {
                0 => {
                    removes.push(topic_message(&topic(group)));
                    if self.wanted.remove(&group).is_some() {
                        pending.removed.push(group);
                    }
                }
                1 | 2 => {
                    let head = log.head(group);
                    let cursor = match self.random.below(4) {
                        0 => 0,
                        1 => head,
                        2 => head + self.random.below(5),
                        _ => self.random.below(head + 1),
                    };
                    adds.push(after(&topic(group), cursor));
                    if !self.wanted.contains_key(&group) {
                        self.wanted.insert(group, self.registrations.len());
                        pending.added.push(group);
                        self.registrations.push(Registration {
                            group,
                            cursor,
                            head_before: head,
                            target: None,
                            delivered: Vec::new(),
                            is_over: false,
                        });
                    }
                }
                _ => {}
            }
        }
        self.stream.update(self.last_id, adds, removes);
        self.pending.push(pending);
    }

    /// Reads one frame and checks it against what it may be now.
    async fn read(&mut self) -> bool {
        match self.stream.next().await.expect("the stream is open") {
            Response::Applied(applied) => self.apply(&applied),
            Response::Messages(messages) => {
                assert!(!messages.envelopes.is_empty());
                for envelope in &messages.envelopes {
                    let index = self.applied.get(&topic_of(envelope));
                    let index = *index.expect("a row of a topic that is registered");
                    self.registrations[index].delivered.push(of(envelope));
                }
            }
            Response::Ping(ping) => self.stream.pong(ping.nonce),
            Response::Pong(_) => return true,
            other @ Response::Started(_) => panic!("{other:?}"),
        }
        false
    }

    fn apply(&mut self, applied: &Applied) {
        let pending = self.pending.remove(0);
        assert_eq!(applied.id, pending.id, "in the order of the Updates");
        for group in &pending.removed {
            let index = self.applied.remove(&topic(*group));
            self.registrations[index.expect("it was registered")].is_over = true;
        }
        assert_eq!(applied.added_targets.len(), pending.added.len());
        for (group, target) in pending.added.iter().zip(&applied.added_targets) {
            let name = topic(*group);
            assert_eq!(target.topic.as_ref().unwrap().topic, name);
            // The oldest registration of the group that has no answer yet.
            let index = self
                .registrations
                .iter()
                .position(|r| r.group == *group && r.target.is_none())
                .expect("it was asked for");
            let through = target.through_sequence_id;
            let registration = &mut self.registrations[index];
            registration.target = Some(through);
            assert!(
                through >= registration.head_before,
                "a head that was stored"
            );
            self.applied.insert(name, index);
        }
    }

    /// Does random things while others publish.
    async fn live(&mut self, log: &Log, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            match self.random.below(8) {
                // Two at once are two in flight. The bucket would not last for more.
                0 | 1 if self.pending.is_empty() && self.last_id < 120 => {
                    self.update(log);
                    self.update(log);
                }
                // Nothing is read while others publish: up to some hundred rows, which fill the
                // queue of a narrow connection and not twice.
                2 => {
                    let rows = log.len() + self.random.below(200);
                    while log.len() < rows && !is_over.load(Ordering::Relaxed) {
                        tokio::task::yield_now().await;
                    }
                    self.until_pong().await;
                }
                _ if !self.pending.is_empty() => {
                    self.read().await;
                }
                _ => self.until_pong().await,
            }
        }
    }

    async fn until_pong(&mut self) {
        self.stream.ping(0);
        while !self.read().await {}
    }

    /// Reads until nothing is owed, and checks every registration against the whole log.
    async fn finish(mut self, log: &Log) {
        let owed = |subscriber: &Self| {
            !subscriber.pending.is_empty()
                || subscriber.applied.values().any(|index| {
                    let registration = &subscriber.registrations[*index];
                    let expected = expected(registration, log);
                    registration.delivered.len() < expected.len()
                })
        };
        while owed(&self) {
            self.read().await;
        }
        self.until_pong().await;
        for registration in &self.registrations {
            let expected = expected(registration, log);
            let delivered = &registration.delivered;
            if registration.is_over {
                assert!(
                    expected.starts_with(delivered),
                    "{delivered:?} of {expected:?}"
                );
            } else {
                assert_eq!(delivered, &expected);
            }
            let target = registration.target.expect("every Update was applied");
            let on_topic = log.of(registration.group);
            assert!(
                target == 0 || on_topic.contains(&target),
                "a target is a head"
            );
        }
    }
}

/// Every row of its topic above its cursor.
fn expected(registration: &Registration, log: &Log) -> Vec<u64> {
    let on_topic = log.of(registration.group).into_iter();
    on_topic.filter(|id| *id > registration.cursor).collect()
}

async fn publish(server: &TestServer, log: &Log, mut random: Random, publisher: u64) {
    for number in 0..PUBLISHES {
        let mut groups = Vec::new();
        let mut envelopes = Vec::new();
        for part in 0..1 + random.below(4) {
            let group = 1 + random.below(GROUPS);
            let bytes = match random.below(12) {
                0 if random.once_in(4) => 200_000,
                1..4 => 20_000,
                _ => 150,
            };
            groups.push(group);
            let number = (publisher * PUBLISHES + number) * 8 + part;
            envelopes.push(sized(group, number, bytes));
        }
        let stored = ids(server.publish(envelopes).await);
        for (group, id) in groups.into_iter().zip(stored) {
            log.add(group, vec![id]);
        }
    }
}

/// Random Updates, publishes, pauses and clients of different speeds; every property that a stream
/// promises, checked at each frame and at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_deliver_what_the_model_says() {
    for seed in seeds(RUNS) {
        let mut random = Random::new(seed);
        let server = TestServer::builder()
            .table("streams", "poll_interval_ms = 1")
            .table(
                "limits",
                "max_update_burst = 1000\nmax_ping_burst = 1000000",
            )
            .start()
            .await;
        let server = Arc::new(server);
        let log = Arc::new(Log::default());
        let is_over = Arc::new(AtomicBool::new(false));

        let mut publishers = Vec::new();
        for publisher in 0..PUBLISHERS {
            let (server, log) = (Arc::clone(&server), Arc::clone(&log));
            let random = Random::new(random.below(u64::MAX));
            publishers.push(tokio::spawn(async move {
                publish(&server, &log, random, publisher).await;
            }));
        }
        let mut subscribers = Vec::new();
        for _ in 0..SUBSCRIBERS {
            let mut subscriber = Subscriber::start(&server, random.below(u64::MAX)).await;
            let (log, is_over) = (Arc::clone(&log), Arc::clone(&is_over));
            subscribers.push(tokio::spawn(async move {
                subscriber.live(&log, &is_over).await;
                subscriber
            }));
        }
        for publisher in publishers {
            publisher.await.unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        let mut quiet = Vec::new();
        for subscriber in subscribers {
            quiet.push(subscriber.await.unwrap());
        }
        for reason in REASONS {
            assert_eq!(server.metric(&ended(reason)).await, 0, "{reason}");
        }
        let mut left = SUBSCRIBERS;
        for subscriber in quiet {
            subscriber.finish(&log).await;
            left -= 1;
            eventually("one session less", async || {
                registered(&server).await[0] == left
            })
            .await;
        }
        until_all_ended(&server, "client", SUBSCRIBERS).await;
        Arc::into_inner(server).expect("the only one").stop().await;
    }
}
