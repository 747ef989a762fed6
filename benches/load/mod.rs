//! What the benchmarks share: messages to store, loops that run side by side, and which rows to run.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tonic::transport::Channel;

mod messages;

pub(crate) use self::messages::{group_message, group_topic};

/// Connections that the requests in flight share: one alone would be served by a single core.
const CONNECTIONS: usize = 4;

/// How long each side of each row runs.
const ROUND: Duration = Duration::from_secs(5);

/// Something that can be asked again and again, one request at a time.
pub(crate) trait Repeat: Send + 'static {
    /// Makes one request and waits for its answer.
    fn once(&mut self) -> impl Future<Output = ()> + Send;
}

/// Requests per second of all these together, each in a loop of its own.
pub(crate) async fn rate<R: Repeat>(loops: Vec<R>) -> f64 {
    let started = Instant::now();
    let running: Vec<_> = loops
        .into_iter()
        .map(|mut request| {
            tokio::spawn(async move {
                let mut done = 0u32;
                while started.elapsed() < ROUND {
                    request.once().await;
                    done += 1;
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for one in running {
        done += one.await.expect("a loop does not panic");
    }
    f64::from(done) / started.elapsed().as_secs_f64()
}

/// Connections to a server, for this many requests in flight.
pub(crate) async fn channels(address: SocketAddr, in_flight: usize) -> Vec<Channel> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS.min(in_flight) {
        connections.push(harness::channel(address).await);
    }
    connections.into_iter().cycle().take(in_flight).collect()
}

/// The rows that the arguments name as `ENVELOPESxIN_FLIGHT`; all when they name none.
pub(crate) fn rows(all: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let chosen: Vec<_> = std::env::args()
        .filter_map(|argument| {
            let (envelopes, in_flight) = argument.split_once('x')?;
            Some((envelopes.parse().ok()?, in_flight.parse().ok()?))
        })
        .collect();
    if chosen.is_empty() {
        all.to_vec()
    } else {
        chosen
    }
}

/// Prints the head of the table.
pub(crate) fn print_head(ours: &str) {
    println!("envelopes  in flight  raw requests/s  {ours:>11}  ratio");
}

/// Prints one row of the table.
pub(crate) fn print_row((envelopes, in_flight): (usize, usize), raw: f64, ours: f64) {
    println!(
        "{envelopes:>9}  {in_flight:>9}  {raw:>14.0}  {ours:>11.0}  {:>5.2}",
        ours / raw
    );
}
