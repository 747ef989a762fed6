//! Log lines on standard output (ARC-094).
//!
//! Events of HTTP, TLS and database libraries are capped at WARN whatever the level: at lower
//! levels they print headers, addresses and statements, which may hold secrets and request data.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{Layer as _, fmt};

/// The crates whose own events follow the configured level.
const OWN_TARGETS: [&str; 3] = ["xmtp_backend", "envelope", "layers"];

/// How verbose the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(LevelFilter);

impl Level {
    /// A level from the filter that stands for it.
    #[must_use]
    pub const fn new(filter: LevelFilter) -> Self {
        Self(filter)
    }
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Starts logging for the whole process.
///
/// # Errors
///
/// When the process logs already.
pub fn install(level: Level, format: Format) -> Result<(), TryInitError> {
    let level = level.0;
    let filter = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_targets(OWN_TARGETS.map(|target| (target, level)));
    let lines = fmt::layer().with_ansi(std::io::IsTerminal::is_terminal(&std::io::stdout()));
    let lines = match format {
        Format::Text => lines.boxed(),
        Format::Json => lines.json().flatten_event(true).boxed(),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .try_init()
}
