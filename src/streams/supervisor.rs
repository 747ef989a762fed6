//! Generations, one after the other: start, serve, fail, start again (ARC-041, ARC-082).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, error, info, info_span, warn};

use super::boundary::{Boundary, Requests};
use super::end::End;
use super::generation::Generation;
use super::tailer::{Failure, Settings, Tailer};
use crate::db::Database;
use crate::metrics::Metrics;

/// Wait before a generation whose predecessor did not start, or did not live long; doubled for each
/// further one. The first one after a long life starts at once.
const MIN_BACKOFF: Duration = Duration::from_millis(100);

/// The longest such wait, and what counts as a long life.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// A generation that streams may join, and its tailer.
#[derive(Debug)]
pub(super) struct Started {
    tailer: Tailer,
    generation: Arc<Generation>,
}

/// Keeps a generation alive.
#[derive(Debug)]
pub(super) struct Supervisor {
    database: Database,
    settings: Settings,
    metrics: Arc<Metrics>,
    boundary: Boundary,
    requests: Requests,
    current: watch::Sender<Option<Arc<Generation>>>,
    stop: CancellationToken,
    number: u64,
    /// Wait before the next start.
    backoff: Option<Duration>,
}

impl Supervisor {
    /// A supervisor that shows the generation which streams may join through `current`.
    pub(super) fn new(
        database: Database,
        settings: Settings,
        metrics: Arc<Metrics>,
        current: watch::Sender<Option<Arc<Generation>>>,
        stop: CancellationToken,
    ) -> Self {
        let (boundary, requests) = Boundary::new(
            database.clone(),
            Arc::clone(&metrics),
            settings.poll_interval,
        );
        Self {
            database,
            settings,
            metrics,
            boundary,
            requests,
            current,
            stop,
            number: 0,
            backoff: None,
        }
    }

    /// Starts a generation: closes the log on the primary, and waits until the read database shows
    /// that. Streams may join when this returns.
    pub(super) async fn start(&mut self) -> Result<Started, Failure> {
        self.number += 1;
        self.metrics.tailer_restarted();
        let span = info_span!("tailer.bootstrap", generation = self.number);
        let tailer = async {
            let closed = self.boundary.close().await.map_err(Failure::Boundary)?;
            let settings = self.settings.clone();
            Tailer::start(&self.database, closed, settings, Arc::clone(&self.metrics)).await
        };
        let tailer = tailer.instrument(span).await?;
        let generation = Arc::new(Generation::new(tailer.server()));
        self.current.send_replace(Some(Arc::clone(&generation)));
        self.metrics.tailer_ready(true);
        info!(generation = self.number, "streams are ready");
        Ok(Started { tailer, generation })
    }

    /// Serves generations, the first of which has started, until it is told to stop.
    pub(super) async fn run(mut self, first: Started) {
        let mut next = Some(first);
        while let Some(started) = next {
            let stop = self.stop.clone();
            let began = Instant::now();
            if stop
                .run_until_cancelled(self.serve(started))
                .await
                .is_none()
            {
                self.retire(End::Shutdown);
                return;
            }
            if began.elapsed() >= MAX_BACKOFF {
                self.backoff = None;
            }
            next = self.recover().await;
        }
    }

    /// Ends the generation that streams may join, and all its streams.
    fn retire(&self, end: End) {
        let generation = self.current.send_replace(None);
        self.metrics.tailer_ready(false);
        self.metrics.tailer_gaps(0);
        if let Some(generation) = generation {
            generation.end(end);
        }
    }

    /// One generation, until it fails.
    async fn serve(&mut self, started: Started) {
        let Started {
            mut tailer,
            generation,
        } = started;
        let failure = tokio::select! {
            failure = tailer.run(&generation, &self.requests) => failure,
            error = self.boundary.serve() => Failure::Boundary(error),
            // A session read from another server.
            () = generation.over() => Failure::OtherServer,
        };
        self.retire(failure.end());
        report(&failure, &self.metrics);
        tailer.close().await;
    }

    /// The next generation, or `None` when it is time to stop.
    async fn recover(&mut self) -> Option<Started> {
        let stop = self.stop.clone();
        loop {
            if let Some(backoff) = self.backoff {
                stop.run_until_cancelled(sleep(backoff)).await?;
            }
            self.backoff = Some(
                self.backoff
                    .map_or(MIN_BACKOFF, |backoff| (backoff * 2).min(MAX_BACKOFF)),
            );
            warn!(generation = self.number + 1, "stream recovery starts");
            match stop.run_until_cancelled(self.start()).await? {
                Ok(started) => return Some(started),
                Err(failure) => report(&failure, &self.metrics),
            }
        }
    }
}

impl Drop for Supervisor {
    /// However the supervisor ends, no stream outlives it.
    fn drop(&mut self) {
        self.retire(End::Recovery);
    }
}

/// Says once why a generation ended or did not start.
fn report(failure: &Failure, metrics: &Metrics) {
    match failure {
        Failure::Read(error) | Failure::Boundary(error) => {
            metrics.database_failed(error.kind().into());
            warn!(state = %error.sql_state(), "{failure}");
        }
        Failure::OtherServer | Failure::TooManyGaps { .. } => warn!("{failure}"),
        Failure::Contradiction(_) => error!("{failure}"),
    }
}
