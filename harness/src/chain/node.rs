//! A JSON-RPC node over HTTPS, which misbehaves when it is told to.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use super::TestChain;

use crate::tls_identity::{TlsIdentity, tls_identity};

type Body = BoxBody<Bytes, std::io::Error>;

/// What a node does instead of answering.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Never answers.
    Silence,
    /// Answers after the test has called [`ChainNode::release`].
    Held,
    /// Answers with this status, and an answer that would be right otherwise.
    Status(u16),
    /// Sends the asker elsewhere.
    Redirect(String),
    /// Answers with these bytes.
    Body(Bytes),
    /// Answers under another id.
    OtherId,
    /// Answers with this instead of the result.
    Result(Value),
    /// Answers with an error of JSON-RPC.
    Error,
    /// Closes the connection in the middle of the answer.
    Cut,
}

/// A question that the node was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// Its parameters.
    pub params: Value,
}

/// A node of a chain. It ends when it is dropped.
pub struct ChainNode {
    address: SocketAddr,
    authority: CertificateDer<'static>,
    state: Arc<Mutex<State>>,
    released: watch::Sender<bool>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct State {
    chain: TestChain,
    fault: Option<Fault>,
    asked: Vec<Asked>,
    open: usize,
    most_open: usize,
}

impl ChainNode {
    /// Starts a node of a chain, with a certificate authority of its own.
    pub async fn start(chain: TestChain) -> Self {
        let TlsIdentity {
            authority,
            server: tls,
            ..
        } = tls_identity();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(Mutex::new(State {
            chain,
            fault: None,
            asked: Vec::new(),
            open: 0,
            most_open: 0,
        }));
        let (released, release) = watch::channel(false);
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let serving = tokio::spawn(serve(listener, acceptor, Arc::clone(&state), release));
        Self {
            address,
            authority,
            state,
            released,
            _serving: AbortOnDropHandle::new(serving),
        }
    }

    /// Its URL, with a path that looks like a key.
    pub fn url(&self) -> String {
        format!("https://localhost:{}/v3/secret-key", self.address.port())
    }

    /// The line of the `[chains]` table that names it.
    pub fn route(&self, chain_id: u64) -> String {
        format!("\"eip155:{chain_id}\" = \"{}\"", self.url())
    }

    /// The certificate that a client has to trust.
    pub fn authority(&self) -> CertificateDer<'static> {
        self.authority.clone()
    }

    /// Misbehaves from now on, or no more.
    pub fn fault(&self, fault: impl Into<Option<Fault>>) {
        with(&self.state, |state| state.fault = fault.into());
    }

    /// Lets [`Fault::Held`] answers go.
    pub fn release(&self) {
        self.released.send_replace(true);
    }

    /// Changes the chain.
    pub fn chain<T>(&self, change: impl FnOnce(&mut TestChain) -> T) -> T {
        with(&self.state, |state| change(&mut state.chain))
    }

    /// Every question so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        with(&self.state, |state| state.asked.clone())
    }

    /// How many questions there were so far.
    pub fn calls(&self) -> usize {
        with(&self.state, |state| state.asked.len())
    }

    /// How many questions were open at the same time at most.
    pub fn most_open(&self) -> usize {
        with(&self.state, |state| state.most_open)
    }
}

impl fmt::Debug for ChainNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChainNode")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

fn with<T>(state: &Mutex<State>, act: impl FnOnce(&mut State) -> T) -> T {
    act(&mut state.lock().unwrap_or_else(PoisonError::into_inner))
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    state: Arc<Mutex<State>>,
    release: watch::Receiver<bool>,
) {
    while let Ok((tcp, _)) = listener.accept().await {
        let (acceptor, state, release) = (acceptor.clone(), Arc::clone(&state), release.clone());
        tokio::spawn(async move {
            let Ok(tls) = acceptor.accept(tcp).await else {
                return;
            };
            let service = service_fn(|request| respond(request, &state, release.clone()));
            // A client that leaves early is the client's affair.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(tls), service)
                .await;
        });
    }
}

/// Counts a question as open for as long as it lives.
struct Open<'s>(&'s Mutex<State>);

impl<'s> Open<'s> {
    fn new(state: &'s Mutex<State>) -> Self {
        with(state, |state| {
            state.open += 1;
            state.most_open = state.most_open.max(state.open);
        });
        Self(state)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        with(self.0, |state| state.open -= 1);
    }
}

async fn respond(
    request: Request<Incoming>,
    state: &Mutex<State>,
    mut release: watch::Receiver<bool>,
) -> Result<Response<Body>, Infallible> {
    let body = request.into_body().collect().await;
    let body = body.map(http_body_util::Collected::to_bytes);
    let Ok(question) = serde_json::from_slice::<Value>(&body.unwrap_or_default()) else {
        return Ok(answer(StatusCode::BAD_REQUEST, Bytes::new()));
    };
    let _open = Open::new(state);
    let (fault, chain) = with(state, |state| {
        state.asked.push(Asked {
            method: question["method"].as_str().unwrap_or_default().to_owned(),
            params: question["params"].clone(),
        });
        (state.fault.clone(), state.chain.clone())
    });
    let outcome = judge(&chain, &question);
    let right = reply(&question["id"], outcome);
    Ok(match fault {
        None => answer(StatusCode::OK, right),
        Some(Fault::Silence) => std::future::pending().await,
        Some(Fault::Held) => {
            // The sender lives as long as the node.
            let _ = release.wait_for(|released| *released).await;
            answer(StatusCode::OK, right)
        }
        Some(Fault::Status(status)) => {
            let status = StatusCode::from_u16(status).expect("a status");
            answer(status, right)
        }
        Some(Fault::Redirect(url)) => {
            let mut response = answer(StatusCode::TEMPORARY_REDIRECT, Bytes::new());
            let url = HeaderValue::from_str(&url).expect("a URL");
            response.headers_mut().insert("location", url);
            response
        }
        Some(Fault::Body(bytes)) => answer(StatusCode::OK, bytes),
        Some(Fault::OtherId) => answer(StatusCode::OK, reply(&json!(0), judge(&chain, &question))),
        Some(Fault::Result(result)) => answer(StatusCode::OK, reply(&question["id"], Ok(result))),
        Some(Fault::Error) => answer(
            StatusCode::OK,
            reply(&question["id"], Err("execution reverted")),
        ),
        Some(Fault::Cut) => cut(&right),
    })
}

fn answer(status: StatusCode, body: Bytes) -> Response<Body> {
    let body = Full::new(body).map_err(|never| match never {}).boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}

/// The first half of an answer.
fn cut(whole: &[u8]) -> Response<Body> {
    let half = Bytes::copy_from_slice(&whole[..whole.len() / 2]);
    let frames = [Ok(Frame::data(half)), Err(std::io::Error::other("cut"))];
    let body = StreamBody::new(futures_util::stream::iter(frames));
    Response::new(BodyExt::boxed(body))
}

fn reply(id: &Value, outcome: Result<Value, &str>) -> Bytes {
    let reply = match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(message) => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": 3, "message": message}})
        }
    };
    reply.to_string().into()
}

/// What a sound node says. It takes questions in the one form that every node understands.
fn judge(chain: &TestChain, question: &Value) -> Result<Value, &'static str> {
    let params = &question["params"];
    match question["method"].as_str() {
        Some("eth_blockNumber") => Ok(json!(format!("{:#x}", chain.head()))),
        Some("eth_call") => {
            let call = params[0].as_object().ok_or("no call")?;
            if call.len() != 1 {
                return Err("more than data");
            }
            let data = call.get("data").and_then(Value::as_str).ok_or("no data")?;
            let data = data.strip_prefix("0x").ok_or("no prefix")?;
            let data = hex::decode(data).map_err(|_| "no hexadecimal")?;
            let block = params[1].as_str().ok_or("no block")?;
            let digits = block.strip_prefix("0x").ok_or("no block number")?;
            if digits.len() > 1 && digits.starts_with('0') {
                return Err("leading zeros");
            }
            let block = u64::from_str_radix(digits, 16).map_err(|_| "no block number")?;
            let returned = chain.create(data, block).ok_or("execution reverted")?;
            Ok(json!(format!("0x{}", hex::encode(returned))))
        }
        Some(_) | None => Err("no such method"),
    }
}
