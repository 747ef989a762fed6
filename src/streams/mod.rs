//! Live subscriptions: every envelope above a cursor, in order, once, or a stream that says that it
//! failed (ARC-070 to ARC-088).
//!
//! ```text
//! boundary    on the primary: closes the log, so that missing ids can be given up
//! tailer      polls the read database; one snapshot per page, through `gapless`
//! registry    who follows which topic; never waits for a session
//! inbox       what a session has yet to look at: live rows, or only how far it is behind
//! session     one per stream: interests, turns of history, live rows, keepalive
//! outbound    frames and their bytes, bounded, until the transport takes them
//! ```
//!
//! A supervisor runs boundary and tailer as one generation. When either fails, all streams of the
//! generation end and clients come back with their own cursors: no state outlives its proof.
//!
//! This room knows neither messages nor statuses; the API room turns frames into them.

mod boundary;
mod bucket;
mod end;
mod fetch;
mod frame;
mod generation;
mod inbox;
mod interests;
mod outbound;
mod registry;
mod session;
mod supervisor;
mod tailer;
mod turn;
mod update;

use std::sync::Arc;

use futures_util::{Stream, stream};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{Instrument as _, Span, error, warn};

use self::fetch::Fetcher;
use self::generation::Generation;
use self::session::{Session, Shared};
use self::supervisor::Supervisor;
use self::tailer::Failure;
use self::turn::frame_bytes;
use self::update::check_static;
use crate::clock::Clock;
use crate::config::{self, Limits};
use crate::db::{self, Database, ErrorKind};
use crate::metrics::{Metrics, StreamKind};

pub use self::end::{End, Invalid, Refusal};
pub use self::frame::{Add, ClientFrame, Delivery, Frame, Target, Update};
pub use self::outbound::Frames;

/// What streams are made of.
#[derive(Clone, Debug)]
pub struct Parts {
    /// What they read.
    pub database: Database,
    /// Connections of a request pool; half of them may read history.
    pub max_connections: u32,
    /// Timing and recovery.
    pub settings: config::Streams,
    /// Bounds on requests and frames.
    pub limits: Limits,
    /// Measures how late live envelopes are.
    pub clock: Clock,
    /// Counts.
    pub metrics: Arc<Metrics>,
}

/// Opens streams.
#[derive(Clone, Debug)]
pub struct Streams {
    shared: Arc<Shared>,
    current: watch::Receiver<Option<Arc<Generation>>>,
    stop: CancellationToken,
}

impl Streams {
    /// Starts the boundary task and the tailer, and waits until both have shown that streams can be
    /// served (ARC-041). The future is the supervisor of both: it must run for as long as streams
    /// are served, and ends after [`stop`](Self::stop).
    ///
    /// # Errors
    ///
    /// A failure of either database. Waiting for a lock or for replay is none.
    pub async fn start(
        parts: Parts,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static), db::Error> {
        let Parts {
            database,
            max_connections,
            settings,
            limits,
            clock,
            metrics,
        } = parts;
        let stop = CancellationToken::new();
        let (show, current) = watch::channel(None);
        let tailer_settings = tailer::Settings {
            poll_interval: settings.poll_interval,
            max_gap_ranges: usize::try_from(settings.max_gap_ranges).unwrap_or(usize::MAX),
        };
        let mut supervisor = Supervisor::new(
            database.clone(),
            tailer_settings,
            Arc::clone(&metrics),
            show,
            stop.clone(),
        );
        let first = supervisor.start().await.map_err(|failure| match failure {
            Failure::Read(error) | Failure::Boundary(error) => error,
            // Nothing was polled yet; what else can fail is a server that changed under the start.
            Failure::OtherServer | Failure::TooManyGaps { .. } | Failure::Contradiction(_) => {
                db::Error::Unavailable {
                    state: db::SqlState::NONE,
                }
            }
        })?;
        let permits = usize::try_from(max_connections / 2).unwrap_or(1).max(1);
        let shared = Shared {
            fetcher: Arc::new(Fetcher {
                database,
                permits: Semaphore::new(permits),
                frame_bytes: frame_bytes(limits.max_response_bytes),
                metrics: Arc::clone(&metrics),
            }),
            limits,
            keepalive_interval: settings.keepalive_interval,
            max_pong_wait: settings.max_pong_wait,
            clock,
            metrics,
        };
        let streams = Self {
            shared: Arc::new(shared),
            current,
            stop,
        };
        Ok((streams, supervisor.run(first)))
    }

    /// Opens a bidirectional stream. It ends when `inbound` does.
    ///
    /// # Errors
    ///
    /// [`Refusal::Recovering`] or [`Refusal::ShuttingDown`].
    pub fn subscribe(
        &self,
        inbound: impl Stream<Item = ClientFrame> + Send + Unpin + 'static,
    ) -> Result<Frames, Refusal> {
        let generation = self.generation()?;
        let (mut session, frames) =
            Session::new(Arc::clone(&self.shared), generation, StreamKind::Bidi);
        if let Err(end) = session.open() {
            session.fail(end);
            return Err(Refusal::TooLarge);
        }
        tokio::spawn(session.run(inbound).instrument(Span::current()));
        Ok(frames)
    }

    /// Opens a static stream of these topics (ARC-084).
    ///
    /// # Errors
    ///
    /// Any [`Refusal`].
    pub async fn subscribe_static(&self, topics: Vec<Add>) -> Result<Frames, Refusal> {
        let adds = check_static(&topics, &self.shared.limits)?;
        let generation = self.generation()?;
        let (mut session, frames) = Session::new(
            Arc::clone(&self.shared),
            Arc::clone(&generation),
            StreamKind::Static,
        );
        let registrations = session.register(&adds);
        let bytes: Vec<&[u8]> = adds.iter().map(|(topic, _)| topic.as_bytes()).collect();
        let heads = self.shared.fetcher.heads(&bytes).await;
        let opened = session.open_static(registrations, heads);
        // A stream that is void before it began is refused rather than started.
        if let Err(end) = generation.why().map_or(opened, Err) {
            let refusal = refusal(&end);
            session.fail(end);
            return Err(refusal);
        }
        tokio::spawn(session.run(stream::pending()).instrument(Span::current()));
        Ok(frames)
    }

    /// Ends every stream and opens none from now on.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Calls [`stop`](Self::stop) when it is dropped.
    #[must_use]
    pub fn stop_on_drop(&self) -> DropGuard {
        self.stop.clone().drop_guard()
    }

    fn generation(&self) -> Result<Arc<Generation>, Refusal> {
        if self.stop.is_cancelled() {
            return Err(Refusal::ShuttingDown);
        }
        self.current.borrow().clone().ok_or(Refusal::Recovering)
    }
}

/// Why a stream is not opened that would end at once.
fn refusal(end: &End) -> Refusal {
    match end {
        End::Database => Refusal::Database,
        End::Shutdown => Refusal::ShuttingDown,
        End::TooLarge | End::TooSlow => Refusal::TooLarge,
        End::HalfClosed
        | End::Gone
        | End::Invalid(_)
        | End::Unreadable
        | End::TooManyUpdates
        | End::TooManyPings
        | End::TooManyGaps
        | End::NoPong
        | End::Recovery => Refusal::Recovering,
    }
}

/// Counts and logs a database failure that ends a stream, where it is handled.
fn report(error: &db::Error, metrics: &Metrics) {
    let state = error.sql_state();
    metrics.database_failed(error.kind().into());
    match error.kind() {
        ErrorKind::Timeout | ErrorKind::Connection => warn!(%state, "a stream ends: {error}"),
        ErrorKind::Invariant | ErrorKind::Other => error!(%state, "a stream ends: {error}"),
    }
}
