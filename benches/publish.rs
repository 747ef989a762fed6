//! Publishes per second against the same rows inserted without a server.
//!
//! Both sides use one PostgreSQL, one after the other, with the same number of requests in flight
//! and the same number of envelopes a request: the raw side with one `INSERT` per transaction on as
//! many connections, ours with gRPC publishes of group messages on distinct topics. What counts is
//! the ratio; absolute numbers belong to the machine.

mod load;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use client::PublishServiceClient;
use envelope::wire::xmtp::backend::v1::{ClientEnvelope, PublishRequest};
use envelope::{MessageHash, canonical};
use harness::{TestDatabase, TestServer};
use sqlx::postgres::PgConnection;
use tonic::transport::Channel;

use load::{Repeat, channels, group_message, group_topic, print_head, print_row, rate, rows};

/// What is measured: envelopes a request, requests in flight.
const ROWS: [(usize, usize); 4] = [(1, 1), (1, 32), (100, 1), (100, 32)];

/// Makes every envelope of a side different, on a topic of its own.
#[derive(Clone, Default)]
struct Source(Arc<AtomicU64>);

impl Source {
    fn groups(&self, count: usize) -> Vec<u64> {
        (0..count)
            .map(|_| self.0.fetch_add(1, Ordering::Relaxed))
            .collect()
    }
}

#[tokio::main]
async fn main() {
    print_head("publishes/s");
    for row in rows(&ROWS) {
        print_row(row, raw(row).await, ours(row).await);
    }
}

/// Inserts rows over a connection of its own.
struct Insert {
    connection: PgConnection,
    source: Source,
    envelopes: usize,
}

impl Repeat for Insert {
    async fn once(&mut self) {
        insert(&mut self.connection, &self.source.groups(self.envelopes)).await;
    }
}

async fn raw((envelopes, in_flight): (usize, usize)) -> f64 {
    let database = TestDatabase::create().await;
    let source = Source::default();
    let mut loops = Vec::new();
    for _ in 0..in_flight {
        let connection = database.connection().await;
        loops.push(Insert {
            connection,
            source: source.clone(),
            envelopes,
        });
    }
    let rate = rate(loops).await;
    database.drop().await;
    rate
}

/// The rows of one request, in one statement that is its own transaction.
async fn insert(connection: &mut PgConnection, groups: &[u64]) {
    let payloads: Vec<_> = groups
        .iter()
        .map(|&group| canonical::encode(&group_message(group, 0)))
        .collect();
    let hashes: Vec<_> = payloads
        .iter()
        .map(|bytes| MessageHash::of(bytes))
        .collect();
    let hashes: Vec<&[u8]> = hashes
        .iter()
        .map(|hash| hash.as_bytes().as_slice())
        .collect();
    let payloads: Vec<&[u8]> = payloads.iter().map(AsRef::as_ref).collect();
    let topics: Vec<_> = groups.iter().map(|&group| group_topic(group)).collect();
    sqlx::query(
        "INSERT INTO envelopes (sequence_id, topic, server_ns, expiry_ns, message_hash,
                                is_commit_or_proposal, payload)
         SELECT nextval('envelope_sequence'), topic, 0, 0, hash, false, payload
           FROM unnest($1::bytea[], $2::bytea[], $3::bytea[]) AS new (topic, hash, payload)",
    )
    .bind(topics)
    .bind(hashes)
    .bind(payloads)
    .execute(connection)
    .await
    .expect("a new row can be inserted");
}

/// Publishes over a connection that it shares with some of the others.
struct Publish {
    client: PublishServiceClient<Channel>,
    source: Source,
    envelopes: usize,
}

impl Repeat for Publish {
    async fn once(&mut self) {
        let groups = self.source.groups(self.envelopes);
        let envelopes: Vec<ClientEnvelope> = groups
            .into_iter()
            .map(|group| group_message(group, 0))
            .collect();
        let request = PublishRequest { envelopes };
        self.client
            .publish(request)
            .await
            .expect("a publish succeeds");
    }
}

async fn ours((envelopes, in_flight): (usize, usize)) -> f64 {
    let server = TestServer::start().await;
    let source = Source::default();
    let loops = channels(server.address(), in_flight)
        .await
        .into_iter()
        .map(|channel| Publish {
            client: PublishServiceClient::new(channel),
            source: source.clone(),
            envelopes,
        })
        .collect();
    let rate = rate(loops).await;
    server.stop().await;
    rate
}
