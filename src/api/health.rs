//! `grpc.health.v1.Health`, and the one switch behind it (ARC-002, ARC-098).
//!
//! All names share one status. The stock Tonic service has no `List` and starts as serving, so the
//! project has its own.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tonic::{Request, Response, Status};

use super::generated::grpc::health::v1::health_check_response::ServingStatus;
use super::generated::grpc::health::v1::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse, health_server,
};
use crate::metrics::Metrics;

/// Every name the service knows: the whole server, and each application service.
pub const NAMES: [&str; 7] = [
    "",
    "xmtp.backend.v1.QueryService",
    "xmtp.backend.v1.PublishService",
    "xmtp.backend.v1.SubscriptionService",
    "xmtp.backend.v1.IdentityService",
    "xmtp.backend.v1.ConfigurationService",
    "xmtp.backend.v1.NotificationService",
];

/// What the server says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not ready yet.
    Starting,
    /// Ready.
    Serving,
    /// Shutdown has begun.
    Stopping,
}

impl Phase {
    fn status(self) -> ServingStatus {
        match self {
            Self::Serving => ServingStatus::Serving,
            Self::Starting | Self::Stopping => ServingStatus::NotServing,
        }
    }

    fn response(self) -> HealthCheckResponse {
        HealthCheckResponse {
            status: self.status().into(),
        }
    }
}

/// Changes the health status and the readiness gauge together.
#[derive(Clone, Debug)]
pub struct Readiness {
    phase: watch::Sender<Phase>,
    metrics: Arc<Metrics>,
}

impl Readiness {
    /// Starts as [`Phase::Starting`].
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            phase: watch::Sender::new(Phase::Starting),
            metrics,
        }
    }

    /// Reports the phase everywhere at once: to health checks, to watchers, and in the gauge.
    pub fn report(&self, phase: Phase) {
        self.phase.send_modify(|current| {
            *current = phase;
            self.metrics.ready(phase == Phase::Serving);
        });
    }

    /// The health service that this switch drives.
    #[must_use]
    pub fn service(&self) -> Health {
        Health {
            phase: self.phase.subscribe(),
        }
    }
}

/// Answers health checks.
#[derive(Clone, Debug)]
pub struct Health {
    phase: watch::Receiver<Phase>,
}

type WatchResponses = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

#[tonic::async_trait]
impl health_server::Health for Health {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        if !NAMES.contains(&request.get_ref().service.as_str()) {
            return Err(Status::not_found("unknown service"));
        }
        Ok(Response::new(self.phase.borrow().response()))
    }

    type WatchStream = WatchResponses;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let known = NAMES.contains(&request.get_ref().service.as_str());
        let phases = WatchStream::new(self.phase.clone());
        let responses = phases.flat_map(move |phase| stream::iter(report(phase, known)));
        // The status that ends the stream is the last item taken from it.
        let responses = responses.scan(false, |ended, item| {
            let item = (!*ended).then_some(item);
            *ended = matches!(item, Some(Err(_)));
            std::future::ready(item)
        });
        Ok(Response::new(Box::pin(responses)))
    }

    async fn list(
        &self,
        _: Request<HealthListRequest>,
    ) -> Result<Response<HealthListResponse>, Status> {
        let response = self.phase.borrow().response();
        let statuses: HashMap<_, _> = NAMES
            .iter()
            .map(|name| ((*name).to_owned(), response))
            .collect();
        Ok(Response::new(HealthListResponse { statuses }))
    }
}

/// What a watcher hears of a phase. Shutdown is told and then ends the stream (ARC-003).
fn report(phase: Phase, known: bool) -> Vec<Result<HealthCheckResponse, Status>> {
    let heard = if known {
        phase.response()
    } else {
        HealthCheckResponse {
            status: ServingStatus::ServiceUnknown.into(),
        }
    };
    match phase {
        Phase::Starting | Phase::Serving => vec![Ok(heard)],
        Phase::Stopping => vec![
            Ok(heard),
            Err(Status::unavailable("the server is stopping")),
        ],
    }
}
