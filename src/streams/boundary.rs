//! The boundary task: evidence for the tailer that missing ids will never come (ARC-039, ARC-040).
//!
//! It runs on the primary, at once when a generation starts and later when somebody asks. However
//! many ask, one number is remembered, and attempts keep a distance, because each of them makes new
//! publishes wait behind it.

use std::sync::Arc;
use std::time::Duration;

use gapless::Id;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use crate::db::{self, Advance, Database};
use crate::metrics::{BoundaryResult, Metrics};

/// Asks for boundaries. Never waits.
#[derive(Debug)]
pub(super) struct Requests(watch::Sender<Id>);

impl Requests {
    /// Asks for a boundary at or above this id.
    pub(super) fn ask(&self, id: Id) {
        self.0.send_if_modified(|wanted| {
            let is_greater = id > *wanted;
            *wanted = id.max(*wanted);
            is_greater
        });
    }
}

/// Runs on the primary when asked.
#[derive(Debug)]
pub(super) struct Boundary {
    database: Database,
    metrics: Arc<Metrics>,
    interval: Duration,
    wanted: watch::Receiver<Id>,
    /// The boundary that is known to be stored.
    closed: Id,
    /// No attempt before this time.
    not_before: Instant,
}

impl Boundary {
    /// A task that keeps `interval` between two attempts.
    pub(super) fn new(
        database: Database,
        metrics: Arc<Metrics>,
        interval: Duration,
    ) -> (Self, Requests) {
        let (ask, wanted) = watch::channel(0);
        let boundary = Self {
            database,
            metrics,
            interval,
            wanted,
            closed: 0,
            not_before: Instant::now(),
        };
        (boundary, Requests(ask))
    }

    /// Closes the log as far as it goes now. Busy publishers only delay it.
    ///
    /// # Errors
    ///
    /// A failure of the database.
    pub(super) async fn close(&mut self) -> Result<Id, db::Error> {
        loop {
            sleep_until(self.not_before).await;
            if self.attempt().await? {
                return Ok(self.closed);
            }
        }
    }

    /// Serves requests until the database fails.
    pub(super) async fn serve(&mut self) -> db::Error {
        loop {
            if let Err(error) = self.serve_one().await {
                return error;
            }
        }
    }

    async fn serve_one(&mut self) -> Result<(), db::Error> {
        let closed = self.closed;
        if self
            .wanted
            .wait_for(|wanted| *wanted > closed)
            .await
            .is_err()
        {
            // Nobody is left to ask.
            std::future::pending::<()>().await;
        }
        sleep_until(self.not_before).await;
        // Another instance may have closed as much already; reading that makes nobody wait.
        let stored = self.database.stored_boundary().await;
        match stored {
            Ok(stored) if stored >= *self.wanted.borrow() => self.closed = stored,
            Ok(_) | Err(db::Error::Unavailable { .. }) => {
                self.attempt().await?;
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Tries once; tells whether the log was closed.
    async fn attempt(&mut self) -> Result<bool, db::Error> {
        let outcome = self.database.advance_boundary().await;
        let now = Instant::now();
        self.not_before = now + self.interval;
        match outcome {
            Ok(Advance::Closed(id)) => {
                self.closed = id;
                self.metrics.boundary_attempted(BoundaryResult::Ok);
                Ok(true)
            }
            Ok(Advance::LockTimeout { waited }) => {
                self.metrics.boundary_attempted(BoundaryResult::LockTimeout);
                warn!(
                    waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
                    "the allocation barrier was not free in time"
                );
                // For as long as the attempt stalled publishes, they now go undisturbed.
                self.not_before = now + self.interval.max(waited);
                Ok(false)
            }
            Ok(Advance::NoConnection) => {
                self.metrics.boundary_attempted(BoundaryResult::Error);
                warn!("the primary gave no connection for closing the log in time");
                Ok(false)
            }
            Err(error) => {
                self.metrics.boundary_attempted(BoundaryResult::Error);
                Err(error)
            }
        }
    }
}
