//! Publishes per second against the same rows inserted without a server.
//!
//! Both sides use one PostgreSQL, one after the other, with the same number of requests in flight
//! and the same number of envelopes a request: the raw side with one `INSERT` per transaction on as
//! many connections, ours with gRPC publishes of group messages on distinct topics. What counts is
//! the ratio; absolute numbers belong to the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::PublishServiceClient;
use envelope::canonical;
use envelope::wire::xmtp::backend::v1::{
    ClientEnvelope, GroupMessage, PublishRequest, client_envelope::Payload,
};
use harness::{TestDatabase, TestServer};
use sqlx::postgres::PgConnection;

/// Bytes of the encrypted part of each message.
const MESSAGE_BYTES: usize = 1024;

/// How long each side of each row runs.
const ROUND: Duration = Duration::from_secs(5);

/// What is measured: envelopes a request, requests in flight.
const ROWS: [(usize, usize); 4] = [(1, 1), (1, 32), (100, 1), (100, 32)];

/// Makes every envelope of the run different, on a topic of its own.
#[derive(Default)]
struct Source(AtomicU64);

impl Source {
    fn envelopes(&self, count: usize) -> Vec<ClientEnvelope> {
        (0..count)
            .map(|_| group_message(self.0.fetch_add(1, Ordering::Relaxed)))
            .collect()
    }
}

/// An MLS private message, application content, for a group whose id is the number.
fn group_message(number: u64) -> ClientEnvelope {
    let mut data = vec![0, 1, 0, 2, 16];
    data.extend_from_slice(&u128::from(number).to_be_bytes());
    data.extend_from_slice(&7u64.to_be_bytes());
    data.extend_from_slice(&[1, 0, 0]);
    data.extend_from_slice(&[0x44, 0x00]);
    data.resize(data.len() + MESSAGE_BYTES, 0xab);
    let message = GroupMessage {
        data: data.into(),
        sender_hmac: vec![1; 32].into(),
        should_push: true,
    };
    ClientEnvelope {
        payload: Some(Payload::GroupMessage(message)),
    }
}

#[tokio::main]
async fn main() {
    let rounds = rows();
    println!("envelopes  in flight  raw requests/s  publishes/s  ratio");
    for (envelopes, in_flight) in rounds {
        let raw = raw(envelopes, in_flight).await;
        let ours = ours(envelopes, in_flight).await;
        println!(
            "{envelopes:>9}  {in_flight:>9}  {raw:>14.0}  {ours:>11.0}  {:>5.2}",
            ours / raw
        );
    }
}

/// The rows that the arguments name as `ENVELOPESxIN_FLIGHT`; all when there are none.
fn rows() -> Vec<(usize, usize)> {
    let chosen: Vec<_> = std::env::args()
        .filter_map(|argument| {
            let (envelopes, in_flight) = argument.split_once('x')?;
            Some((envelopes.parse().ok()?, in_flight.parse().ok()?))
        })
        .collect();
    if chosen.is_empty() {
        ROWS.to_vec()
    } else {
        chosen
    }
}

/// Requests per second of `in_flight` loops that each run `request` again and again.
async fn rate<F, R>(in_flight: usize, mut request: F) -> f64
where
    F: FnMut() -> R,
    R: Future<Output = u64> + Send + 'static,
{
    let started = Instant::now();
    let loops: Vec<_> = (0..in_flight).map(|_| tokio::spawn(request())).collect();
    let mut done = 0;
    for one in loops {
        done += one.await.expect("a loop does not panic");
    }
    done as f64 / started.elapsed().as_secs_f64()
}

async fn raw(envelopes: usize, in_flight: usize) -> f64 {
    let database = TestDatabase::create().await;
    let source = Arc::new(Source::default());
    let mut connections = Vec::new();
    for _ in 0..in_flight {
        connections.push(database.connection().await);
    }
    let rate = rate(in_flight, || {
        let source = Arc::clone(&source);
        let mut connection = connections.pop().expect("one connection per loop");
        async move {
            let started = Instant::now();
            let mut done = 0;
            while started.elapsed() < ROUND {
                insert(&mut connection, &source.envelopes(envelopes)).await;
                done += 1;
            }
            done
        }
    })
    .await;
    database.drop().await;
    rate
}

/// The rows of one request, in one statement that is its own transaction.
async fn insert(connection: &mut PgConnection, envelopes: &[ClientEnvelope]) {
    let payloads: Vec<_> = envelopes.iter().map(canonical::encode).collect();
    let payloads: Vec<&[u8]> = payloads.iter().map(AsRef::as_ref).collect();
    let hashes: Vec<_> = payloads
        .iter()
        .map(|bytes| *envelope::MessageHash::of(bytes).as_bytes())
        .collect();
    let hashes: Vec<&[u8]> = hashes.iter().map(<[u8; 32]>::as_slice).collect();
    // The group id stands at the same place in every message.
    let topics: Vec<_> = payloads
        .iter()
        .map(|bytes| [&[0], &bytes[14..30]].concat())
        .collect();
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

async fn ours(envelopes: usize, in_flight: usize) -> f64 {
    let server = TestServer::start().await;
    let source = Arc::new(Source::default());
    let channel = harness::channel(server.address()).await;
    let rate = rate(in_flight, || {
        let source = Arc::clone(&source);
        let mut client = PublishServiceClient::new(channel.clone());
        async move {
            let started = Instant::now();
            let mut done = 0;
            while started.elapsed() < ROUND {
                let request = PublishRequest {
                    envelopes: source.envelopes(envelopes),
                };
                client.publish(request).await.expect("a publish succeeds");
                done += 1;
            }
            done
        }
    })
    .await;
    server.stop().await;
    rate
}
