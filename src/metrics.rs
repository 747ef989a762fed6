//! The metric catalogue: name, kind, unit, help and labels of every metric that is recorded so far.
//!
//! Nothing else in the server knows a metric's name. Label values are enums, so that no request can
//! make a series (ARC-099). The recorder belongs to one server and not to the process: tests run
//! many servers side by side.

use std::fmt::{self, Write as _};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::rpc::Rpc;

use self::streams::StreamMetrics;
pub use self::streams::{
    BoundaryResult, FrameKind, Phase, PollResult, ReceivedFrame, RowSource, StreamEnd, StreamKind,
    UpdateOutcome,
};

/// Declares the closed set of values of one label, and how each is written.
macro_rules! label {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$value_doc])* $value,)+
        }

        impl $name {
            /// The value as it is written.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }
        }

        impl EncodeLabelValue for $name {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
                encoder.write_str(self.name())
            }
        }
    };
}

mod streams;

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

label! {
    /// Why authentication rejected a request.
    AuthRejection {
        /// No credential.
        Missing = "missing",
        /// A credential of another form.
        Malformed = "malformed",
        /// A token with another signature algorithm.
        UnsupportedAlgorithm = "unsupported_alg",
        /// A token or key that nobody here vouches for.
        Untrusted = "untrusted",
        /// A token that has ended.
        Expired = "expired",
        /// A token that has not begun.
        NotYetValid = "not_yet_valid",
        /// A token for others.
        Audience = "audience",
        /// A token of others.
        Issuer = "issuer",
        /// A token without a required scope.
        Scope = "scope",
    }
}

label! {
    /// How a refresh of the key set ended.
    RefreshResult {
        /// The set was replaced.
        Ok = "ok",
        /// The set was kept.
        Error = "error",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AuthRejectionLabel {
    reason: AuthRejection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefreshLabel {
    result: RefreshResult,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: Rejection,
}

label! {
    /// What became of a contract-wallet signature.
    VerificationResult {
        /// Its wallet accepts it.
        Valid = "valid",
        /// Its wallet does not.
        Invalid = "invalid",
        /// There is no verdict.
        Error = "error",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerificationLabel {
    result: VerificationResult,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: DatabaseFailure,
}

/// Upper bounds of the buckets of every duration, in seconds. One list, because dashboards add up
/// histograms by bucket.
const DURATION_BUCKETS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RpcLabels {
    grpc_method: &'static str,
    grpc_service: &'static str,
    grpc_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HandledLabels {
    grpc_code: &'static str,
    grpc_method: &'static str,
    grpc_service: &'static str,
    grpc_type: &'static str,
}

/// The metrics of one RPC, looked up once for each request.
#[derive(Debug)]
pub struct RpcMetrics {
    labels: RpcLabels,
    started: Counter,
    in_flight: Gauge,
    request_bytes: Counter,
    response_bytes: Counter,
}

impl RpcMetrics {
    /// Counts a request that arrived.
    pub fn started(&self) {
        self.started.inc();
        self.in_flight.inc();
    }

    /// Counts bytes of its body that were consumed.
    pub fn received(&self, bytes: u64) {
        self.request_bytes.inc_by(bytes);
    }

    /// Counts bytes of its response's body that were emitted.
    pub fn sent(&self, bytes: u64) {
        self.response_bytes.inc_by(bytes);
    }

    /// Counts its end, once. `code` is one of the seventeen status names.
    pub fn handled(&self, metrics: &Metrics, code: &'static str, elapsed: Duration) {
        let RpcLabels {
            grpc_method,
            grpc_service,
            grpc_type,
        } = self.labels;
        let labels = HandledLabels {
            grpc_code: code,
            grpc_method,
            grpc_service,
            grpc_type,
        };
        self.in_flight.dec();
        metrics.grpc_handled.get_or_create(&labels).inc();
        metrics
            .grpc_handling_seconds
            .get_or_create(&labels)
            .observe(elapsed.as_secs_f64());
    }
}

/// Every metric of one server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    streams: StreamMetrics,
    grpc_started: Family<RpcLabels, Counter>,
    grpc_handled: Family<HandledLabels, Counter>,
    grpc_handling_seconds: Family<HandledLabels, Histogram, fn() -> Histogram>,
    grpc_in_flight: Family<RpcLabels, Gauge>,
    grpc_request_bytes: Family<RpcLabels, Counter>,
    grpc_response_bytes: Family<RpcLabels, Counter>,
    publish_envelopes: Family<OutcomeLabel, Counter>,
    publish_rejections: Family<ReasonLabel, Counter>,
    verifications: Family<VerificationLabel, Counter>,
    database_errors: Family<KindLabel, Counter>,
    released_open_transactions: Counter,
    auth_rejections: Family<AuthRejectionLabel, Counter>,
    auth_refreshes: Family<RefreshLabel, Counter>,
    auth_keys: Gauge<u64, AtomicU64>,
    ready: Gauge<u64, AtomicU64>,
}

impl Metrics {
    /// Registers the catalogue. Readiness starts at zero (ARC-098).
    #[must_use]
    pub fn new(version: &str) -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            streams: StreamMetrics::default(),
            grpc_started: Family::default(),
            grpc_handled: Family::default(),
            grpc_handling_seconds: Family::new_with_constructor(|| {
                Histogram::new(DURATION_BUCKETS)
            }),
            grpc_in_flight: Family::default(),
            grpc_request_bytes: Family::default(),
            grpc_response_bytes: Family::default(),
            publish_envelopes: Family::default(),
            publish_rejections: Family::default(),
            verifications: Family::default(),
            database_errors: Family::default(),
            released_open_transactions: Counter::default(),
            auth_rejections: Family::default(),
            auth_refreshes: Family::default(),
            auth_keys: Gauge::default(),
            ready: Gauge::default(),
        };
        metrics.register(version);
        metrics
    }

    /// The library appends `_total` to counters, `_info` to infos and a full stop to help texts.
    fn register(&mut self, version: &str) {
        self.register_grpc();
        self.streams.register(&mut self.registry);
        self.register_auth();
        let registry = &mut self.registry;
        registry.register(
            "xmtp_db_released_open_transactions",
            "Open transactions rolled back on pool release",
            self.released_open_transactions.clone(),
        );
        registry.register(
            "xmtp_db_errors",
            "Database errors mapped to RPC statuses",
            self.database_errors.clone(),
        );
        registry.register(
            "xmtp_publish_envelopes",
            "Publish input positions by response origin",
            self.publish_envelopes.clone(),
        );
        registry.register(
            "xmtp_publish_rejections",
            "Rejected publishes by validation reason",
            self.publish_rejections.clone(),
        );
        registry.register(
            "xmtp_scw_verifications",
            "Smart contract wallet signature verifications by result",
            self.verifications.clone(),
        );
        registry.register(
            "xmtp_backend_ready",
            "Whether the backend reports Serving",
            self.ready.clone(),
        );
        registry.register(
            "xmtp_backend",
            "Backend build version",
            Info::new([("version", version.to_owned())]),
        );
    }

    fn register_grpc(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "grpc_server_started",
            "gRPC requests started",
            self.grpc_started.clone(),
        );
        registry.register(
            "grpc_server_handled",
            "gRPC requests completed",
            self.grpc_handled.clone(),
        );
        registry.register(
            "grpc_server_handling_seconds",
            "gRPC response body lifetime",
            self.grpc_handling_seconds.clone(),
        );
        registry.register(
            "grpc_server_in_flight",
            "gRPC requests in flight",
            self.grpc_in_flight.clone(),
        );
        registry.register(
            "grpc_server_request_bytes",
            "Consumed gRPC request body bytes",
            self.grpc_request_bytes.clone(),
        );
        registry.register(
            "grpc_server_response_bytes",
            "Emitted gRPC response body bytes",
            self.grpc_response_bytes.clone(),
        );
    }

    fn register_auth(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "xmtp_auth_rejections",
            "Authentication rejections by reason",
            self.auth_rejections.clone(),
        );
        registry.register(
            "xmtp_auth_jwks_refresh",
            "JWKS refresh attempts by result",
            self.auth_refreshes.clone(),
        );
        registry.register(
            "xmtp_auth_keys",
            "Loaded JWT verification keys",
            self.auth_keys.clone(),
        );
    }

    /// The metrics of one RPC.
    #[must_use]
    pub fn of_rpc(&self, rpc: Rpc) -> RpcMetrics {
        let labels = RpcLabels {
            grpc_method: rpc.method(),
            grpc_service: rpc.service(),
            grpc_type: rpc.kind().name(),
        };
        RpcMetrics {
            started: self.grpc_started.get_or_create_owned(&labels),
            in_flight: self.grpc_in_flight.get_or_create_owned(&labels),
            request_bytes: self.grpc_request_bytes.get_or_create_owned(&labels),
            response_bytes: self.grpc_response_bytes.get_or_create_owned(&labels),
            labels,
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

    /// Counts a contract-wallet signature that was judged, or could not be.
    pub fn verified(&self, result: VerificationResult) {
        self.verifications
            .get_or_create(&VerificationLabel { result })
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

    /// Counts a request that authentication rejected.
    pub fn auth_rejected(&self, reason: AuthRejection) {
        self.auth_rejections
            .get_or_create(&AuthRejectionLabel { reason })
            .inc();
    }

    /// Counts a refresh of the key set.
    pub fn jwks_refreshed(&self, result: RefreshResult) {
        self.auth_refreshes
            .get_or_create(&RefreshLabel { result })
            .inc();
    }

    /// Says how many keys for tokens are in use.
    pub fn auth_keys(&self, keys: usize) {
        self.auth_keys.set(u64::try_from(keys).unwrap_or(u64::MAX));
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
