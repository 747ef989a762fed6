//! The `[server]` table: identity of the deployment, its listener and its log.

use std::net::SocketAddr;
use std::time::Duration;

use semver::Version;

use super::form;
use super::key::{UNBOUNDED, millis, section, switch, text};

/// Most bytes of an identifier.
const IDENTIFIER_BYTES_MAX: u32 = 256;

section! {
    /// Identity of the deployment, its listener and its log.
    pub struct Server {
        /// Name of this deployment, by convention reverse-DNS: 1 to 256 bytes without whitespace
        /// and control characters. Published to clients, whose databases bind to it: it must never
        /// change once a client has connected.
        "identifier" => identifier: String = text(form::word(
            IDENTIFIER_BYTES_MAX,
            "1 to 256 bytes without whitespace and control characters",
        ));
        /// Lowest libxmtp version this deployment asks clients to have, a Semantic Versioning 2.0.0
        /// version. Published as written; clients compare major, minor and patch. Absent admits
        /// every version.
        "min_libxmtp_version" => min_libxmtp_version: Option<Version> =
            text(form::version()).optional();
        /// IP address and port of the plaintext gRPC listener (ARC-002).
        "listen" => listen: SocketAddr = text(form::address()).or("0.0.0.0:5050");
        /// Least severe level that is logged. The option `--log-level` overrides it.
        "log_level" => log_level: LogLevel =
            text(form::words(LogLevel::EXPECTED, &LogLevel::WORDS)).or("info");
        /// How log lines are written: `text`, or `json` with one object per line.
        "log_format" => log_format: LogFormat =
            text(form::words("text or json", &LogFormat::WORDS)).or("text");
        /// Whether every finished request logs one event at level `info`, long-lived streams
        /// included.
        "request_logger" => request_logger: bool = switch().or(true);
        /// How long shutdown waits for unary requests in flight, in milliseconds. Open streams end
        /// at once (ARC-003).
        "max_drain_duration_ms" => max_drain_duration: Duration = millis(UNBOUNDED).or(10_000);
    }
}

/// Least severe level that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Failures that need an operator.
    Error,
    /// What may need one.
    Warn,
    /// What happened.
    Info,
    /// How it happened.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// The words that name the levels.
    pub(super) const WORDS: [(&'static str, Self); 6] = [
        ("off", Self::Off),
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
    /// The words in a sentence of the document's errors.
    const EXPECTED: &'static str = "off, error, warn, info, debug or trace";
    /// The words in a sentence of the command line's errors.
    pub(super) const EXPECTED_ON_COMMAND_LINE: &'static str =
        "takes off, error, warn, info, debug or trace";

    /// The level a word names.
    pub(super) fn from_word(word: &str) -> Option<Self> {
        Self::WORDS
            .iter()
            .find(|(known, _)| *known == word)
            .map(|(_, level)| *level)
    }
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

impl LogFormat {
    const WORDS: [(&'static str, Self); 2] = [("text", Self::Text), ("json", Self::Json)];
}
