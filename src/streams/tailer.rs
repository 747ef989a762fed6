//! The tailer: polls the log, and leaves every new row with the sessions that follow its topic
//! (ARC-037, ARC-070, ARC-071).
//!
//! It reads only, never waits for a session, and gives up its whole state rather than a row.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use envelope::Topic;
use gapless::{Id, Limits, Next, Start, State};
use tokio::time::{Instant, sleep};
use tracing::{Instrument as _, field, info, info_span, warn};

use super::boundary::Requests;
use super::end::End;
use super::fetch::delivery;
use super::frame::Delivery;
use super::generation::Generation;
use crate::db::{self, Database, LogPage, LogRow, SequenceId, ServerIdentity, Tail};
use crate::metrics::{Metrics, PollResult};

/// Rows of each scan of a page.
const PAGE_ROWS: NonZeroU16 = NonZeroU16::new(1024).expect("not zero");

/// Payload bytes that one statement loads.
const BATCH_BYTES: u64 = 16 * 1024 * 1024;

/// How often a statement that was cancelled is repeated: by a timeout, or by replay on a standby. It
/// changed nothing.
const REPEATS: usize = 2;

/// How often the log says that the read database is still behind.
const PROGRESS: Duration = Duration::from_secs(10);

/// Why a generation ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// The connection or the reads of the tailer.
    #[error("the tailer's reads failed: {0}")]
    Read(db::Error),
    /// The boundary task.
    #[error("the boundary task failed: {0}")]
    Boundary(db::Error),
    /// Another server answers, or the same one after a restart or promotion.
    #[error("the read database is another server than before")]
    OtherServer,
    /// More gaps than may be remembered.
    #[error("there are {ranges} unresolved gaps, more than the {max} that may be tracked")]
    TooManyGaps {
        /// Their number.
        ranges: usize,
        /// The bound.
        max: usize,
    },
    /// What was read cannot be.
    #[error("the log contradicts itself: {0}")]
    Contradiction(gapless::Contradiction),
}

impl Failure {
    /// How the streams of the generation end.
    pub(super) fn end(&self) -> End {
        match self {
            Self::Read(_) | Self::OtherServer | Self::Contradiction(_) => End::Recovery,
            Self::Boundary(_) => End::Database,
            Self::TooManyGaps { .. } => End::TooManyGaps,
        }
    }
}

impl From<gapless::Error> for Failure {
    fn from(error: gapless::Error) -> Self {
        match error {
            gapless::Error::Capacity { ranges, ranges_max } => Self::TooManyGaps {
                ranges,
                max: ranges_max,
            },
            gapless::Error::Contradiction(contradiction) => Self::Contradiction(contradiction),
        }
    }
}

/// How a tailer is set up.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// Time between two polls.
    pub(super) poll_interval: Duration,
    /// Most gap ranges between two pages.
    pub(super) max_gap_ranges: usize,
}

/// A tailer that found its start.
#[derive(Debug)]
pub(super) struct Tailer {
    tail: Tail,
    state: State,
    server: ServerIdentity,
    settings: Settings,
    metrics: Arc<Metrics>,
}

impl Tailer {
    /// Connects, and waits until the read database shows the boundary that the primary closed: rows
    /// up to there are history, the rows above are the tailer's (ARC-041). A replica that was
    /// promoted is waited for in vain: it would show none of them.
    pub(super) async fn start(
        database: &Database,
        closed: Id,
        settings: Settings,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Failure> {
        let mut tail = database.tail().await.map_err(Failure::Read)?;
        let start = Start::after(closed);
        let limits = Limits {
            page_rows: PAGE_ROWS,
            ranges_max: settings.max_gap_ranges,
        };
        let mut server = None;
        let mut progress = None;
        loop {
            let visible = tail.visible_boundary().await.map_err(Failure::Read)?;
            if *server.get_or_insert(visible.server) != visible.server {
                return Err(Failure::OtherServer);
            }
            let keeps_up = database.keeps_up(&visible).await.map_err(Failure::Read)?;
            let state = start.observe(visible.boundary, limits);
            if keeps_up && let Some(state) = state {
                if progress.is_some() {
                    info!("the read database shows the boundary");
                }
                return Ok(Self {
                    tail,
                    state,
                    server: visible.server,
                    settings,
                    metrics,
                });
            }
            let now = Instant::now();
            if progress.is_none_or(|next| now >= next) {
                if keeps_up {
                    info!("waiting for the read database to show the boundary");
                } else {
                    warn!("the replica neither is the primary nor follows one: no streams");
                }
                progress = Some(now + PROGRESS);
            }
            sleep(settings.poll_interval).await;
        }
    }

    /// The server it reads from.
    pub(super) fn server(&self) -> ServerIdentity {
        self.server
    }

    /// Polls until something fails.
    pub(super) async fn run(&mut self, generation: &Generation, boundary: &Requests) -> Failure {
        loop {
            let span = info_span!("tailer.poll", rows = field::Empty, gaps = field::Empty);
            let polled = self.poll(generation, boundary).instrument(span).await;
            self.metrics.tailer_polled(match &polled {
                Ok(()) => PollResult::Ok,
                Err(_) => PollResult::Error,
            });
            if let Err(failure) = polled {
                return failure;
            }
            sleep(self.settings.poll_interval).await;
        }
    }

    /// Reads pages until there is nothing more.
    async fn poll(&mut self, generation: &Generation, boundary: &Requests) -> Result<(), Failure> {
        let mut rows = 0;
        loop {
            let LogPage { server, page } = self.page().await?;
            if server != self.server {
                return Err(Failure::OtherServer);
            }
            rows += page.probe.len() + page.forward.len();
            self.metrics
                .tailer_read(page.forward.len(), page.probe.len());
            let outcome = self.state.apply(page)?;
            self.metrics.tailer_gaps(self.state.missing_ranges());
            self.deliver(generation, outcome.deliver).await?;
            if let Some(id) = outcome.want_boundary {
                boundary.ask(id);
            }
            if outcome.next == Next::Wait {
                break;
            }
        }
        tracing::Span::current()
            .record("rows", rows)
            .record("gaps", self.state.missing_ranges());
        Ok(())
    }

    async fn page(&mut self) -> Result<LogPage, Failure> {
        let mut repeats = 0;
        loop {
            match self.tail.page(self.state.plan()).await {
                Ok(page) => return Ok(page),
                Err(error) if repeats < REPEATS && error.was_cancelled() => repeats += 1,
                Err(error) => return Err(Failure::Read(error)),
            }
        }
    }

    /// Loads the payloads that somebody wants, in id order, and hands them out.
    ///
    /// A topic that is registered after this looked is read by its session: the head read comes
    /// later, and shows what this page showed (ARC-076).
    async fn deliver(&mut self, generation: &Generation, rows: Vec<LogRow>) -> Result<(), Failure> {
        let topics: Vec<Option<Topic>> = rows
            .iter()
            .map(|row| Topic::parse(&row.topic).ok())
            .collect();
        let followed = generation.registry.followed(&topics);
        let wanted: Vec<(Topic, SequenceId, u64)> = rows
            .iter()
            .zip(topics)
            .zip(followed)
            .filter(|(_, followed)| *followed)
            .filter_map(|((row, topic), _)| Some((topic?, row.sequence_id, row.bytes)))
            .collect();

        let mut rest = wanted.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0_u64;
            let more = rest
                .iter()
                .take_while(|(_, _, row_bytes)| {
                    bytes = bytes.saturating_add(*row_bytes);
                    bytes <= BATCH_BYTES
                })
                .count();
            // A row beyond the bound goes alone.
            let (batch, later) = rest.split_at(more.max(1));
            rest = later;
            let deliveries = self.load(batch).await?;
            generation.registry.dispatch(&deliveries);
        }
        Ok(())
    }

    async fn load(
        &mut self,
        batch: &[(Topic, SequenceId, u64)],
    ) -> Result<Vec<(Topic, Arc<Delivery>)>, Failure> {
        let ids: Vec<SequenceId> = batch.iter().map(|(_, id, _)| *id).collect();
        let mut repeats = 0;
        let envelopes = loop {
            match self.tail.envelopes(&ids).await {
                Ok(envelopes) => break envelopes,
                Err(error) if repeats < REPEATS && error.was_cancelled() => repeats += 1,
                Err(error) => return Err(Failure::Read(error)),
            }
        };
        let deliveries = batch
            .iter()
            .zip(envelopes)
            .map(|((topic, _, _), envelope)| {
                let bytes = Bytes::copy_from_slice(topic.as_bytes());
                (*topic, Arc::new(delivery(bytes, envelope)))
            });
        Ok(deliveries.collect())
    }

    /// Gives the connection back to the server.
    pub(super) async fn close(self) {
        self.tail.close().await;
    }
}
