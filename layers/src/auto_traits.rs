//! Compile-time checks: what a server moves between threads stays `Send`, whatever a layer becomes.
//!
//! A transport spawns futures and bodies onto worker threads, and clones services for every
//! connection. Each line names one type with plain parts; it fails to compile when a field takes
//! the trait away.

use std::future::Ready;
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response};

use crate::admission::{Admission, AdmissionFuture, AdmissionLayer, Attempt, Verify};
use crate::code::Code;
use crate::completion::{
    Completed, Completion, CompletionBody, CompletionFuture, CompletionLayer, Observe, OnComplete,
};
use crate::count_bytes::{
    CountBytes, CountBytesFuture, CountBytesLayer, CountedRequestBody, CountedResponseBody,
};
use crate::drain::{Drain, DrainBody, DrainFuture, DrainHandle, DrainLayer};
use crate::grpc_metrics::{
    GrpcMetrics, GrpcMetricsFuture, GrpcMetricsLayer, MeteredRequestBody, MeteredResponseBody,
    Recorder, Series,
};
use crate::grpc_status::{GrpcStatus, GrpcStatusBody, GrpcStatusFuture, GrpcStatusLayer};
use crate::preflight::{Preflight, PreflightBody, PreflightFuture, PreflightLayer};
use crate::record::Record;
use crate::refusal::Refusal;
use crate::request_id::{RequestId, RequestIdFuture, RequestIdLayer, SetRequestId};
use crate::scope::{Open, Scope, ScopeBody, ScopeFuture, ScopeLayer, Scoped};
use crate::scripted::{Broken, ScriptedBody};
use crate::trace_context::{ReadTraceContext, TraceContext, TraceContextLayer};

/// The server's part of every trait, with nothing inside.
#[derive(Clone)]
struct Plain;

impl Verify for Plain {
    type Principal = ();
    type Future = Ready<Result<(), Refusal>>;

    fn verify(&self, _: Attempt<'_>) -> Self::Future {
        std::future::ready(Ok(()))
    }
}

impl Observe for Plain {
    type Call = Self;

    fn observe(&self, _: &Parts) -> Self {
        Self
    }
}

impl OnComplete for Plain {
    fn complete(self, _: Completed) {}
}

impl Recorder<()> for Plain {
    type Series = Self;

    fn series(&self, (): ()) -> Self {
        Self
    }
}

impl Series for Plain {
    fn started(&self) {}
    fn request_bytes(&self, _: u64) {}
    fn response_bytes(&self, _: u64) {}
    fn handled(&self, _: Code, _: Duration) {}
}

impl Scope for Plain {
    type Entered<'a> = ();

    fn enter(&self) {}
}

impl Open for Plain {
    type Scope = Self;

    fn open(&self, _: &Parts) -> Self {
        Self
    }
}

type Classify = fn(&str) -> Option<()>;
type Answer = Ready<Result<Response<ScriptedBody>, Broken>>;
type Inner = tower::util::ServiceFn<fn(Request<ScriptedBody>) -> Answer>;

const fn moves<T: Send + 'static>() {}
const fn shared<T: Send + Sync + Clone + 'static>() {}

const _: () = {
    shared::<PreflightLayer>();
    shared::<TraceContextLayer>();
    shared::<RequestIdLayer>();
    shared::<ScopeLayer<Plain>>();
    shared::<CompletionLayer<Plain>>();
    shared::<GrpcMetricsLayer<Classify, Plain>>();
    shared::<CountBytesLayer>();
    shared::<AdmissionLayer<Plain>>();
    shared::<DrainLayer>();
    shared::<GrpcStatusLayer>();

    shared::<Preflight<Inner>>();
    shared::<ReadTraceContext<Inner>>();
    shared::<SetRequestId<Inner>>();
    shared::<Scoped<Inner, Plain>>();
    shared::<Completion<Inner, Plain>>();
    shared::<GrpcMetrics<Inner, Classify, Plain>>();
    shared::<CountBytes<Inner>>();
    shared::<Admission<Inner, Plain>>();
    shared::<Drain<Inner>>();
    shared::<GrpcStatus<Inner>>();

    shared::<TraceContext>();
    shared::<RequestId>();
    shared::<DrainHandle>();
    shared::<Refusal>();
    shared::<std::sync::Arc<Record>>();

    moves::<PreflightFuture<Answer>>();
    moves::<RequestIdFuture<Answer>>();
    moves::<ScopeFuture<Answer, Plain>>();
    moves::<CompletionFuture<Answer, Plain>>();
    moves::<GrpcMetricsFuture<Answer, Plain>>();
    moves::<CountBytesFuture<Answer>>();
    moves::<AdmissionFuture<<Plain as Verify>::Future, Inner, ScriptedBody>>();
    moves::<DrainFuture<Answer>>();
    moves::<GrpcStatusFuture<Answer>>();

    moves::<PreflightBody<ScriptedBody>>();
    moves::<ScopeBody<ScriptedBody, Plain>>();
    moves::<CompletionBody<ScriptedBody, Plain>>();
    moves::<MeteredRequestBody<ScriptedBody, Plain>>();
    moves::<MeteredResponseBody<ScriptedBody, Plain>>();
    moves::<CountedRequestBody<ScriptedBody>>();
    moves::<CountedResponseBody<ScriptedBody>>();
    moves::<DrainBody<ScriptedBody>>();
    moves::<GrpcStatusBody<ScriptedBody>>();
};
