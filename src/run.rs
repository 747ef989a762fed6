//! Building the server floor by floor, and taking it down again (ARC-003, ARC-005).
//!
//! Every step of the start must hold before the next one begins, and the gRPC port is bound last:
//! whoever can connect finds a server that works.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use envelope::scw::Verify;
use layers::drain::DrainHandle;
use sqlx::postgres::PgConnectOptions;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::api::health::{Phase, Readiness};
use crate::api::{self, ConfigurationApi, Services, TooLarge};
use crate::auth::{self, Access};
use crate::chains::{self, Chains, UnusableNode};
use crate::clock::Clock;
use crate::config::{self, Config, Secret};
use crate::db::{self, Database, MigrateError, Observer};
use crate::identity::Wallets;
use crate::metrics::Metrics;
use crate::outbound::{Outbound, Trust};
use crate::port::{BindError, Port};
use crate::publish::{self, Publisher, Retention};
use crate::query::Queries;
use crate::server::{self, Connections, stack};
use crate::streams::{self, Streams};
use crate::telemetry;

/// The version of this build, as clients, metrics and logs see it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long shutdown waits for database connections once every request is answered or cut. With the
/// goodbye to the peers it stays within five seconds after the drain.
const CLOSE: Duration = Duration::from_secs(2);

/// Time for all checks of one publish, its questions to chains included, and for all verdicts of one
/// request: what is not known by then is not waited for. The transaction has `max_publish_duration_ms`
/// for itself (ARC-051).
const CHECK: Duration = Duration::from_secs(30);

/// Connections of the metrics port at a time. A handful of scrapers come and go; each may take ten
/// seconds to ask.
const MAX_SCRAPERS: usize = 64;

/// How often a replica that cannot serve yet is looked at.
const REPLICA_RETRY: Duration = Duration::from_millis(200);

/// How often the log says that the replica is still waited for.
const REPLICA_PROGRESS: Duration = Duration::from_secs(10);

/// Why the server did not start, or gave up. The text names the step and never a secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration asks for something this build does not have, or that cannot hold.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// A connection URL with parameters that the driver does not take.
    #[error("configuration error: {key}: the connection URL cannot be used")]
    ConnectionUrl {
        /// The key that holds it.
        key: &'static str,
    },
    /// The process logs already.
    #[error("logging cannot be started")]
    Logging,
    /// The runtime or the signal handlers cannot be made.
    #[error("the operating system refused the runtime or its signal handlers")]
    Runtime(#[source] std::io::Error),
    /// Authentication.
    #[error(transparent)]
    Auth(#[from] auth::Error),
    /// The key set is older than it may be, before or after the server served.
    #[error("the key set could not be refreshed within auth.jwks_max_stale_seconds")]
    StaleKeys,
    /// The node of a chain.
    #[error(transparent)]
    Chain(#[from] UnusableNode),
    /// The public configuration.
    #[error(transparent)]
    PublicConfiguration(#[from] TooLarge),
    /// The schema.
    #[error(transparent)]
    Migration(#[from] MigrateError),
    /// The database.
    #[error("database initialization failed: {0}")]
    Database(#[from] db::Error),
    /// The gRPC port ended without being asked to.
    #[error("the gRPC port closed unexpectedly")]
    PortClosed,
    /// The task that all streams stand on ended without being asked to.
    #[error("the supervisor of streams ended unexpectedly")]
    StreamsEnded,
    /// A port that cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
}

/// What a server depends on besides its configuration; tests choose their own.
#[derive(Clone)]
pub struct Surroundings {
    /// Tells the time that key packages are judged by.
    pub clock: Clock,
    /// Asks contract wallets, instead of the configured chains.
    pub wallets: Option<Arc<dyn Verify>>,
    /// The certificate authorities of other servers.
    pub trust: Trust,
    /// How many connections the gRPC port has, and how long each may keep it waiting.
    pub connections: Connections,
    /// Time for all checks of one publish, and for all verdicts of one request.
    pub max_check_duration: Duration,
}

impl Surroundings {
    /// The machine's clock and authorities, and the configured chains.
    #[must_use]
    pub fn production() -> Self {
        Self {
            clock: Clock::system(),
            wallets: None,
            trust: Trust::Machine,
            connections: Connections::production(),
            max_check_duration: CHECK,
        }
    }
}

/// Runs the server until a signal asks it to stop.
///
/// # Errors
///
/// Any [`Error`].
pub fn run(config: Config) -> Result<(), Error> {
    config.unsupported()?;
    let _logging = telemetry::install(config.server.log_level, config.server.log_format)
        .map_err(|_| Error::Logging)?;
    info!(version = VERSION, "configuration loaded");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(Error::Runtime)?;
    let result = runtime.block_on(run_until_signal(config));
    // A computation that nobody waits for any more must not hold the process up.
    runtime.shutdown_background();
    result
}

async fn run_until_signal(config: Config) -> Result<(), Error> {
    let stop = stop_signal()?;
    let started = stop
        .run_until_cancelled(start(config, Surroundings::production()))
        .await;
    // A signal during the start is a request to stop like any other.
    let Some(running) = started else {
        return Ok(());
    };
    let running = running?;
    let stale = running.access.stale();
    let (reason, result) = tokio::select! {
        () = stop.cancelled() => ("signal", Ok(())),
        () = stale.cancelled() => ("stale_keys", Err(Error::StaleKeys)),
        () = running.port_closed.cancelled() => ("fatal", Err(Error::PortClosed)),
        () = running.streams_ended.cancelled() => ("fatal", Err(Error::StreamsEnded)),
    };
    info!(reason, "shutting down");
    if running.stop().await {
        info!("drained");
    } else {
        warn!("the drain deadline cut connections that were still open");
    }
    result
}

/// A token that the first SIGTERM or SIGINT cancels. The second one ends the process.
fn stop_signal() -> Result<CancellationToken, Error> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Error::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Runtime)?;
    let stop = CancellationToken::new();
    let token = stop.clone();
    tokio::spawn(async move {
        for first in [true, false] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if first {
                token.cancel();
            } else {
                std::process::exit(1);
            }
        }
    });
    Ok(stop)
}

/// A server that serves.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    readiness: Readiness,
    /// Keeps the keys of callers fresh, and knows when they are too old.
    access: Access,
    database: Database,
    /// Ends the gRPC port.
    stop: CancellationToken,
    /// Ends the metrics port, which outlives the gRPC port so that readiness 0 can be seen.
    stop_metrics: CancellationToken,
    serving: JoinHandle<()>,
    /// Cancelled when the gRPC port has ended, asked or not.
    port_closed: CancellationToken,
    streams: Streams,
    supervisor: JoinHandle<()>,
    /// Cancelled when the supervisor of streams has ended, asked or not.
    streams_ended: CancellationToken,
    /// Refuses requests once shutdown has begun, and knows which are left.
    gate: DrainHandle,
    max_drain_duration: Duration,
}

/// Starts a server; it accepts connections when this returns.
///
/// # Errors
///
/// Any [`Error`]; nothing is left running then.
pub async fn start(config: Config, surroundings: Surroundings) -> Result<Running, Error> {
    let metrics = Arc::new(Metrics::new(VERSION));
    let stop_metrics = CancellationToken::new();
    // Until the start has succeeded, leaving this function ends the metrics port.
    let guard = stop_metrics.clone().drop_guard();
    let metrics_address = open_metrics(&config, &metrics, &stop_metrics).await?;
    let connections = surroundings.connections;
    let access = open_access(&config, &surroundings, &metrics).await?;
    let configuration = ConfigurationApi::new(&config, access.published(), VERSION)?;
    let wallets = wallets(&config, &surroundings, &metrics)?;
    // Migrations, replicas and recovery may take longer than keys stay fresh.
    let stale = access.stale();
    let opened = stale.run_until_cancelled(async {
        let database = open_database(&config, &metrics).await?;
        let streams = open_streams(&config, &surroundings, &database, &metrics).await?;
        Ok::<_, Error>((database, streams))
    });
    let (database, (streams, supervise)) = opened.await.ok_or(Error::StaleKeys)??;
    // Until the start has succeeded, leaving this function ends the streams' tasks too.
    let stop_streams = streams.stop_on_drop();
    let (supervisor, streams_ended) = watched(supervise);
    let readiness = Readiness::new(Arc::clone(&metrics));
    let foundations = Foundations {
        database: &database,
        streams: &streams,
        wallets,
        metrics: &metrics,
    };
    let services = services(
        &config,
        surroundings,
        foundations,
        &readiness,
        configuration,
    );

    let port = Port::bind("gRPC", config.server.listen, connections.max_open).await?;
    let address = port.address();
    let stop = CancellationToken::new();
    let (service, gate) = stack(
        services.routes(),
        access.authenticator(),
        metrics,
        config.server.request_logger,
    );
    let serve = server::serve(
        port,
        connections,
        service,
        config.limits.max_http2_streams,
        stop.clone(),
    );
    let (serving, port_closed) = watched(serve);
    readiness.report(Phase::Serving);
    info!(%address, "serving");
    let stop_metrics = guard.disarm();
    stop_streams.disarm();
    Ok(Running {
        address,
        metrics_address,
        readiness,
        access,
        database,
        stop,
        stop_metrics,
        serving,
        port_closed,
        streams,
        supervisor,
        streams_ended,
        gate,
        max_drain_duration: config.server.max_drain_duration,
    })
}

impl Running {
    /// Where gRPC and gRPC-Web are served.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where metrics are served, if anywhere.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Stops serving: reports not serving, refuses new requests, lets running ones end within the
    /// drain duration, cuts what is left (ARC-003). Tells whether everything ended by itself.
    pub async fn stop(self) -> bool {
        self.readiness.report(Phase::Stopping);
        self.gate.close();
        self.streams.stop();
        let drained = timeout(self.max_drain_duration, self.gate.drained())
            .await
            .is_ok();
        self.gate.cut();
        self.stop.cancel();
        if self.serving.await.is_err() {
            error!("the gRPC port ended in a panic");
        }
        if self.supervisor.await.is_err() {
            error!("the supervisor of streams ended in a panic");
        }
        // A statement that still runs keeps its connection; PostgreSQL bounds it by itself.
        if timeout(CLOSE, self.database.close()).await.is_err() {
            warn!("database connections were still busy");
        }
        self.stop_metrics.cancel();
        drained
    }
}

/// Runs a task that the whole server stands on. The token is cancelled when it ends, by itself or
/// in a panic.
fn watched(task: impl Future<Output = ()> + Send + 'static) -> (JoinHandle<()>, CancellationToken) {
    let ended = CancellationToken::new();
    let guard = ended.clone().drop_guard();
    let task = tokio::spawn(async move {
        let _guard = guard;
        task.await;
    });
    (task, ended)
}

struct PoolObserver(Arc<Metrics>);

impl Observer for PoolObserver {
    fn released_open_transaction(&self) {
        self.0.released_open_transaction();
        warn!("a connection came back to its pool inside a transaction");
    }
}

/// Opens the metrics port, if there is to be one, and answers where.
async fn open_metrics(
    config: &Config,
    metrics: &Arc<Metrics>,
    stop: &CancellationToken,
) -> Result<Option<SocketAddr>, Error> {
    let Some(address) = config.telemetry.metrics_listen else {
        return Ok(None);
    };
    let port = Port::bind("metrics", address, MAX_SCRAPERS).await?;
    let address = port.address();
    let serve = telemetry::serve_metrics(port, Arc::clone(metrics), stop.clone());
    tokio::spawn(serve);
    Ok(Some(address))
}

async fn open_database(config: &Config, metrics: &Arc<Metrics>) -> Result<Database, Error> {
    let settings = db::Settings {
        primary: connection("database.url", &config.database.url)?,
        replica: config
            .database
            .replica_url
            .as_ref()
            .map(|url| connection("database.replica_url", url))
            .transpose()?,
        max_connections: config.database.max_connections,
        max_statement_timeout: config.database.max_statement_timeout,
        max_publish_duration: config.publishing.max_publish_duration,
        max_barrier_wait: config.publishing.max_barrier_wait,
    };
    Database::migrate(&settings.primary).await?;
    info!("migrations applied");
    let database = Database::open(&settings, Arc::new(PoolObserver(Arc::clone(metrics))));
    config.retention.check(database.clock_ns().await?)?;
    await_replica(&database).await?;
    Ok(database)
}

/// Reads a connection URL. What the driver says of a bad one may quote it, so only the key is named.
fn connection(key: &'static str, url: &Secret<String>) -> Result<PgConnectOptions, Error> {
    url.expose()
        .parse()
        .map_err(|_| Error::ConnectionUrl { key })
}

/// Waits until the replica has replayed the schema. It may be paused or far behind, so there is no
/// deadline; a database error is one, and ends the start.
async fn await_replica(database: &Database) -> Result<(), Error> {
    let mut next_progress = Instant::now();
    while let Some(replica) = database.replica_state().await? {
        if replica.has_schema {
            if !replica.in_recovery {
                warn!("the replica is not in recovery: it does not follow this primary");
            }
            info!("the replica can serve");
            break;
        }
        if Instant::now() >= next_progress {
            info!("waiting for the replica to replay the schema");
            next_progress = Instant::now() + REPLICA_PROGRESS;
        }
        tokio::time::sleep(REPLICA_RETRY).await;
    }
    Ok(())
}

async fn open_access(
    config: &Config,
    surroundings: &Surroundings,
    metrics: &Arc<Metrics>,
) -> Result<Access, auth::Error> {
    let clock = surroundings.clock.clone();
    let trust = surroundings.trust.clone();
    auth::open(config.auth.as_ref(), clock, trust, metrics).await
}

async fn open_streams(
    config: &Config,
    surroundings: &Surroundings,
    database: &Database,
    metrics: &Arc<Metrics>,
) -> Result<(Streams, impl Future<Output = ()> + Send + use<>), Error> {
    let parts = streams::Parts {
        database: database.clone(),
        max_connections: config.database.max_connections,
        settings: config.streams.clone(),
        limits: config.limits.clone(),
        clock: surroundings.clock.clone(),
        metrics: Arc::clone(metrics),
    };
    Ok(Streams::start(parts).await?)
}

/// Who asks contract wallets: the configured chains, unless a test brings somebody else.
fn wallets(
    config: &Config,
    surroundings: &Surroundings,
    metrics: &Arc<Metrics>,
) -> Result<Arc<dyn Verify>, UnusableNode> {
    if let Some(wallets) = &surroundings.wallets {
        return Ok(Arc::clone(wallets));
    }
    // Without chains nobody is called, so nobody has to be trusted.
    let trust = if config.chains.is_empty() {
        Trust::Only(Vec::new())
    } else {
        surroundings.trust.clone()
    };
    let chains = Chains::new(chains::Parts {
        nodes: &config.chains,
        cache_entries_max: config.validation.max_scw_cache_entries,
        outbound: Outbound::new(trust),
        metrics: Arc::clone(metrics),
    })?;
    Ok(Arc::new(chains))
}

/// What the services stand on, once it is open.
struct Foundations<'f> {
    database: &'f Database,
    streams: &'f Streams,
    wallets: Arc<dyn Verify>,
    metrics: &'f Arc<Metrics>,
}

fn services(
    config: &Config,
    surroundings: Surroundings,
    foundations: Foundations<'_>,
    readiness: &Readiness,
    configuration: ConfigurationApi,
) -> Services {
    let Foundations {
        database,
        streams,
        wallets,
        metrics,
    } = foundations;
    let metrics = Arc::clone(metrics);
    let Surroundings {
        clock,
        wallets: _,
        trust: _,
        connections: _,
        max_check_duration,
    } = surroundings;
    let publisher = Publisher::new(publish::Parts {
        database: database.clone(),
        limits: config.limits.clone(),
        retention: Retention::new(&config.retention),
        clock,
        wallets: Arc::clone(&wallets),
        max_check_duration,
        metrics: Arc::clone(&metrics),
    });
    Services::new(api::Parts {
        publisher: Arc::new(publisher),
        queries: Arc::new(Queries::new(database.clone(), config.limits.clone())),
        streams: streams.clone(),
        wallets: Wallets::new(
            wallets,
            config.limits.max_scw_signatures,
            max_check_duration,
        ),
        configuration,
        health: readiness.service(),
        limits: &config.limits,
        metrics,
    })
}
