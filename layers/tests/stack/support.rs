//! A server of the whole stack over an in-memory connection, its handler, and a client.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{pending, ready};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Request, Response, Version};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use layers::admission::{AdmissionLayer, Attempt};
use layers::code::Code;
use layers::completion::{Completed, CompletionLayer};
use layers::count_bytes::CountBytesLayer;
use layers::drain::DrainHandle;
use layers::grpc_metrics::{GrpcMetricsLayer, Recorder, Series};
use layers::grpc_status::GrpcStatusLayer;
use layers::preflight::PreflightLayer;
use layers::refusal::Refusal;
use layers::request_id::{RequestId, RequestIdLayer};
use layers::scope::{Scope, ScopeLayer};
use layers::trace_context::{TraceContext, TraceContextLayer};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tonic_web::GrpcWebLayer;
use tower::{ServiceBuilder, service_fn};

const PUBLIC: &[&str] = &["/grpc.health.v1."];
const EXPOSED: [HeaderName; 1] = [HeaderName::from_static("grpc-status")];

/// Longer than any test should wait; reached only by a hang.
const PATIENCE: Duration = Duration::from_secs(10);

/// One completed request.
pub(crate) struct Event {
    pub(crate) done: Completed,
    pub(crate) request_id: String,
}

/// What the recorder was told, over all requests.
#[derive(Default)]
struct Totals {
    started: AtomicU64,
    in_flight: AtomicI64,
    request_bytes: AtomicU64,
    response_bytes: AtomicU64,
    handled: Mutex<Vec<Code>>,
}

#[derive(Clone, Default)]
struct Metrics(Arc<Totals>);

impl Recorder<()> for Metrics {
    type Series = Self;

    fn series(&self, (): ()) -> Self {
        self.clone()
    }
}

impl Series for Metrics {
    fn started(&self) {
        self.0.started.fetch_add(1, Ordering::SeqCst);
        self.0.in_flight.fetch_add(1, Ordering::SeqCst);
    }

    fn request_bytes(&self, bytes: u64) {
        self.0.request_bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    fn response_bytes(&self, bytes: u64) {
        self.0.response_bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    fn handled(&self, code: Code, _: Duration) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
        self.0.handled.lock().unwrap().push(code);
    }
}

thread_local!(static SCOPES: Cell<u32> = const { Cell::new(0) });

/// A scope that counts how often it is entered on this thread.
#[derive(Clone)]
struct Counting;

struct Entered;

impl Scope for Counting {
    type Entered<'a> = Entered;

    fn enter(&self) -> Entered {
        SCOPES.set(SCOPES.get() + 1);
        Entered
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        SCOPES.set(SCOPES.get() - 1);
    }
}

fn verify(attempt: Attempt<'_>) -> std::future::Ready<Result<(), Refusal>> {
    let admitted = attempt
        .headers
        .get("authorization")
        .is_some_and(|value| value == "yes");
    ready(if admitted {
        Ok(())
    } else {
        Err(Refusal::new(Code::Unauthenticated, "who are you"))
    })
}

fn is_metered(path: &str) -> Option<()> {
    (!path.starts_with("/grpc.health.v1.")).then_some(())
}

/// A running stack; every connection gets a task.
pub(crate) struct Stack {
    accept: mpsc::UnboundedSender<DuplexStream>,
    events: mpsc::UnboundedReceiver<Event>,
    metrics: Metrics,
    pub(crate) gate: DrainHandle,
}

impl Stack {
    pub(crate) fn start() -> Self {
        let (tell, events) = mpsc::unbounded_channel();
        let metrics = Metrics::default();
        let (drain, gate) = layers::drain::gate(PUBLIC);
        let observe = move |head: &Parts| {
            let (tell, id) = (tell.clone(), head.extensions.get::<RequestId>().copied());
            move |done: Completed| {
                let request_id = id.map(|id| id.to_string()).unwrap_or_default();
                let _ = tell.send(Event { done, request_id });
            }
        };
        let service = ServiceBuilder::new()
            .layer(PreflightLayer::exposing(&EXPOSED))
            .layer(TraceContextLayer)
            .layer(RequestIdLayer)
            .layer(ScopeLayer::new(|_: &Parts| Counting))
            .layer(CompletionLayer::new(observe))
            .layer(GrpcMetricsLayer::new(is_metered, metrics.clone()))
            .layer(CountBytesLayer)
            .layer(AdmissionLayer::new(Some(verify), PUBLIC))
            .layer(drain)
            .layer(GrpcWebLayer::new())
            .layer(GrpcStatusLayer)
            .service(service_fn(handle));
        let (accept, mut accepted) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(io) = accepted.recv().await {
                let service = TowerToHyperService::new(service.clone());
                tokio::spawn(async move {
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(io), service).await;
                });
            }
        });
        Self {
            accept,
            events,
            metrics,
            gate,
        }
    }

    /// A client with a connection of its own; dropping it drops the connection.
    pub(crate) async fn connect(&self, version: Version) -> Client {
        let (near, far) = tokio::io::duplex(64 * 1024);
        self.accept.send(far).unwrap();
        Client::handshake(near, version).await
    }

    /// The next event.
    pub(crate) async fn event(&mut self) -> Event {
        tokio::time::timeout(PATIENCE, self.events.recv())
            .await
            .unwrap()
            .unwrap()
    }

    pub(crate) fn in_flight(&self) -> i64 {
        self.metrics.0.in_flight.load(Ordering::SeqCst)
    }

    /// Request and response bytes told so far.
    pub(crate) fn live_bytes(&self) -> (u64, u64) {
        let totals = &self.metrics.0;
        (
            totals.request_bytes.load(Ordering::SeqCst),
            totals.response_bytes.load(Ordering::SeqCst),
        )
    }

    /// Asserts that exactly these codes were handled, in any order, that nothing is in flight and
    /// that no event is left.
    pub(crate) async fn is_idle(&mut self, codes: &[Code]) {
        tokio::task::yield_now().await;
        let totals = &self.metrics.0;
        let mut handled = totals.handled.lock().unwrap().clone();
        handled.sort_unstable();
        let mut codes = codes.to_vec();
        codes.sort_unstable();
        assert_eq!(handled, codes);
        assert_eq!(totals.started.load(Ordering::SeqCst), codes.len() as u64);
        assert_eq!(self.in_flight(), 0);
        assert!(self.events.try_recv().is_err(), "an event too many");
    }
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The sender of frames, and a body that yields them until the sender is dropped.
pub(crate) fn channel() -> (mpsc::UnboundedSender<Bytes>, Body) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let next = move |cx: &mut Context<'_>| receiver.poll_recv(cx).map(|data| data.map(Frame::data));
    (sender, Polled(next).boxed_unsync())
}

/// A body of the frames a function polls for.
struct Polled<F>(F);

impl<F> http_body::Body for Polled<F>
where
    F: FnMut(&mut Context<'_>) -> Poll<Option<Frame<Bytes>>> + Unpin,
{
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        (self.0)(cx).map(|frame| frame.map(Ok))
    }
}

enum Sender {
    Http1(hyper::client::conn::http1::SendRequest<Body>),
    Http2(hyper::client::conn::http2::SendRequest<Body>),
}

pub(crate) struct Client {
    sender: Sender,
    connection: tokio::task::JoinHandle<()>,
}

impl Client {
    async fn handshake(io: DuplexStream, version: Version) -> Self {
        let io = TokioIo::new(io);
        if version == Version::HTTP_2 {
            let executor = TokioExecutor::new();
            let (sender, connection) = hyper::client::conn::http2::handshake(executor, io)
                .await
                .unwrap();
            let connection = tokio::spawn(async { connection.await.unwrap_or_default() });
            Self {
                sender: Sender::Http2(sender),
                connection,
            }
        } else {
            let (sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            let connection = tokio::spawn(async { connection.await.unwrap_or_default() });
            Self {
                sender: Sender::Http1(sender),
                connection,
            }
        }
    }

    pub(crate) async fn try_send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        let request = request.map(BodyExt::boxed_unsync);
        match &mut self.sender {
            Sender::Http1(sender) => sender.send_request(request).await,
            Sender::Http2(sender) => sender.send_request(request).await,
        }
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        self.try_send(request).await.unwrap()
    }

    pub(crate) async fn send_channel(&mut self, request: Request<Body>) -> Response<Incoming> {
        match &mut self.sender {
            Sender::Http1(sender) => sender.send_request(request).await.unwrap(),
            Sender::Http2(sender) => sender.send_request(request).await.unwrap(),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// The service inside the translation; each path is one behaviour.
async fn handle(request: Request<tonic::body::Body>) -> Result<Response<Body>, Infallible> {
    let frame = || Bytes::from_static(b"\x00\x00\x00\x00\x05hello");
    let path = request.uri().path().to_owned();
    let trace = request.extensions().get::<TraceContext>().cloned();
    let mut response = match path.as_str() {
        "/t.S/Hang" => pending().await,
        "/t.S/Panic" => resume_unwind(Box::new("on purpose")),
        "/t.S/Mute" => Response::new(stream(vec![], false)),
        "/t.S/Stream" => Response::new(stream(
            vec![Frame::data(frame()), Frame::data(frame())],
            false,
        )),
        "/t.S/Bare" => {
            let _ = request.into_body().collect().await;
            Response::new(Full::new(frame()).boxed_unsync())
        }
        "/t.S/Echo" => Response::new(echo(request)),
        "/t.S/TrailersOnly" => {
            let _ = request.into_body().collect().await;
            let mut response = Response::new(Body::default());
            response
                .headers_mut()
                .insert("grpc-status", Code::NotFound.header_value());
            response
        }
        path => {
            let _ = request.into_body().collect().await;
            let code = if path == "/t.S/Late" {
                Code::Aborted
            } else {
                Code::Ok
            };
            Response::new(stream(
                vec![Frame::data(frame()), Frame::trailers(trailers(code))],
                true,
            ))
        }
    };
    let headers = response.headers_mut();
    headers.insert("content-type", "application/grpc".parse().unwrap());
    headers.insert("x-scopes", SCOPES.get().into());
    if let Some(trace) = trace {
        headers.insert("x-trace", trace.trace_id().to_string().parse().unwrap());
    }
    Ok(response)
}

fn trailers(code: Code) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", code.header_value());
    trailers
}

/// A body of these frames that then ends, or never ends.
fn stream(frames: Vec<Frame<Bytes>>, ends: bool) -> Body {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    for frame in frames {
        let _ = sender.send(frame);
    }
    let open = (!ends).then_some(sender);
    let next = move |cx: &mut Context<'_>| {
        let _held = &open;
        receiver.poll_recv(cx)
    };
    Polled(next).boxed_unsync()
}

/// Sends back every frame of the request, then an `OK`.
fn echo(request: Request<tonic::body::Body>) -> Body {
    let mut body = request.into_body();
    let mut over = false;
    let next = move |cx: &mut Context<'_>| {
        if over {
            return Poll::Ready(None);
        }
        let polled = http_body::Body::poll_frame(Pin::new(&mut body), cx);
        polled.map(|frame| match frame {
            Some(Ok(frame)) => Some(frame),
            Some(Err(_)) | None => {
                over = true;
                Some(Frame::trailers(trailers(Code::Ok)))
            }
        })
    };
    Polled(next).boxed_unsync()
}
