//! Streams: how late, how fast and how much memory, against what PostgreSQL alone needs.
//!
//! The server is a process of its own, so that its memory and its processor time can be told from the
//! client's. Arguments choose measurements by name; without any, all run.

#[path = "load/messages.rs"]
mod messages;
#[path = "load/process.rs"]
mod process;

use std::time::{Duration, Instant};

use client::{PublishServiceClient, SubscriptionServiceClient};
use envelope::wire::xmtp::backend::v1::subscribe_response::Response;
use envelope::wire::xmtp::backend::v1::{Cursor, PublishRequest, Topic, TopicQuery};
use futures_util::StreamExt as _;
use harness::{Subscription, TestDatabase};
use sqlx::Row as _;
use sqlx::postgres::PgConnection;
use tonic::transport::Channel;

use messages::{group_message, group_topic};
use process::Server;

/// The server's default, which latencies are compared with.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Envelopes of a long history.
const HISTORY: u64 = 20_000;

/// Topics of a large Update, and of the instance that is watched while it is idle.
const TOPICS: u64 = 100_000;

/// Streams without traffic.
const IDLE_STREAMS: usize = 5_000;

/// Streams that all follow one topic.
const FOLLOWERS: usize = 1_000;

/// Streams on one connection.
const STREAMS_PER_CONNECTION: usize = 100;

#[tokio::main]
async fn main() {
    let database = TestDatabase::create().await;
    let server = Server::start(env!("CARGO_BIN_EXE_xmtp-backend"), &database).await;
    let bench = Bench { database, server };
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let is_chosen = |name: &str| {
        let names = chosen.iter().filter(|name| !name.starts_with("--"));
        names.clone().count() == 0 || names.clone().any(|chosen| chosen == name)
    };
    if is_chosen("latency") {
        bench.latency().await;
    }
    if is_chosen("catchup") {
        bench.catch_up(1).await;
        bench.catch_up(1000).await;
    }
    if is_chosen("fanout") {
        bench.fan_out().await;
    }
    if is_chosen("idle") {
        bench.idle_streams().await;
    }
    if is_chosen("update") {
        bench.large_update().await;
    }
    let Bench { database, server } = bench;
    server.stop().await;
    database.drop().await;
}

struct Bench {
    database: TestDatabase,
    server: Server,
}

impl Bench {
    async fn channel(&self) -> Channel {
        harness::channel(self.server.address()).await
    }

    async fn publish(&self, channel: &Channel, group: u64, numbers: std::ops::Range<u64>) {
        let request = PublishRequest {
            envelopes: numbers.map(|n| group_message(group, n)).collect(),
        };
        let published = PublishServiceClient::new(channel.clone())
            .publish(request)
            .await;
        published.expect("messages are stored");
    }

    /// From the request of a publish to its arrival on an open stream, at a steady rate. Raw is an
    /// insert, and a connection that selects what is new at the same interval.
    async fn latency(&self) {
        const GROUP: u64 = 1;
        const SAMPLES: u64 = 100;
        let topic = group_topic(GROUP);
        let mut stream = Subscription::start(self.server.address()).await;
        stream.add(&[(&topic, 0)]).await;
        let channel = self.channel().await;
        let mut ours = Vec::new();
        for number in 0..SAMPLES {
            tokio::time::sleep(pause(number)).await;
            let sent = Instant::now();
            self.publish(&channel, GROUP, number..number + 1).await;
            stream.envelopes(1).await;
            ours.push(sent.elapsed());
        }
        let raw = self.raw_latency(SAMPLES).await;
        println!("latency, poll interval {} ms", POLL_INTERVAL.as_millis());
        println!("  raw   p50 {}  p99 {}", ms(&raw, 50), ms(&raw, 99));
        println!("  ours  p50 {}  p99 {}", ms(&ours, 50), ms(&ours, 99));
    }

    async fn raw_latency(&self, samples: u64) -> Vec<Duration> {
        let mut writer = self.database.connection().await;
        let mut reader = self.database.connection().await;
        sqlx::raw_sql("CREATE TABLE raw (id bigserial PRIMARY KEY, payload bytea NOT NULL)")
            .execute(&mut writer)
            .await
            .expect("a table");
        let (arrived, mut arrivals) = tokio::sync::mpsc::unbounded_channel();
        let polling = tokio::spawn(async move {
            let mut last = 0i64;
            loop {
                let rows = sqlx::query("SELECT id, payload FROM raw WHERE id > $1 ORDER BY id")
                    .bind(last)
                    .fetch_all(&mut reader)
                    .await
                    .expect("rows");
                for row in rows {
                    last = row.get(0);
                    let _ = arrived.send(Instant::now());
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        });
        let mut raw = Vec::new();
        for number in 0..samples {
            tokio::time::sleep(pause(number)).await;
            let sent = Instant::now();
            sqlx::query("INSERT INTO raw (payload) VALUES ($1)")
                .bind(vec![0u8; 1024])
                .execute(&mut writer)
                .await
                .expect("a row");
            let at = arrivals.recv().await.expect("the poller runs");
            raw.push(at - sent);
        }
        polling.abort();
        raw
    }

    /// A long history on so many topics, from the Update to its last envelope, against one `SELECT` of
    /// the same rows.
    async fn catch_up(&self, topics: u64) {
        let first_group = 1_000_000 * topics;
        let per_topic = HISTORY / topics;
        let channel = self.channel().await;
        for topic in 0..topics {
            let mut next = 0;
            while next < per_topic {
                let end = (next + 500).min(per_topic);
                self.publish(&channel, first_group + topic, next..end).await;
                next = end;
            }
        }
        let names: Vec<Vec<u8>> = (0..topics).map(|t| group_topic(first_group + t)).collect();
        let (mut raw, mut ours, mut bytes) = (Vec::new(), Vec::new(), 0);
        for _ in 0..3 {
            let started = Instant::now();
            bytes = select(&mut self.database.connection().await, &names).await;
            raw.push(started.elapsed());

            let mut stream = Subscription::start(self.server.address()).await;
            let adds: Vec<(&[u8], u64)> = names.iter().map(|name| (name.as_slice(), 0)).collect();
            let started = Instant::now();
            let (_, mut early) = stream.add(&adds).await;
            let rest = usize::try_from(per_topic * topics).expect("a count") - early.len();
            early.clear();
            stream.envelopes(rest).await;
            ours.push(started.elapsed());
        }
        let (raw, ours) = (percentile(&raw, 50), percentile(&ours, 50));
        println!("catch-up of {HISTORY} envelopes on {topics} topics");
        println!("  raw   {:>6.0} MB/s", rate(bytes, raw));
        println!(
            "  ours  {:>6.0} MB/s  ratio {:.2}",
            rate(bytes, ours),
            raw.as_secs_f64() / ours.as_secs_f64()
        );
    }

    /// One topic and many streams: from a publish to its last arrival.
    async fn fan_out(&self) {
        const GROUP: u64 = 2;
        const MESSAGES: u64 = 50;
        let topic = group_topic(GROUP);
        let mut channel = self.channel().await;
        let mut tasks = Vec::new();
        for number in 0..FOLLOWERS {
            if number % STREAMS_PER_CONNECTION == 0 {
                channel = self.channel().await;
            }
            let mut stream = Subscription::open_on(channel.clone())
                .await
                .expect("a stream");
            let started = stream.next().await.expect("a first frame");
            assert!(matches!(started, Response::Started(_)));
            stream.add(&[(&topic, 0)]).await;
            tasks.push(tokio::spawn(async move {
                stream
                    .envelopes(usize::try_from(MESSAGES).expect("few"))
                    .await;
            }));
        }
        // Those connections have as many streams as they may have.
        let channel = self.channel().await;
        let cpu = self.server.cpu();
        let started = Instant::now();
        for number in 0..MESSAGES {
            self.publish(&channel, GROUP, number..number + 1).await;
        }
        for task in tasks {
            task.await.expect("every stream gets everything");
        }
        let elapsed = started.elapsed().as_secs_f64();
        let cpu = (self.server.cpu() - cpu).as_secs_f64();
        let deliveries = FOLLOWERS as f64 * MESSAGES as f64;
        println!("fan-out of {MESSAGES} envelopes to {FOLLOWERS} streams");
        println!(
            "  {:.0} deliveries/s, {:.1} us of the server's processor each",
            deliveries / elapsed,
            cpu / deliveries * 1e6
        );
    }

    /// Memory of streams without a topic.
    async fn idle_streams(&self) {
        let before = self.server.resident_bytes();
        let mut open = Vec::new();
        let mut channel = self.channel().await;
        for number in 0..IDLE_STREAMS {
            if number % STREAMS_PER_CONNECTION == 0 {
                channel = self.channel().await;
            }
            let mut client = SubscriptionServiceClient::new(channel.clone());
            let requests = futures_util::stream::pending();
            let mut frames = client
                .subscribe(requests)
                .await
                .expect("a stream")
                .into_inner();
            frames
                .next()
                .await
                .expect("a first frame")
                .expect("Started");
            open.push(frames);
        }
        let bytes = self.server.resident_bytes().saturating_sub(before);
        println!("{IDLE_STREAMS} idle streams");
        println!(
            "  {:.1} KiB each",
            bytes as f64 / 1024.0 / IDLE_STREAMS as f64
        );
    }

    /// One Update with many topics, and then nothing.
    async fn large_update(&self) {
        let names: Vec<Vec<u8>> = (0..TOPICS).map(|t| group_topic(1 << 40 | t)).collect();
        let adds = names.iter().map(|name| TopicQuery {
            topic: Some(Topic {
                topic: name.clone().into(),
            }),
            cursor: Some(Cursor { sequence_id: 0 }),
        });
        let adds: Vec<TopicQuery> = adds.collect();
        let mut stream = Subscription::start(self.server.address()).await;
        let before = self.server.resident_bytes();
        let started = Instant::now();
        stream.update(1, adds, Vec::new());
        let applied = stream.next().await.expect("an answer");
        let elapsed = started.elapsed();
        assert!(matches!(applied, Response::Applied(_)));
        // What the request and its answer took is free again, if not given back.
        let bytes = self.server.resident_bytes().saturating_sub(before);
        println!("an Update with {TOPICS} adds");
        println!(
            "  Applied after {:.2} s, {:.0} bytes resident per registration",
            elapsed.as_secs_f64(),
            bytes as f64 / TOPICS as f64
        );
        let cpu = self.server.cpu();
        let watched = Duration::from_secs(10);
        tokio::time::sleep(watched).await;
        let cpu = (self.server.cpu() - cpu).as_secs_f64();
        println!(
            "  idle with them: {:.1} % of a core",
            cpu / watched.as_secs_f64() * 100.0
        );
    }
}

/// Reads every row of these topics on one connection; returns the bytes of their payloads.
async fn select(connection: &mut PgConnection, topics: &[Vec<u8>]) -> usize {
    let mut rows = sqlx::query(
        "SELECT sequence_id, topic, server_ns, expiry_ns, message_hash, is_commit_or_proposal, payload
           FROM envelopes WHERE topic = ANY($1) ORDER BY topic, sequence_id",
    )
    .bind(topics)
    .fetch(connection);
    let mut bytes = 0;
    while let Some(row) = rows.next().await {
        let payload: Vec<u8> = row.expect("a row").get(6);
        bytes += payload.len();
    }
    bytes
}

/// Between an arrival, which is a moment of the poller's, and the next request: every part of the
/// interval as often as every other.
fn pause(number: u64) -> Duration {
    Duration::from_millis(number * 37 % 100)
}

fn percentile(samples: &[Duration], percent: usize) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() - 1) * percent / 100]
}

fn ms(samples: &[Duration], percent: usize) -> String {
    format!(
        "{:>6.1} ms",
        percentile(samples, percent).as_secs_f64() * 1e3
    )
}

fn rate(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64()
}
