//! Advisory locks seen and held from outside: how a test gets in the server's way, and how it
//! knows that the server waits (ARC-031, ARC-032, ARC-039).
//!
//! PostgreSQL keeps these locks apart by database, so tests with databases of their own do not meet.

use sqlx::postgres::{PgConnection, PgPool};
use sqlx::{AssertSqlSafe, Connection as _};
use xmtp_backend::db::{GlobalLock, LOCK_CLASS, topic_key};

use super::{TestDatabase, eventually};

/// One advisory lock of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdvisoryLock {
    /// A topic's, by its key.
    Topic(i64),
    /// A global one, by its number.
    Global(i32),
}

impl AdvisoryLock {
    /// The lock of a topic.
    pub fn of_topic(topic: &[u8]) -> Self {
        Self::Topic(topic_key(topic))
    }

    /// The arguments of the `pg_advisory_*` functions.
    fn arguments(self) -> String {
        match self {
            Self::Topic(key) => format!("{key}::bigint"),
            Self::Global(number) => format!("{LOCK_CLASS}::int, {number}::int"),
        }
    }
}

impl From<GlobalLock> for AdvisoryLock {
    fn from(lock: GlobalLock) -> Self {
        Self::Global(lock.number())
    }
}

/// An advisory lock as `pg_locks` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockState {
    /// Which lock.
    pub lock: AdvisoryLock,
    /// `ShareLock` rather than `ExclusiveLock`.
    pub shared: bool,
    /// Held rather than waited for.
    pub granted: bool,
    /// The backend that holds it or waits.
    pub pid: i32,
}

/// A lock that a session of the test holds. Dropping it releases the lock soon; to know when, use
/// [`release`](Self::release).
#[derive(Debug)]
pub struct HeldLock {
    session: PgConnection,
}

impl HeldLock {
    /// The backend that holds it.
    pub async fn pid(&mut self) -> i32 {
        sqlx::query_scalar("SELECT pg_backend_pid()")
            .fetch_one(&mut self.session)
            .await
            .expect("a healthy session")
    }

    /// Lets go of it; free when this returns.
    pub async fn release(mut self) {
        sqlx::query("SELECT pg_advisory_unlock_all()")
            .execute(&mut self.session)
            .await
            .expect("the session held the lock until now");
        self.session.close().await.expect("a healthy session");
    }
}

/// The advisory locks of one database.
#[derive(Debug)]
pub struct AdvisoryLocks<'d> {
    database: &'d TestDatabase,
    pool: PgPool,
}

impl TestDatabase {
    /// A view of the advisory locks in this database.
    pub async fn advisory_locks(&self) -> AdvisoryLocks<'_> {
        AdvisoryLocks {
            database: self,
            pool: self.pool().await,
        }
    }
}

impl AdvisoryLocks<'_> {
    /// Takes a lock exclusively, in a session of its own.
    pub async fn hold(&self, lock: AdvisoryLock) -> HeldLock {
        let mut session = self.database.connection().await;
        let statement = format!("SELECT pg_advisory_lock({})", lock.arguments());
        sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut session)
            .await
            .expect("nobody refuses an advisory lock");
        HeldLock { session }
    }

    /// Every advisory lock that somebody holds or waits for, in order.
    pub async fn states(&self) -> Vec<LockState> {
        let rows: Vec<(i64, i64, i16, String, bool, i32)> = sqlx::query_as(
            "SELECT classid::bigint, objid::bigint, objsubid, mode, granted, pid
               FROM pg_locks
              WHERE locktype = 'advisory'
                AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        )
        .fetch_all(&self.pool)
        .await
        .expect("pg_locks can be read");
        let mut states: Vec<LockState> = rows.into_iter().map(LockState::from).collect();
        states.sort_unstable();
        states
    }

    /// Whether somebody holds a lock.
    pub async fn is_held(&self, lock: AdvisoryLock) -> bool {
        let states = self.states().await;
        states
            .iter()
            .any(|state| state.lock == lock && state.granted)
    }

    /// Returns when exactly so many sessions wait for a lock.
    pub async fn until_waiting(&self, lock: AdvisoryLock, sessions: usize) {
        eventually("the sessions wait for the lock", async || {
            let states = self.states().await;
            let waiting = states.iter().filter(|s| s.lock == lock && !s.granted);
            waiting.count() == sessions
        })
        .await;
    }

    /// Returns when nobody holds or waits for any advisory lock.
    pub async fn until_all_free(&self) {
        eventually("all advisory locks are free", async || {
            self.states().await.is_empty()
        })
        .await;
    }
}

impl From<(i64, i64, i16, String, bool, i32)> for LockState {
    fn from(row: (i64, i64, i16, String, bool, i32)) -> Self {
        let (class, object, kind, mode, granted, pid) = row;
        let number = |oid: i64| u32::try_from(oid).expect("an oid").cast_signed();
        let lock = match kind {
            // One bigint, in two halves.
            1 => AdvisoryLock::Topic((class << 32) | object),
            // Two integers.
            2 => {
                assert_eq!(number(class), LOCK_CLASS, "a lock of no known class");
                AdvisoryLock::Global(number(object))
            }
            other => panic!("advisory lock of kind {other}"),
        };
        Self {
            lock,
            shared: mode == "ShareLock",
            granted,
            pid,
        }
    }
}
