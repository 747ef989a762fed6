//! The metric catalogue: name, kind, unit, help and labels of every metric that is recorded so far.
//!
//! Nothing else in the server knows a metric's name. Label values are enums, so that no request can
//! make a series (ARC-099). The recorder belongs to one server and not to the process: tests run
//! many servers side by side.

use std::fmt::{self, Write as _};
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

/// Declares the closed set of values of one label, and how each is written.
macro_rules! label {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$value_doc])* $value,)+
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
                encoder.write_str(match self {
                    $(Self::$value => $text,)+
                })
            }
        }
    };
}

label! {
    /// How an input position of a publish ended.
    Outcome {
        /// A new row.
        Stored = "stored",
        /// Answered from a row that existed, or from an earlier position of the same request.
        Duplicate = "duplicate",
        /// The request failed.
        Rejected = "rejected",
    }
}

label! {
    /// Why validation rejected a publish: the names of the public enum.
    Rejection {
        /// A payload that cannot be parsed.
        MalformedPayload = "REASON_MALFORMED_PAYLOAD",
        /// A key package that is not valid now.
        InvalidKeyPackage = "REASON_INVALID_KEY_PACKAGE",
        /// An identity update that does not apply.
        InvalidIdentityUpdate = "REASON_INVALID_IDENTITY_UPDATE",
        /// A signature that does not verify.
        InvalidSignature = "REASON_INVALID_SIGNATURE",
        /// A bound on size or number.
        TooLarge = "REASON_TOO_LARGE",
    }
}

impl From<envelope::Reason> for Rejection {
    fn from(reason: envelope::Reason) -> Self {
        match reason {
            envelope::Reason::MalformedPayload => Self::MalformedPayload,
            envelope::Reason::InvalidKeyPackage => Self::InvalidKeyPackage,
            envelope::Reason::InvalidIdentityUpdate => Self::InvalidIdentityUpdate,
            envelope::Reason::InvalidSignature => Self::InvalidSignature,
            envelope::Reason::TooLarge => Self::TooLarge,
        }
    }
}

label! {
    /// What kind of database failure became a status.
    DatabaseFailure {
        /// A bound on time.
        Timeout = "timeout",
        /// A broken promise of storage (ARC-034).
        Invariant = "invariant",
        /// Unreachable, or out of room.
        Connection = "connection",
        /// Anything else.
        Other = "other",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: Rejection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: DatabaseFailure,
}

/// Every metric of one server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    publish_envelopes: Family<OutcomeLabel, Counter>,
    publish_rejections: Family<ReasonLabel, Counter>,
    database_errors: Family<KindLabel, Counter>,
    released_open_transactions: Counter,
    ready: Gauge<u64, AtomicU64>,
}

impl Metrics {
    /// Registers the catalogue. Readiness starts at zero (ARC-098).
    #[must_use]
    pub fn new(version: &str) -> Self {
        let mut registry = Registry::default();
        let metrics = Self {
            publish_envelopes: Family::default(),
            publish_rejections: Family::default(),
            database_errors: Family::default(),
            released_open_transactions: Counter::default(),
            ready: Gauge::default(),
            registry: Registry::default(),
        };
        // The library appends `_total` to counters, `_info` to infos and a full stop to help texts.
        registry.register(
            "xmtp_db_released_open_transactions",
            "Open transactions rolled back on pool release",
            metrics.released_open_transactions.clone(),
        );
        registry.register(
            "xmtp_db_errors",
            "Database errors mapped to RPC statuses",
            metrics.database_errors.clone(),
        );
        registry.register(
            "xmtp_publish_envelopes",
            "Publish input positions by response origin",
            metrics.publish_envelopes.clone(),
        );
        registry.register(
            "xmtp_publish_rejections",
            "Rejected publishes by validation reason",
            metrics.publish_rejections.clone(),
        );
        registry.register(
            "xmtp_backend_ready",
            "Whether the backend reports Serving",
            metrics.ready.clone(),
        );
        registry.register(
            "xmtp_backend",
            "Backend build version",
            Info::new([("version", version.to_owned())]),
        );
        Self {
            registry,
            ..metrics
        }
    }

    /// Counts input positions of a publish that ended the same way.
    pub fn published(&self, outcome: Outcome, positions: usize) {
        self.publish_envelopes
            .get_or_create(&OutcomeLabel { outcome })
            .inc_by(u64::try_from(positions).unwrap_or(u64::MAX));
    }

    /// Counts a publish that validation rejected.
    pub fn rejected(&self, reason: Rejection) {
        self.publish_rejections
            .get_or_create(&ReasonLabel { reason })
            .inc();
    }

    /// Counts a database failure that became a status.
    pub fn database_failed(&self, kind: DatabaseFailure) {
        self.database_errors
            .get_or_create(&KindLabel { kind })
            .inc();
    }

    /// Counts a connection that came back to its pool inside a transaction (ARC-060).
    pub fn released_open_transaction(&self) {
        self.released_open_transactions.inc();
    }

    /// Says whether the server reports `SERVING`.
    pub fn ready(&self, ready: bool) {
        self.ready.set(ready.into());
    }

    /// The text exposition of all metrics.
    #[must_use]
    pub fn exposition(&self) -> String {
        let mut text = String::new();
        if prometheus_client::encoding::text::encode(&mut text, &self.registry).is_err() {
            // Writing to a string cannot fail; a metric that will not encode is left to the reader.
            let _ = writeln!(text, "# incomplete");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names as dashboards know them: every suffix exactly once.
    #[test]
    fn names_carry_each_suffix_once() {
        let metrics = Metrics::new("1.2.3");
        metrics.published(Outcome::Stored, 2);
        metrics.rejected(Rejection::TooLarge);
        metrics.database_failed(DatabaseFailure::Invariant);
        metrics.released_open_transaction();
        let text = metrics.exposition();
        for line in [
            "xmtp_publish_envelopes_total{outcome=\"stored\"} 2",
            "xmtp_publish_rejections_total{reason=\"REASON_TOO_LARGE\"} 1",
            "xmtp_db_errors_total{kind=\"invariant\"} 1",
            "xmtp_db_released_open_transactions_total 1",
            "xmtp_backend_ready 0",
            "xmtp_backend_info{version=\"1.2.3\"} 1",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line} is missing from\n{text}"
            );
        }
    }
}
