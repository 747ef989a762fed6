//! Connections: the pools, which operation uses which, and what a connection may bring back.

use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _, PgPool, Postgres};
use tokio::time::timeout;

use super::{Error, SqlState};

/// An idle connection older than this is tried before it is handed out, because the server may
/// have gone meanwhile. Busy connections were tried when they came back.
const TRY_AFTER_IDLE: Duration = Duration::from_secs(1);

/// How much longer than PostgreSQL itself a task without a client waits for the end of a statement
/// or transaction. After that, the connection counts as lost.
const DEADLINE_MARGIN: Duration = Duration::from_secs(1);

/// The longest time that PostgreSQL takes in a setting, milliseconds.
const MAX_SETTING_MS: u128 = i32::MAX as u128;

/// How connections are made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The primary.
    pub primary: PgConnectOptions,
    /// The one physical replica, when there is one.
    pub replica: Option<PgConnectOptions>,
    /// Connections per pool.
    pub max_connections: u32,
    /// Bounds every statement, and the wait for a free connection.
    pub max_statement_timeout: Duration,
    /// Bounds a publish from its first lock to its commit, in PostgreSQL and here (ARC-051).
    pub max_publish_duration: Duration,
    /// Bounds the wait of the boundary task for the allocation barrier (ARC-042).
    pub max_barrier_wait: Duration,
}

/// Hears what the pools had to clean up. Called on the release path: it must not block.
pub trait Observer: Send + Sync + 'static {
    /// A connection came back inside an open transaction, which was rolled back (ARC-060).
    fn released_open_transaction(&self);
}

/// What a request does, as far as the choice of a database goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Publish, its validation history included.
    Publish,
    /// Pages of envelopes; reads its own writes.
    Query,
    /// Newest envelopes; may lag.
    QueryNewest,
    /// Identifier lookups; may lag.
    InboxIds,
    /// Heads and history of subscriptions, and what their tailer reads; may lag.
    Subscribe,
}

/// The pools of one server.
#[derive(Clone, Debug)]
pub struct Pools {
    primary: PgPool,
    replica: Option<PgPool>,
}

impl Pools {
    /// The routing table (ARC-060): the only place that chooses a database for an operation.
    #[must_use]
    pub fn route(&self, operation: Operation) -> &PgPool {
        match operation {
            Operation::Publish | Operation::Query => &self.primary,
            Operation::QueryNewest | Operation::InboxIds | Operation::Subscribe => self.read(),
        }
    }

    /// The primary, for work that is not an endpoint's: migration, clock, boundary.
    #[must_use]
    pub fn primary(&self) -> &PgPool {
        &self.primary
    }

    /// The replica, when one is configured.
    #[must_use]
    pub fn replica(&self) -> Option<&PgPool> {
        self.replica.as_ref()
    }

    /// The replica, or the primary when none is configured.
    fn read(&self) -> &PgPool {
        self.replica.as_ref().unwrap_or(&self.primary)
    }
}

/// The database as the server uses it.
#[derive(Clone, Debug)]
pub struct Database {
    pools: Pools,
    pub(super) begin_publish: Arc<str>,
    pub(super) max_publish_duration: Duration,
    /// The text that begins a boundary run.
    pub(super) begin_advance: Arc<str>,
    tail: PgConnectOptions,
    max_statement_timeout: Duration,
    /// Bounds a boundary run: the wait for the barrier and one statement's time.
    max_advance: Duration,
}

impl Database {
    /// Opens the pools. No connection is made yet.
    #[must_use]
    pub fn open(settings: &Settings, observer: Arc<dyn Observer>) -> Self {
        let pool = |options: &PgConnectOptions| {
            let observer = Arc::clone(&observer);
            PgPoolOptions::new()
                .max_connections(settings.max_connections)
                .acquire_timeout(settings.max_statement_timeout)
                .test_before_acquire(false)
                .before_acquire(|connection, meta| {
                    Box::pin(async move {
                        if meta.idle_for > TRY_AFTER_IDLE {
                            connection.ping().await?;
                        }
                        Ok(true)
                    })
                })
                .after_release(move |connection, _| {
                    let observer = Arc::clone(&observer);
                    Box::pin(async move { clean_up(connection, observer.as_ref()).await })
                })
                .connect_lazy_with(session(options, settings.max_statement_timeout, "pool"))
        };
        let max_advance = settings
            .max_barrier_wait
            .saturating_add(settings.max_statement_timeout);
        Self {
            pools: Pools {
                primary: pool(&settings.primary),
                replica: settings.replica.as_ref().map(pool),
            },
            begin_publish: format!(
                "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL transaction_timeout = {}",
                settings.max_publish_duration.as_millis()
            )
            .into(),
            max_publish_duration: settings.max_publish_duration,
            begin_advance: format!(
                "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {}; \
                 SET LOCAL transaction_timeout = {}",
                settings.max_barrier_wait.as_millis(),
                max_advance.as_millis().min(MAX_SETTING_MS)
            )
            .into(),
            tail: session(
                settings.replica.as_ref().unwrap_or(&settings.primary),
                settings.max_statement_timeout,
                "tailer",
            ),
            max_statement_timeout: settings.max_statement_timeout,
            max_advance,
        }
    }

    /// The pools.
    #[must_use]
    pub fn pools(&self) -> &Pools {
        &self.pools
    }

    /// Closes every connection, waiting for those in use.
    pub async fn close(&self) {
        self.pools.primary.close().await;
        if let Some(replica) = &self.pools.replica {
            replica.close().await;
        }
    }

    /// How the tailer connects.
    pub(super) fn tail_options(&self) -> &PgConnectOptions {
        &self.tail
    }

    /// When a statement that has not ended was sent to a server that is lost.
    pub(super) fn statement_deadline(&self) -> Duration {
        self.max_statement_timeout.saturating_add(DEADLINE_MARGIN)
    }

    /// The same for a whole boundary run.
    pub(super) fn advance_deadline(&self) -> Duration {
        self.max_advance.saturating_add(DEADLINE_MARGIN)
    }

    pub(super) async fn acquire(
        &self,
        operation: Operation,
    ) -> Result<PoolConnection<Postgres>, Error> {
        Ok(self.pools.route(operation).acquire().await?)
    }
}

/// A connection of a pool, and what becomes of it when it is dropped.
#[derive(Debug)]
pub(super) struct Leased {
    connection: Option<PoolConnection<Postgres>>,
    goes_back: bool,
}

impl Leased {
    /// A connection that is closed unless its user says that it is in order. Whoever drops it amid a
    /// statement so ends the statement and its transaction.
    pub(super) fn to_close(connection: PoolConnection<Postgres>) -> Self {
        Self {
            connection: Some(connection),
            goes_back: false,
        }
    }

    /// A connection that goes back to its pool, which sees to what is left on it, unless a result
    /// that is [`checked`](Self::checked) says that it is lost.
    pub(super) fn to_give_back(connection: PoolConnection<Postgres>) -> Self {
        Self {
            connection: Some(connection),
            goes_back: true,
        }
    }

    pub(super) fn connection(&mut self) -> &mut PgConnection {
        self.connection
            .as_mut()
            .expect("only dropping takes the connection")
    }

    /// Gives it back.
    pub(super) fn give_back(mut self) {
        self.goes_back = true;
    }

    /// Passes a result of its use on. A lost connection is closed: the pool would wait for an answer
    /// on it without a bound.
    pub(super) fn checked<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        self.goes_back &= !matches!(result, Err(Error::Unavailable { .. }));
        result
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && !self.goes_back
        {
            drop(connection.detach());
        }
    }
}

/// Gives up on a server that does not answer, even though its own bound has passed.
pub(super) async fn bounded<T, E: Into<Error>>(
    deadline: Duration,
    operation: impl Future<Output = Result<T, E>>,
) -> Result<T, Error> {
    match timeout(deadline, operation).await {
        Ok(result) => result.map_err(Into::into),
        Err(_) => Err(Error::Unavailable {
            state: SqlState::NONE,
        }),
    }
}

/// Session settings that every connection of the server has.
pub(super) fn session(
    options: &PgConnectOptions,
    statement_timeout: Duration,
    purpose: &str,
) -> PgConnectOptions {
    options
        .clone()
        .application_name(&format!("xmtp-backend {purpose}"))
        .options([
            ("statement_timeout", statement_timeout.as_millis().to_string().as_str()),
            // A statement that waits for a lock ends when its client is gone (ARC-051).
            ("client_connection_check_interval", "1s"),
            ("TimeZone", "UTC"),
            // Every statement is made to walk an index for each of its parameters. One plan is right
            // for all of them, also one that was made while the tables were empty or unanalyzed.
            ("plan_cache_mode", "force_generic_plan"),
            ("enable_seqscan", "off"),
            ("enable_bitmapscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
            ("jit", "off"),
        ])
        // Statements carry request data.
        .disable_statement_logging()
}

/// The release hook (ARC-060): rolls back an open transaction, discards an aborted one.
///
/// Asks the server and not the driver, which knows only of transactions it began itself. An empty
/// `SELECT` used as a begin statement tells all three states apart: the driver accepts it only
/// when the server then reports an open transaction, the server refuses it in an aborted one.
async fn clean_up(
    connection: &mut PgConnection,
    observer: &dyn Observer,
) -> Result<bool, sqlx::Error> {
    match connection.begin_with("SELECT").await {
        Ok(open) => {
            observer.released_open_transaction();
            open.rollback().await?;
            Ok(true)
        }
        Err(sqlx::Error::BeginFailed) => Ok(true),
        Err(sqlx::Error::Database(aborted)) if aborted.code().as_deref() == Some("25P02") => {
            observer.released_open_transaction();
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
