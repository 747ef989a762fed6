//! The server's sessions as PostgreSQL sees them: how a test ends one, and how it knows what one
//! waits for (ARC-041, ARC-070).

use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};

use super::{Replicated, TestDatabase, eventually};

/// The sessions of one purpose on one database.
#[derive(Debug)]
pub struct Sessions {
    pool: PgPool,
    name: String,
}

impl Sessions {
    /// Those of the tailers in this database.
    pub async fn of_tailers(database: &TestDatabase) -> Self {
        Self::of(database.pool().await, "tailer")
    }

    /// Those of the request pools in this database.
    pub async fn of_pools(database: &TestDatabase) -> Self {
        Self::of(database.pool().await, "pool")
    }

    /// Those of the tailers on the standby.
    pub async fn of_tailers_on_standby(replicated: &Replicated, database: &TestDatabase) -> Self {
        Self::of(standby(replicated, database).await, "tailer")
    }

    /// Those of the request pools on the standby.
    pub async fn of_pools_on_standby(replicated: &Replicated, database: &TestDatabase) -> Self {
        Self::of(standby(replicated, database).await, "pool")
    }

    fn of(pool: PgPool, purpose: &str) -> Self {
        Self {
            pool,
            name: format!("xmtp-backend {purpose}"),
        }
    }

    /// Their backends.
    pub async fn pids(&self) -> Vec<i32> {
        sqlx::query_scalar(
            "SELECT pid FROM pg_stat_activity
              WHERE datname = current_database() AND application_name = $1",
        )
        .bind(&self.name)
        .fetch_all(&self.pool)
        .await
        .expect("the activity can be read")
    }

    /// Ends every one that is there now, and returns when they are gone.
    pub async fn terminate(&self) {
        let pids = self.pids().await;
        assert!(!pids.is_empty(), "there is no session to end");
        sqlx::query("SELECT pg_terminate_backend(pid) FROM unnest($1) AS ended (pid)")
            .bind(&pids)
            .execute(&self.pool)
            .await
            .expect("a superuser may end sessions");
        eventually("the sessions are gone", async || {
            let left = self.pids().await;
            left.iter().all(|pid| !pids.contains(pid))
        })
        .await;
    }

    /// Statements that wait for a lock of this type (`relation`, `advisory`): the backend of each,
    /// and when its transaction began, in microseconds since the Unix epoch. The view reads the wait
    /// later than the statement, so it may show the wait of one statement with the start of the one
    /// before; the transaction is the same.
    pub async fn waiting(&self, lock_type: &str) -> Vec<(i32, i64)> {
        sqlx::query_as(
            "SELECT pid, (extract(epoch FROM xact_start) * 1000000)::bigint
               FROM pg_stat_activity
              WHERE datname = current_database() AND application_name = $1
                AND xact_start IS NOT NULL
                AND wait_event_type = 'Lock' AND wait_event = $2",
        )
        .bind(&self.name)
        .bind(lock_type)
        .fetch_all(&self.pool)
        .await
        .expect("the activity can be read")
    }

    /// Watches until statements that wait for a lock have begun so often, and answers their
    /// backends and beginnings in order.
    pub async fn until_waited(&self, lock_type: &str, times: usize) -> Vec<(i32, i64)> {
        let mut seen: Vec<(i32, i64)> = Vec::new();
        eventually("the statements wait for the lock", async || {
            for waiting in self.waiting(lock_type).await {
                if !seen.contains(&waiting) {
                    seen.push(waiting);
                }
            }
            seen.len() >= times
        })
        .await;
        seen
    }
}

async fn standby(replicated: &Replicated, database: &TestDatabase) -> PgPool {
    let url = replicated.standby_url(database);
    let pool = PgPoolOptions::new().connect(&url).await;
    pool.expect("the standby answers")
}

impl TestDatabase {
    /// A session in whose open transaction this statement has run. Dropping it rolls back.
    pub async fn within_transaction(&self, statement: &'static str) -> PgConnection {
        let mut connection = self.connection().await;
        sqlx::raw_sql("BEGIN")
            .execute(&mut connection)
            .await
            .expect("a healthy session");
        sqlx::raw_sql(statement)
            .execute(&mut connection)
            .await
            .expect("a statement of a test");
        connection
    }
}
