//! The metrics of streams, their tailer and the boundary task.

use std::fmt::{self, Write as _};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{DURATION_BUCKETS, Metrics};

label! {
    /// The two kinds of streams.
    StreamKind {
        /// `Subscribe`.
        Bidi = "bidi",
        /// `SubscribeStatic`.
        Static = "static",
    }
}

label! {
    /// A frame that a session sends.
    FrameKind {
        /// The first frame.
        Started = "started",
        /// The answer to an Update.
        Applied = "applied",
        /// Envelopes.
        Messages = "messages",
        /// A static stream's sign of life.
        Keepalive = "keepalive",
        /// A question for a sign of life.
        Ping = "ping",
        /// The answer to the client's question.
        Pong = "pong",
    }
}

label! {
    /// A frame that a session receives.
    ReceivedFrame {
        /// A change of interest.
        Update = "update",
        /// A question for a sign of life.
        Ping = "ping",
        /// The answer to the server's question.
        Pong = "pong",
    }
}

label! {
    /// Whether an envelope was there when its topic was registered.
    Phase {
        /// It was.
        CatchUp = "catch_up",
        /// It came later.
        Live = "live",
    }
}

label! {
    /// How an Update ended.
    UpdateOutcome {
        /// Answered.
        Applied = "applied",
        /// Refused for what it says.
        Invalid = "invalid",
        /// Refused for coming too soon.
        RateLimited = "rate_limited",
    }
}

label! {
    /// Why a registered session ended.
    StreamEnd {
        /// The client ended it or is gone.
        Client = "client",
        /// A frame or request that must not be.
        Invalid = "invalid",
        /// Too many frames.
        RateLimited = "rate_limited",
        /// The subscriber reads too slowly.
        Backpressure = "backpressure",
        /// State that cannot be retained.
        Capacity = "capacity",
        /// A Pong that did not come.
        Keepalive = "keepalive",
        /// A recovery generation ended.
        Tailer = "tailer",
        /// A read of the session, or the boundary task, failed.
        Database = "database",
        /// The server stops.
        Shutdown = "shutdown",
    }
}

label! {
    /// How a poll of the tailer ended.
    PollResult {
        /// Complete.
        Ok = "ok",
        /// It ended the generation.
        Error = "error",
    }
}

label! {
    /// How an attempt of the boundary task ended.
    BoundaryResult {
        /// The boundary is stored.
        Ok = "ok",
        /// Publishers held the barrier.
        LockTimeout = "lock_timeout",
        /// The database failed.
        Error = "error",
    }
}

label! {
    /// Which scan of the tailer read a row.
    RowSource {
        /// Above the cursor.
        Forward = "forward",
        /// Inside a gap.
        Gap = "gap",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: StreamKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FrameLabel {
    frame: FrameKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReceivedLabel {
    frame: ReceivedFrame,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabel {
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpdateLabel {
    outcome: UpdateOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabel {
    reason: StreamEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PollLabel {
    result: PollResult,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BoundaryLabel {
    result: BoundaryResult,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SourceLabel {
    source: RowSource,
}

/// The handles.
#[derive(Debug)]
pub(super) struct StreamMetrics {
    sessions: Family<KindLabel, Gauge>,
    topics: Gauge,
    frames_sent: Family<FrameLabel, Counter>,
    frames_received: Family<ReceivedLabel, Counter>,
    envelopes_sent: Family<PhaseLabel, Counter>,
    updates: Family<UpdateLabel, Counter>,
    ended: Family<EndLabel, Counter>,
    outbound_wait: Histogram,
    fetch_wait: Histogram,
    delivery_lag: Histogram,
    polls: Family<PollLabel, Counter>,
    rows: Family<SourceLabel, Counter>,
    gap_ranges: Gauge,
    restarts: Counter,
    tailer_ready: Gauge,
    boundary_advances: Family<BoundaryLabel, Counter>,
}

impl Default for StreamMetrics {
    fn default() -> Self {
        Self {
            sessions: Family::default(),
            topics: Gauge::default(),
            frames_sent: Family::default(),
            frames_received: Family::default(),
            envelopes_sent: Family::default(),
            updates: Family::default(),
            ended: Family::default(),
            outbound_wait: Histogram::new(DURATION_BUCKETS),
            fetch_wait: Histogram::new(DURATION_BUCKETS),
            delivery_lag: Histogram::new(DURATION_BUCKETS),
            polls: Family::default(),
            rows: Family::default(),
            gap_ranges: Gauge::default(),
            restarts: Counter::default(),
            tailer_ready: Gauge::default(),
            boundary_advances: Family::default(),
        }
    }
}

impl StreamMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        self.register_sessions(registry);
        registry.register(
            "xmtp_tailer_polls",
            "Tailer poll results",
            self.polls.clone(),
        );
        registry.register(
            "xmtp_tailer_rows",
            "Tailer rows read by source",
            self.rows.clone(),
        );
        registry.register(
            "xmtp_tailer_gap_ranges",
            "Unresolved tailer gap ranges",
            self.gap_ranges.clone(),
        );
        registry.register(
            "xmtp_tailer_restarts",
            "Tailer recovery generations started",
            self.restarts.clone(),
        );
        registry.register(
            "xmtp_tailer_ready",
            "Whether stream recovery is ready",
            self.tailer_ready.clone(),
        );
        registry.register(
            "xmtp_boundary_advances",
            "Allocation boundary advance results",
            self.boundary_advances.clone(),
        );
    }

    fn register_sessions(&self, registry: &mut Registry) {
        registry.register(
            "xmtp_stream_sessions",
            "Registered stream sessions",
            self.sessions.clone(),
        );
        registry.register(
            "xmtp_stream_topics_registered",
            "Registered stream topic interests",
            self.topics.clone(),
        );
        registry.register(
            "xmtp_stream_frames_sent",
            "Stream frames admitted to the outbound queue",
            self.frames_sent.clone(),
        );
        registry.register(
            "xmtp_stream_frames_received",
            "Stream frames received",
            self.frames_received.clone(),
        );
        registry.register(
            "xmtp_stream_envelopes_sent",
            "Stream envelopes admitted by delivery phase",
            self.envelopes_sent.clone(),
        );
        registry.register(
            "xmtp_stream_updates",
            "Stream interest update results",
            self.updates.clone(),
        );
        registry.register(
            "xmtp_stream_ended",
            "Stream sessions ended by reason",
            self.ended.clone(),
        );
        registry.register(
            "xmtp_stream_outbound_wait_seconds",
            "Time waiting for outbound capacity",
            self.outbound_wait.clone(),
        );
        registry.register(
            "xmtp_stream_fetch_wait_seconds",
            "Time waiting for a stream fetch permit",
            self.fetch_wait.clone(),
        );
        registry.register(
            "xmtp_stream_delivery_lag_seconds",
            "Live envelope age at outbound admission",
            self.delivery_lag.clone(),
        );
    }
}

impl Metrics {
    /// Counts a session that begins.
    pub fn stream_opened(&self, kind: StreamKind) {
        self.streams
            .sessions
            .get_or_create(&KindLabel { kind })
            .inc();
    }

    /// Counts a session that ended, once.
    pub fn stream_ended(&self, kind: StreamKind, reason: StreamEnd) {
        self.streams
            .sessions
            .get_or_create(&KindLabel { kind })
            .dec();
        self.streams.ended.get_or_create(&EndLabel { reason }).inc();
    }

    /// Counts topics that a session registered.
    pub fn topics_registered(&self, topics: usize) {
        self.streams.topics.inc_by(signed(topics));
    }

    /// Counts topics that a session has no longer.
    pub fn topics_deregistered(&self, topics: usize) {
        self.streams.topics.dec_by(signed(topics));
    }

    /// Counts a frame that was queued for a client.
    pub fn frame_sent(&self, frame: FrameKind) {
        self.streams
            .frames_sent
            .get_or_create(&FrameLabel { frame })
            .inc();
    }

    /// Counts a frame that a client sent.
    pub fn frame_received(&self, frame: ReceivedFrame) {
        self.streams
            .frames_received
            .get_or_create(&ReceivedLabel { frame })
            .inc();
    }

    /// Counts envelopes of a frame that was queued.
    pub fn envelopes_sent(&self, phase: Phase, envelopes: usize) {
        if envelopes > 0 {
            let label = PhaseLabel { phase };
            self.streams
                .envelopes_sent
                .get_or_create(&label)
                .inc_by(unsigned(envelopes));
        }
    }

    /// Counts an Update.
    pub fn stream_updated(&self, outcome: UpdateOutcome) {
        self.streams
            .updates
            .get_or_create(&UpdateLabel { outcome })
            .inc();
    }

    /// Measures a wait for room in an outbound queue.
    pub fn outbound_waited(&self, wait: Duration) {
        self.streams.outbound_wait.observe(wait.as_secs_f64());
    }

    /// Measures a wait for a fetch permit.
    pub fn stream_fetch_waited(&self, wait: Duration) {
        self.streams.fetch_wait.observe(wait.as_secs_f64());
    }

    /// Measures the age of a live envelope when it was queued.
    pub fn delivery_lagged(&self, lag: Duration) {
        self.streams.delivery_lag.observe(lag.as_secs_f64());
    }

    /// Counts a poll of the tailer.
    pub fn tailer_polled(&self, result: PollResult) {
        self.streams
            .polls
            .get_or_create(&PollLabel { result })
            .inc();
    }

    /// Counts rows that a page of the tailer showed.
    pub fn tailer_read(&self, forward: usize, gap: usize) {
        for (source, rows) in [(RowSource::Forward, forward), (RowSource::Gap, gap)] {
            let label = SourceLabel { source };
            self.streams
                .rows
                .get_or_create(&label)
                .inc_by(unsigned(rows));
        }
    }

    /// Says how many gap ranges the tailer tracks.
    pub fn tailer_gaps(&self, ranges: usize) {
        self.streams.gap_ranges.set(signed(ranges));
    }

    /// Counts a recovery generation that starts.
    pub fn tailer_restarted(&self) {
        self.streams.restarts.inc();
    }

    /// Says whether streams are admitted.
    pub fn tailer_ready(&self, ready: bool) {
        self.streams.tailer_ready.set(ready.into());
    }

    /// Counts an attempt of the boundary task.
    pub fn boundary_attempted(&self, result: BoundaryResult) {
        self.streams
            .boundary_advances
            .get_or_create(&BoundaryLabel { result })
            .inc();
    }
}

fn unsigned(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
