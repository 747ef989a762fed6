//! The client: one exchange, with every bound enforced while it runs.
//!
//! It must never print an address, a header or a body (ARC-101).

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;

use super::{Failure, Target, Trust};

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Idle connections kept to one server. Exchanges with one server are few at a time.
const IDLE_CONNECTIONS_MAX: usize = 4;

/// How long an idle connection is kept. Below the idle timeout of common load balancers, so that it
/// is rarely closed from the other side just when it is used again.
const IDLE: Duration = Duration::from_secs(30);

/// Most bytes of the head of an answer.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What one exchange may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Time from the call to the last byte of the answer.
    pub timeout: Duration,
    /// Most bytes of the body of the answer.
    pub answer_bytes_max: usize,
}

/// Makes exchanges. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Outbound {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Outbound {
    /// A client that trusts these certificate authorities, with HTTP/1.1 alone: it needs no more.
    ///
    /// # Panics
    ///
    /// Never: the cryptography that is built in supports the protocol versions that are built in.
    #[must_use]
    pub fn new(trust: Trust) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring has cipher suites for TLS 1.2 and 1.3")
            .with_root_certificates(trust.roots())
            .with_no_client_auth();
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .build(connector);
        Self { client }
    }

    /// Reads a JSON document; its bytes are not judged.
    ///
    /// # Errors
    ///
    /// Any [`Failure`]. Dropping the future ends the exchange.
    pub async fn read(&self, target: &Target, bounds: Bounds) -> Result<Bytes, Failure> {
        let request = request(Method::GET, target, Bytes::new());
        self.exchange(request, bounds).await
    }

    /// Sends a JSON document and reads the JSON document that answers it.
    ///
    /// A request is sent at most once, except when a kept connection turns out to be closed before
    /// anything of it was sent.
    ///
    /// # Errors
    ///
    /// Any [`Failure`]. Dropping the future ends the exchange.
    pub async fn ask(
        &self,
        target: &Target,
        question: Bytes,
        bounds: Bounds,
    ) -> Result<Bytes, Failure> {
        let mut request = request(Method::POST, target, question);
        request.headers_mut().insert(CONTENT_TYPE, JSON);
        self.exchange(request, bounds).await
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        bounds: Bounds,
    ) -> Result<Bytes, Failure> {
        let answer = async {
            let response = self.client.request(request).await;
            let response = response.map_err(|_| Failure::Connection)?;
            match response.status() {
                StatusCode::OK => bounded(response.into_body(), bounds.answer_bytes_max).await,
                status => Err(Failure::Status(status)),
            }
        };
        tokio::time::timeout(bounds.timeout, answer)
            .await
            .unwrap_or(Err(Failure::Timeout))
    }
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outbound")
    }
}

fn request(method: Method, target: &Target, body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = target.uri().clone();
    request.headers_mut().insert(ACCEPT, JSON);
    if let Some(value) = target.authorization() {
        request.headers_mut().insert(AUTHORIZATION, value.clone());
    }
    request
}

/// Reads a body as it arrives, and gives up with the first byte above the bound. A length that was
/// announced may end it earlier and is not believed otherwise.
async fn bounded<B: Body<Data = Bytes>>(body: B, bytes_max: usize) -> Result<Bytes, Failure> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > bytes_max {
        return Err(Failure::TooLarge);
    }
    let mut body = pin!(body);
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Failure::Connection)?;
        if let Ok(data) = frame.into_data() {
            if data.len() > bytes_max - bytes.len() {
                return Err(Failure::TooLarge);
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes.freeze())
}
