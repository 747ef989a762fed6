//! The Prometheus listener: `GET /metrics`, on a port of its own (ARC-098).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::metrics::Metrics;
use crate::port::Port;

const TEXT_FORMAT: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// How long a scraper may take to send its request.
const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers scrapes until `stop` is cancelled.
pub async fn serve_metrics(port: Port, metrics: Arc<Metrics>, stop: CancellationToken) {
    while let Some((stream, place)) = port.accept(&stop).await {
        let metrics = Arc::clone(&metrics);
        let stop = stop.clone();
        let service = service_fn(move |request| {
            let answer = answer(&request, &metrics);
            async move { Ok::<_, Infallible>(answer) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_READ_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            let _place = place;
            if let Some(Err(_)) = stop.run_until_cancelled(connection).await {
                debug!("a scrape ended with an error");
            }
        });
    }
}

fn answer(request: &Request<Incoming>, metrics: &Metrics) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    if request.uri().path() != "/metrics" {
        *response.status_mut() = StatusCode::NOT_FOUND;
    } else if request.method() != Method::GET {
        *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET"));
    } else {
        response.headers_mut().insert(CONTENT_TYPE, TEXT_FORMAT);
        *response.body_mut() = Full::from(metrics.exposition());
    }
    response
}
