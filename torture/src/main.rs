//! Two servers on one database, publishers and subscribers on both, and faults all the time. In the
//! end everything that was acknowledged or delivered is compared with what is stored (ARC-112).
//!
//! What a run checks:
//!
//! * every acknowledged envelope is stored once, under the id that was acknowledged;
//! * nothing is stored that nobody sent;
//! * what a registration delivered is exactly the first part of what its topic holds above its cursor:
//!   nothing lost, repeated, reordered or changed, whatever happened to servers and databases;
//! * after the last fault, every subscriber gets everything;
//! * `Started` comes first, `Applied` in order, and a removed topic is silent after its `Applied`.
//!
//! The numbers of one run depend on the machine; the choices are those of the seed.

mod faults;
mod instance;
mod ledger;
mod publisher;
mod subscriber;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser as _;
use harness::{Random, Replicated, seeds};
use tokio::task::JoinSet;

use instance::Instance;
use ledger::Ledger;

/// Groups whose topics are used.
const GROUPS: u64 = 24;

/// Publishers, each with requests to either server.
const PUBLISHERS: u64 = 4;

/// Subscribers with bidirectional streams, and with static ones.
const SUBSCRIBERS: u64 = 8;
const STATIC_SUBSCRIBERS: u64 = 3;

/// Torture two servers and check what clients saw
#[derive(Debug, clap::Parser)]
struct Options {
    /// How long faults happen
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Repeats the choices of a run
    #[arg(long)]
    seed: Option<u64>,
    /// The server's program
    #[arg(long)]
    server: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let seed = options
        .seed
        .or_else(|| seeds(1).first().copied())
        .context("a seed")?;
    eprintln!("seed {seed}");
    let time = Duration::try_from_secs_f64(options.minutes * 60.0).context("--minutes")?;
    let ledger = run(&options, seed, time).await?;
    let violations = ledger.violations();
    println!(
        "{} violations={} seed={seed}",
        ledger.summary(),
        violations.len()
    );
    for violation in violations.iter().take(20) {
        println!("violation: {violation}");
    }
    Ok(ExitCode::from(u8::from(!violations.is_empty())))
}

async fn run(options: &Options, seed: u64, time: Duration) -> anyhow::Result<Arc<Ledger>> {
    let mut random = Random::new(seed);
    let ledger = Arc::new(Ledger::default());
    let mut databases = Replicated::start().await;
    let database = databases.create_bare().await;
    let standby = databases.standby_url(&database);
    let instances = Arc::new([
        Instance::start(&options.server, &database.url(), None).await?,
        Instance::start(&options.server, &database.url(), Some(&standby)).await?,
    ]);

    let (stop_publishing, publishing) = tokio::sync::watch::channel(true);
    let mut publishers = JoinSet::new();
    for number in 0..PUBLISHERS {
        let publisher = publisher::Publisher::new(
            number,
            random.fork(),
            Arc::clone(&instances),
            Arc::clone(&ledger),
        );
        publishers.spawn(publisher.run(publishing.clone()));
    }
    let (finish, finished) = tokio::sync::watch::channel(None);
    let mut subscribers = JoinSet::new();
    for number in 0..SUBSCRIBERS + STATIC_SUBSCRIBERS {
        let subscriber = subscriber::Subscriber::new(
            number,
            number >= SUBSCRIBERS,
            random.fork(),
            Arc::clone(&instances),
            Arc::clone(&ledger),
        );
        subscribers.spawn(subscriber.run(finished.clone()));
    }

    let mut faults = faults::Faults::new(
        &mut databases,
        &database,
        &instances,
        &ledger,
        random.fork(),
    );
    faults.run(time).await?;

    stop_publishing.send_replace(false);
    while let Some(ended) = publishers.join_next().await {
        ended?;
    }
    let stored = Arc::new(ledger::Stored::read(&instances).await?);
    ledger.check_stored(&stored);
    finish.send_replace(Some(Arc::clone(&stored)));
    while let Some(ended) = subscribers.join_next().await {
        ended?;
    }
    for instance in instances.iter() {
        instance.stop().await;
    }
    database.drop().await;
    Ok(ledger)
}
