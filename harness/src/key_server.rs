//! A real HTTPS server for a document such as a key set, and the authority behind its certificate.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use crate::tls_identity::{TlsIdentity, tls_identity};

/// What a [`KeyServer`] answers.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A status and a body.
    Now(u16, Bytes),
    /// A redirect to another URL.
    Redirect(String),
    /// Never anything.
    Silence,
}

impl Answer {
    /// A document, with status 200.
    pub fn document(body: impl Into<Bytes>) -> Self {
        Self::Now(200, body.into())
    }
}

/// An HTTPS server whose answer the test changes at will. It ends when it is dropped.
#[derive(Debug)]
pub struct KeyServer {
    address: SocketAddr,
    authority: CertificateDer<'static>,
    authority_pem: String,
    state: Arc<Mutex<State>>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct State {
    answer: Answer,
    heads: Vec<HeaderMap>,
}

impl KeyServer {
    /// Starts it with an authority of its own.
    pub async fn start(answer: Answer) -> Self {
        let TlsIdentity {
            authority,
            authority_pem,
            server: tls,
        } = tls_identity();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = State {
            answer,
            heads: Vec::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let serving = tokio::spawn(serve(listener, acceptor, Arc::clone(&state)));
        Self {
            address,
            authority,
            authority_pem,
            state,
            _serving: AbortOnDropHandle::new(serving),
        }
    }

    /// The URL of a path, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    /// The certificate that a client has to trust.
    pub fn authority(&self) -> CertificateDer<'static> {
        self.authority.clone()
    }

    /// The same as one PEM block.
    pub fn authority_pem(&self) -> &str {
        &self.authority_pem
    }

    /// Answers differently from now on.
    pub fn answer(&self, answer: Answer) {
        self.with(|state| state.answer = answer);
    }

    /// How many requests it got.
    pub fn requests(&self) -> usize {
        self.with(|state| state.heads.len())
    }

    /// The headers of every request.
    pub fn heads(&self) -> Vec<HeaderMap> {
        self.with(|state| state.heads.clone())
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<Mutex<State>>) {
    while let Ok((tcp, _)) = listener.accept().await {
        let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
        tokio::spawn(async move {
            let Ok(tls) = acceptor.accept(tcp).await else {
                return;
            };
            let service = service_fn(|request: Request<Incoming>| respond(request, &state));
            // A client that leaves early is the client's affair.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(tls), service)
                .await;
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    state: &Mutex<State>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let answer = {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.heads.push(request.headers().clone());
        state.answer.clone()
    };
    let mut response = Response::new(Full::default());
    match answer {
        Answer::Silence => std::future::pending().await,
        Answer::Now(status, body) => {
            *response.status_mut() = StatusCode::from_u16(status).expect("a status");
            *response.body_mut() = Full::new(body);
        }
        Answer::Redirect(url) => {
            *response.status_mut() = StatusCode::FOUND;
            let url = url.parse().expect("a header value");
            response.headers_mut().insert("location", url);
        }
    }
    Ok(response)
}
