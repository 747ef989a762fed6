//! The `[retention]` table: how long messages are kept (ARC-102).
//!
//! Identity updates, commit-log entries, commits and proposals never expire; no key can change
//! that. Periods are seconds here and become nanoseconds only where an expiry is computed.

use super::error::Error;
use super::key::{Rule, defaults, integer, section};

/// Most seconds whose nanoseconds fit a signed 64-bit integer.
const SECONDS_MAX: i64 = i64::MAX / NANOS_PER_SECOND;
/// Nanoseconds of one second.
const NANOS_PER_SECOND: i64 = 1_000_000_000;
/// Ninety days.
const DEFAULT_SECONDS: i64 = 90 * 24 * 60 * 60;

section! {
    /// How long messages are kept.
    pub struct Retention {
        /// Seconds that a group message is kept. Commits and proposals are exempt.
        "group_message_seconds" => group_message_seconds: u64 = period();
        /// Seconds that a welcome message is kept.
        "welcome_seconds" => welcome_seconds: u64 = period();
        /// Seconds that a key package is kept.
        "key_package_seconds" => key_package_seconds: u64 = period();
    }
}

impl Default for Retention {
    fn default() -> Self {
        defaults()
    }
}

impl Retention {
    /// Checks that a message stored now would expire at a timestamp that can be stored.
    ///
    /// `primary_clock_ns` is the clock of the primary database in nanoseconds since the Unix epoch,
    /// not the clock of this host. Later writes keep their own checked arithmetic, because the
    /// clock moves on (ARC-102).
    ///
    /// # Errors
    /// [`Error::Expiry`] with the first key whose period does not fit.
    pub fn check(&self, primary_clock_ns: i64) -> Result<(), Error> {
        let periods = [
            (
                "retention.group_message_seconds",
                self.group_message_seconds,
            ),
            ("retention.welcome_seconds", self.welcome_seconds),
            ("retention.key_package_seconds", self.key_package_seconds),
        ];
        for (key, seconds) in periods {
            i64::try_from(seconds)
                .ok()
                .and_then(|seconds| seconds.checked_mul(NANOS_PER_SECOND))
                .and_then(|period_ns| primary_clock_ns.checked_add(period_ns))
                .ok_or(Error::Expiry { key })?;
        }
        Ok(())
    }
}

fn period() -> Rule<u64> {
    integer(1, SECONDS_MAX).or(DEFAULT_SECONDS)
}
