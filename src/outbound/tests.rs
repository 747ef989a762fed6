//! Exchanges with a real server over real TLS that misbehaves in every way a server can.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::StatusCode;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_rustls::TlsAcceptor;
use url::Url;

use super::{Bounds, Failure, Outbound, Target, Trust, Unusable};

/// A part of an address that must never be seen anywhere.
const CANARY: &str = "canary-8f2e";

const BOUNDS: Bounds = Bounds {
    timeout: Duration::from_secs(10),
    answer_bytes_max: 1000,
};

/// A certificate authority, and a server's identity under it.
struct Authority {
    certificate: CertificateDer<'static>,
    server: ServerConfig,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let leaf = params.signed_by(&key, &issuer).unwrap().der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf], key)
            .unwrap();
        Self {
            certificate,
            server,
        }
    }

    fn trust(&self) -> Trust {
        Trust::Only(vec![self.certificate.clone()])
    }
}

/// What a server does after it has written its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// Reads the next request.
    Continue,
    /// Closes the connection.
    Close,
    /// Says nothing more.
    Hang,
    /// Repeats its second part for ever.
    Repeat(&'static [u8]),
}

/// A server that answers every request with the same bytes. Tells of each request, its connection's
/// number in front.
struct Server {
    address: SocketAddr,
    requests: UnboundedReceiver<(usize, String)>,
}

impl Server {
    async fn start(tls: Option<&Authority>, answer: Vec<u8>, then: Then) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = tls.map(|tls| TlsAcceptor::from(Arc::new(tls.server.clone())));
        let (sender, requests) = unbounded_channel();
        tokio::spawn(async move {
            for number in 0.. {
                let (tcp, _) = listener.accept().await.unwrap();
                let (acceptor, answer, sender) = (acceptor.clone(), answer.clone(), sender.clone());
                let heard = move |request| sender.send((number, request)).is_ok();
                tokio::spawn(async move {
                    match acceptor {
                        None => serve(tcp, &answer, then, heard).await,
                        Some(acceptor) => match acceptor.accept(tcp).await {
                            Ok(tls) => serve(tls, &answer, then, heard).await,
                            Err(error) => Err(error),
                        },
                    }
                });
            }
        });
        Self { address, requests }
    }

    fn target(&self, scheme: &str) -> Target {
        let port = self.address.port();
        let url = format!("{scheme}://localhost:{port}/{CANARY}?key={CANARY}");
        Target::new(&url.parse().unwrap()).unwrap()
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &[u8],
    then: Then,
    heard: impl Fn(String) -> bool,
) -> std::io::Result<()> {
    let mut request = Vec::new();
    loop {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&request).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        if body.len() < length.map_or(0, |length| length.parse().unwrap()) {
            continue;
        }
        heard(text.clone());
        request.clear();
        stream.write_all(answer).await?;
        stream.flush().await?;
        match then {
            Then::Continue => {}
            Then::Close => return stream.shutdown().await,
            Then::Hang => std::future::pending().await,
            Then::Repeat(part) => loop {
                stream.write_all(part).await?;
            },
        }
    }
}

fn answer(status: &str, head: &str, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status}\r\n{head}\r\n\r\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn sized(body: &[u8]) -> Vec<u8> {
    answer("200 OK", &format!("content-length: {}", body.len()), body)
}

fn chunked(size: usize) -> Vec<u8> {
    let body = format!("{size:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(size));
    answer("200 OK", "transfer-encoding: chunked", body.as_bytes())
}

/// What a server writes, what it does then, and what the exchange brings.
type Answer = (&'static str, Vec<u8>, Then, Result<Bytes, Failure>);

/// Answers around the bound of the body.
fn answers_by_length() -> Vec<Answer> {
    use Then::{Continue, Hang, Repeat};
    let whole = |size: usize| Ok(Bytes::from(vec![b'x'; size]));
    let too_large = || Err(Failure::TooLarge);
    let announced = answer("200 OK", "content-length: 1001", b"");
    let endless = answer("200 OK", "transfer-encoding: chunked", b"");
    let repeat = Repeat(b"4\r\nxxxx\r\n");
    vec![
        ("sized at it", sized(&[b'x'; 1000]), Continue, whole(1000)),
        ("sized above", sized(&[b'x'; 1001]), Continue, too_large()),
        (
            "announced above, then silence",
            announced,
            Hang,
            too_large(),
        ),
        ("chunked at it", chunked(1000), Continue, whole(1000)),
        ("chunked above", chunked(1001), Continue, too_large()),
        ("without end", endless, repeat, too_large()),
        ("empty", sized(b""), Continue, whole(0)),
    ]
}

/// Answers that are none.
fn failures() -> Vec<Answer> {
    use Then::{Close, Continue};
    let broken = || Err(Failure::Connection);
    let status = |code| Err(Failure::Status(StatusCode::from_u16(code).unwrap()));
    let cut = answer("200 OK", "content-length: 10", b"xxx");
    let with = |line: &str| answer(line, "content-length: 1", b"x");
    vec![
        ("cut", cut, Close, broken()),
        ("no HTTP", b"hello\r\n\r\n".to_vec(), Close, broken()),
        ("no answer", Vec::new(), Close, broken()),
        (
            "no content",
            answer("204 Nothing", "x: y", b""),
            Continue,
            status(204),
        ),
        ("created", with("201 Created"), Continue, status(201)),
        ("refused", with("401 Unauthorized"), Continue, status(401)),
        ("failed", with("500 Oops"), Continue, status(500)),
    ]
}

/// Goal: the whole contract of an answer, over TLS. Method: table of answers of a real server and
/// what the exchange brings, with the bound of the body at and one above. ARC-101: neither the error
/// nor `Debug` shows any of the address.
#[tokio::test]
async fn an_answer_is_taken_within_its_bounds() {
    let authority = Authority::new();
    let client = Outbound::new(authority.trust());
    for (what, bytes, then, expected) in answers_by_length().into_iter().chain(failures()) {
        let server = Server::start(Some(&authority), bytes, then).await;
        let target = server.target("https");
        let result = client.read(&target, BOUNDS).await;
        let shown = format!("{result:?} {target:?} {client:?}");
        assert!(!shown.contains(CANARY), "{shown}");
        if let Err(failure) = &result {
            assert!(!failure.to_string().contains(CANARY), "{failure}");
        }
        assert_eq!(result, expected, "{what}");
    }
}

/// Goal: one deadline covers the exchange wherever it stops. Method: servers that fall silent before
/// the TLS handshake, before the head and inside the body; each ends with the timeout and soon.
#[tokio::test]
async fn silence_ends_at_the_deadline() {
    let authority = Authority::new();
    let client = Outbound::new(authority.trust());
    let bounds = Bounds {
        timeout: Duration::from_millis(300),
        ..BOUNDS
    };
    let dripping = answer("200 OK", "content-length: 10", b"xxx");
    let no_handshake = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let no_head = Server::start(Some(&authority), Vec::new(), Then::Hang).await;
    let no_end = Server::start(Some(&authority), dripping, Then::Hang).await;
    let port = no_handshake.local_addr().unwrap().port();
    let silent: Url = format!("https://localhost:{port}/").parse().unwrap();
    let targets = [
        Target::new(&silent).unwrap(),
        no_head.target("https"),
        no_end.target("https"),
    ];
    for target in targets {
        let start = Instant::now();
        assert_eq!(client.read(&target, bounds).await, Err(Failure::Timeout));
        assert!(start.elapsed() >= bounds.timeout);
        assert!(start.elapsed() < bounds.timeout * 10);
    }
}

/// Goal: a redirect is a failure, and the place it names hears nothing. Method: redirect to a second
/// server that would answer well.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let authority = Authority::new();
    let client = Outbound::new(authority.trust());
    let mut second = Server::start(Some(&authority), sized(b"good"), Then::Continue).await;
    let place = format!("location: https://localhost:{}/", second.address.port());
    for status in ["301 x", "302 x", "303 x", "307 x", "308 x"] {
        let head = format!("{place}\r\ncontent-length: 0");
        let first = Server::start(Some(&authority), answer(status, &head, b""), Then::Close).await;
        let result = client.read(&first.target("https"), BOUNDS).await;
        assert!(matches!(result, Err(Failure::Status(_))), "{result:?}");
    }
    assert!(second.requests.try_recv().is_err(), "the target was called");
}

/// Goal: only a server with a certificate of a trusted authority, for the right name, is talked to.
/// Method: another authority, another name; the server gets no request.
#[tokio::test]
async fn an_untrusted_server_gets_no_request() {
    let (trusted, other) = (Authority::new(), Authority::new());
    let client = Outbound::new(trusted.trust());
    let mut server = Server::start(Some(&other), sized(b"good"), Then::Continue).await;
    let result = client.read(&server.target("https"), BOUNDS).await;
    assert_eq!(result, Err(Failure::Connection));
    assert!(server.requests.try_recv().is_err());
    let mut server = Server::start(Some(&trusted), sized(b"good"), Then::Continue).await;
    let url = format!("https://127.0.0.1:{}/", server.address.port());
    let target = Target::new(&url.parse().unwrap()).unwrap();
    assert_eq!(client.read(&target, BOUNDS).await, Err(Failure::Connection));
    assert!(server.requests.try_recv().is_err());
}

/// Goal: what is sent is what was asked for and nothing else, and connections are used again. Method:
/// look at the requests of a read and of two questions, over TLS and in plain text.
#[tokio::test]
async fn a_request_says_no_more_than_it_must() {
    let authority = Authority::new();
    for scheme in ["http", "https"] {
        let client = Outbound::new(authority.trust());
        let tls = (scheme == "https").then_some(&authority);
        let mut server = Server::start(tls, sized(b"{}"), Then::Continue).await;
        let target = server.target(scheme);
        let path = format!("/{CANARY}?key={CANARY}");
        let host = format!("localhost:{}", server.address.port());

        client.read(&target, BOUNDS).await.unwrap();
        let (connection, request) = server.requests.recv().await.unwrap();
        let expected =
            format!("get {path} http/1.1\r\naccept: application/json\r\nhost: {host}\r\n\r\n");
        assert_eq!((connection, request), (0, expected));

        for question in ["{\"a\":1}", ""] {
            let bytes = Bytes::from(question);
            assert_eq!(client.ask(&target, bytes, BOUNDS).await.unwrap(), "{}");
            let (connection, request) = server.requests.recv().await.unwrap();
            assert_eq!(connection, 0, "a connection of its own");
            assert!(request.starts_with(&format!("post {path} http/1.1\r\n")));
            assert!(request.contains("content-type: application/json\r\n"));
            assert!(request.ends_with(&format!("\r\n\r\n{question}")));
        }
    }
}

/// Goal: user info travels as basic authorization and not in the address. Method: table of what
/// stands before the host, and the credential that the server gets.
#[tokio::test]
async fn user_info_is_sent_as_basic_authorization() {
    let client = Outbound::new(Trust::Only(Vec::new()));
    let mut server = Server::start(None, sized(b"{}"), Then::Continue).await;
    for (user_info, credential) in [
        ("user:word", "user:word"),
        ("user", "user:"),
        (":word", ":word"),
        ("u%40s%3Aer:w%25rd:x", "u@s:er:w%rd:x"),
        ("%C3%A9:%00", "\u{e9}:\0"),
    ] {
        let url = format!("http://{user_info}@{}/path", server.address);
        let target = Target::new(&url.parse().unwrap()).unwrap();
        client.read(&target, BOUNDS).await.unwrap();
        let (_, request) = server.requests.recv().await.unwrap();
        let line = format!("authorization: Basic {}\r\n", STANDARD.encode(credential));
        assert!(request.contains(&line.to_lowercase()), "{request}");
        assert!(request.starts_with("get /path http/1.1\r\n"), "{request}");
        assert!(
            request.contains(&format!("host: {}\r\n", server.address)),
            "{request}"
        );
    }
}

/// Goal: nobody listening is a failed connection, at once. Method: a port that was just closed.
#[tokio::test]
async fn nobody_listening_is_a_failed_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let target = Target::new(&url.parse().unwrap()).unwrap();
    let client = Outbound::new(Trust::Only(Vec::new()));
    assert_eq!(client.read(&target, BOUNDS).await, Err(Failure::Connection));
}

/// Goal: an address that no exchange can go to is found at startup. Method: table.
#[test]
fn a_target_is_an_http_url() {
    let usable = |url: &str| Target::new(&url.parse().unwrap()).map(|_| ());
    for url in [
        "http://localhost",
        "https://example.com/a/b?c=d",
        "https://[::1]:1234/",
        "https://example.com/#fragment",
        "https://b\u{fc}cher.example/a b?\u{fc}",
    ] {
        assert_eq!(usable(url), Ok(()), "{url}");
    }
    for url in ["ftp://example.com/", "data:text/plain,x"] {
        assert_eq!(usable(url), Err(Unusable), "{url}");
    }
}

/// Goal: the machine's list is readable here, or the built-in one takes its place: never none.
#[test]
fn some_authority_is_always_trusted() {
    assert!(!Trust::Machine.roots().is_empty());
}
