//! What the stack tells of each request: its span, its metrics and its completion event
//! (ARC-095, ARC-098, ARC-099).

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use layers::code::Code;
use layers::completion::Completed;
use layers::grpc_metrics::{Recorder, Series};
use layers::request_id::RequestId;
use layers::scope::Scope;
use layers::trace_context::TraceContext;
use tracing::span::Entered;
use tracing::{Span, field, info, info_span};

use crate::metrics::{Metrics, RpcMetrics};
use crate::rpc::Rpc;

/// The span of a request, current whenever the request makes progress.
#[derive(Clone, Debug)]
pub(super) struct RequestSpan(Span);

impl Scope for RequestSpan {
    type Entered<'a> = Entered<'a>;

    fn enter(&self) -> Entered<'_> {
        self.0.enter()
    }
}

/// Opens the span of a request. Its names are labels, never the caller's path.
pub(super) fn open_span(head: &Parts) -> RequestSpan {
    let rpc = Rpc::of_path(head.uri.path());
    let span = info_span!(
        "grpc_request",
        rpc.system = "grpc",
        rpc.service = rpc.service(),
        rpc.method = rpc.method(),
        rpc.grpc.status_code = field::Empty,
        request_id = field::Empty,
        // The name of the API key, when the request is admitted by one.
        auth.principal = field::Empty,
    );
    if let Some(id) = head.extensions.get::<RequestId>() {
        span.record("request_id", field::display(id));
    }
    RequestSpan(span)
}

/// Which labels a path has in metrics; health checks have none.
pub(super) fn measured(path: &str) -> Option<Rpc> {
    Some(Rpc::of_path(path)).filter(|rpc| !rpc.is_health())
}

/// Counts requests into the catalogue.
#[derive(Clone, Debug)]
pub(super) struct Counting(pub(super) Arc<Metrics>);

impl Recorder<Rpc> for Counting {
    type Series = Counted;

    fn series(&self, rpc: Rpc) -> Counted {
        Counted {
            metrics: self.0.of_rpc(rpc),
            server: Arc::clone(&self.0),
        }
    }
}

/// The metrics of one request.
pub(super) struct Counted {
    metrics: RpcMetrics,
    server: Arc<Metrics>,
}

impl Series for Counted {
    fn started(&self) {
        self.metrics.started();
    }

    fn request_bytes(&self, bytes: u64) {
        self.metrics.received(bytes);
    }

    fn response_bytes(&self, bytes: u64) {
        self.metrics.sent(bytes);
    }

    fn handled(&self, code: Code, elapsed: Duration) {
        self.metrics.handled(&self.server, code.name(), elapsed);
    }
}

/// Says how a request ended: in its span always, as a log line when `log` is set.
pub(super) fn complete(head: &Parts, log: bool) -> impl FnOnce(Completed) + Send + use<> {
    let span = head.extensions.get::<RequestSpan>().cloned();
    let request_id = head.extensions.get::<RequestId>().cloned();
    let trace = head
        .extensions
        .get::<TraceContext>()
        .map(TraceContext::trace_id);
    let rpc = Rpc::of_path(head.uri.path());
    move |done| {
        if let Some(RequestSpan(span)) = span {
            span.record("rpc.grpc.status_code", done.code.number());
        }
        if log {
            info!(
                request_id = request_id.map(field::display),
                method = %Path(rpc),
                duration_ms = u64::try_from(done.elapsed.as_millis()).unwrap_or(u64::MAX),
                request_size_bytes = done.request_bytes,
                response_size_bytes = done.response_bytes,
                grpc_code = done.code.name(),
                trace_id = trace.map(field::display),
                "request completed"
            );
        }
    }
}

/// The path of a known RPC, or a word for all others.
struct Path(Rpc);

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.method() == "unknown" {
            f.write_str("unknown")
        } else {
            write!(f, "/{}/{}", self.0.service(), self.0.method())
        }
    }
}
