//! The transaction of a publish: locks, bounds, and an end on every path.

use std::sync::Arc;

use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, Postgres};
use tracing::{Instrument as _, info_span};

use super::locks::publish_locks;
use super::pools::Leased;
use super::{Database, Error, Operation, SqlState};

/// A publish between its first lock and its commit.
///
/// PostgreSQL bounds its life by itself (ARC-051). Dropping it closes the connection instead of
/// returning it to the pool: the server then rolls back, within a second even when a statement is
/// still waiting for a lock, and nothing can be committed later by mistake.
#[derive(Debug)]
pub struct PublishTransaction {
    connection: Leased,
}

impl PublishTransaction {
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        self.connection.connection()
    }

    /// Ends the transaction and keeps its rows.
    ///
    /// # Errors
    ///
    /// Any [`Error`]. A failed commit says nothing about what was stored (ARC-003).
    pub async fn commit(self) -> Result<(), Error> {
        self.end("COMMIT").await
    }

    /// Ends the transaction and drops its rows.
    ///
    /// # Errors
    ///
    /// Any [`Error`]; the rows are gone all the same.
    pub async fn rollback(self) -> Result<(), Error> {
        self.end("ROLLBACK").await
    }

    /// Only a transaction whose end the server confirmed gives its connection back.
    async fn end(mut self, statement: &'static str) -> Result<(), Error> {
        self.connection().execute(statement).await?;
        self.connection.give_back();
        Ok(())
    }
}

impl Database {
    /// Runs a publish, from its first lock to its commit, within its lifetime (ARC-051).
    ///
    /// PostgreSQL enforces the same bound on its side; this one also covers a server that no
    /// longer answers.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] when the time is up, else what `publish` returns.
    pub async fn within_publish_lifetime<T>(
        &self,
        publish: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let elapsed = || Error::Timeout {
            state: SqlState::NONE,
        };
        tokio::time::timeout(self.max_publish_duration, publish)
            .await
            .unwrap_or_else(|_| Err(elapsed()))
    }

    /// Takes a connection to the primary for one publish.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] when none is free in time.
    pub async fn publish_session(&self) -> Result<PublishSession, Error> {
        let connection = self.acquire(Operation::Publish).await?;
        Ok(PublishSession {
            connection,
            begin: Arc::clone(&self.begin_publish),
        })
    }
}

/// A connection that serves one publish, outside any transaction.
///
/// It must not be held while a chain is asked (ARC-011).
#[derive(Debug)]
pub struct PublishSession {
    connection: PoolConnection<Postgres>,
    /// The statements that begin its transaction, up to the locks.
    begin: Arc<str>,
}

impl PublishSession {
    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.connection
    }

    /// Begins the transaction and takes its locks: identity if asked for, then the topics, then the
    /// shared allocation barrier (ARC-031, ARC-032, ARC-039).
    ///
    /// Later statements see everything that earlier holders of these locks committed (ARC-036).
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] when a lock is not free in time, else any [`Error`].
    pub async fn begin<'a>(
        self,
        identity: bool,
        topics: impl ExactSizeIterator<Item = &'a [u8]>,
    ) -> Result<PublishTransaction, Error> {
        let span = info_span!("publish.locks", topics = topics.len());
        let begin = format!("{}; {}", self.begin, publish_locks(identity, topics));
        // From here on, whatever ends this future before the transaction has ended closes the
        // connection.
        let mut transaction = PublishTransaction {
            connection: Leased::to_close(self.connection),
        };
        transaction
            .connection()
            .execute(sqlx::raw_sql(AssertSqlSafe(begin)))
            .instrument(span)
            .await?;
        Ok(transaction)
    }
}
