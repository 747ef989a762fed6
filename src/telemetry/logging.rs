//! Log lines on standard output (ARC-094).
//!
//! Events of HTTP, TLS and database libraries are capped at WARN whatever the level: at lower
//! levels they print headers, addresses and statements, which may hold secrets and request data.

use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::{SubscriberInitExt as _, TryInitError};
use tracing_subscriber::{Layer as _, fmt};

use crate::config::{LogFormat, LogLevel};

/// The crates whose own events follow the configured level.
const OWN_TARGETS: [&str; 3] = ["xmtp_backend", "envelope", "layers"];

/// The target of events that are written with their own fields alone, without those of the spans
/// around them.
pub const WITHOUT_SPANS: &str = "xmtp_backend::without_spans";

/// Starts logging for the whole process, until the guard is dropped.
///
/// Lines are written by a thread of their own. When whoever reads them falls too far behind, lines
/// are lost: a stalled reader must not stall the server.
///
/// # Errors
///
/// When the process logs already.
pub fn install(level: LogLevel, format: LogFormat) -> Result<WorkerGuard, TryInitError> {
    let (writer, guard) = tracing_appender::non_blocking(std::io::stdout());
    let level = filter(level);
    let targets = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_targets(OWN_TARGETS.map(|target| (target, level)))
        .with_target(WITHOUT_SPANS, LevelFilter::OFF);
    // A layer sees only the spans that its filter admits: this one sees none.
    let alone = Targets::new().with_target(WITHOUT_SPANS, level);
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stdout());
    let lines = || {
        let lines = fmt::layer().with_writer(writer.clone()).with_ansi(ansi);
        match format {
            LogFormat::Text => lines.boxed(),
            LogFormat::Json => lines.json().flatten_event(true).boxed(),
        }
    };
    tracing_subscriber::registry()
        .with(vec![
            lines().with_filter(targets),
            lines().with_filter(alone),
        ])
        .try_init()?;
    Ok(guard)
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
