//! gRPC-Web as bytes on a socket: bodies in pieces, text with padding in the middle, errors that are
//! all headers (ARC-002, ARC-113, API-150).

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, BytesMut};
use envelope::fixtures::welcome;
use envelope::wire::xmtp::backend::v1::SubscribeStaticRequest;
use harness::{Form, TestServer};
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::given::{group_topic, ids, message};
use crate::reading::{after, page_of, topic_bytes};

const QUERY: &str = "/xmtp.backend.v1.QueryService/Query";
const SUBSCRIBE_STATIC: &str = "/xmtp.backend.v1.SubscriptionService/SubscribeStatic";

const FORMS: [Form; 2] = [Form::Binary, Form::Text];

/// A connection of HTTP/1.1 with one request, whose bodies are chunks.
struct Exchange {
    socket: TcpStream,
    received: BytesMut,
}

impl Exchange {
    /// Sends a request whose body comes in these pieces, each in a chunk of its own.
    async fn send(address: SocketAddr, path: &str, form: Form, pieces: &[&[u8]]) -> Self {
        let content_type = form.content_type();
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {content_type}\r\n\
             accept: {content_type}\r\nx-grpc-web: 1\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        .into_bytes();
        for piece in pieces {
            request.extend(format!("{:x}\r\n", piece.len()).into_bytes());
            request.extend(*piece);
            request.extend(b"\r\n");
        }
        request.extend(b"0\r\n\r\n");
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        socket.write_all(&request).await.unwrap();
        Self {
            socket,
            received: BytesMut::new(),
        }
    }

    /// The next line, without its end.
    async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.received.windows(2).position(|two| two == b"\r\n") {
                let line = self.received.split_to(end);
                self.received.advance(2);
                return String::from_utf8(line.into()).unwrap();
            }
            self.receive().await;
        }
    }

    /// The status line and the headers.
    async fn head(&mut self) -> Vec<String> {
        let mut lines = vec![self.line().await];
        loop {
            match self.line().await {
                end if end.is_empty() => return lines,
                line => lines.push(line),
            }
        }
    }

    /// The next chunk; `None` after the last one.
    async fn chunk(&mut self) -> Option<Vec<u8>> {
        let length = usize::from_str_radix(&self.line().await, 16).unwrap();
        while self.received.len() < length + 2 {
            self.receive().await;
        }
        let chunk = self.received.split_to(length);
        assert_eq!(self.line().await, "");
        (length > 0).then(|| chunk.into())
    }

    async fn receive(&mut self) {
        let read = self.socket.read_buf(&mut self.received).await.unwrap();
        assert_ne!(read, 0, "the server closed the connection");
    }
}

/// A message in its frame.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message].concat()
}

/// A body in its form.
fn formed(form: Form, frames: &[u8]) -> Vec<u8> {
    match form {
        Form::Binary => frames.to_vec(),
        Form::Text => STANDARD.encode(frames).into_bytes(),
    }
}

/// The one frame of a chunk, which has to be whole: its flag and its payload.
fn frame_of(form: Form, chunk: &[u8]) -> (u8, Vec<u8>) {
    let bytes = match form {
        Form::Binary => chunk.to_vec(),
        // Strict: the padding stands at the end of the chunk and nowhere else.
        Form::Text => STANDARD.decode(chunk).expect("a chunk is base64 by itself"),
    };
    let (mut head, payload) = bytes.split_at(5);
    let (flag, length) = (head.get_u8(), head.get_u32());
    assert_eq!(length as usize, payload.len(), "a chunk is a frame");
    (flag, payload.to_vec())
}

/// Goal: where a body is cut into pieces changes nothing. Method: the same query whole, byte by byte,
/// and cut in two at every place, in both forms; the answer is a page and the trailers, to the byte.
#[tokio::test]
async fn a_request_may_come_in_any_pieces() {
    let server = TestServer::start().await;
    ids(server.publish(vec![message(1, 1)]).await);
    let topic = group_topic(1);
    let request = page_of(vec![after(topic.as_bytes(), 0)], 0).encode_to_vec();
    for form in FORMS {
        let body = formed(form, &framed(&request));
        let mut cuts: Vec<Vec<&[u8]>> = vec![vec![&body[..]], body.chunks(1).collect()];
        cuts.extend((1..body.len()).map(|at| {
            let (one, two) = body.split_at(at);
            vec![one, two]
        }));
        let mut whole = None;
        for pieces in cuts {
            let mut exchange = Exchange::send(server.address(), QUERY, form, &pieces).await;
            let head = exchange.head().await;
            assert_eq!(head[0], "HTTP/1.1 200 OK");
            let mut answer = Vec::new();
            while let Some(chunk) = exchange.chunk().await {
                answer.push(frame_of(form, &chunk));
            }
            let [(0x00, page), (0x80, trailers)] = answer.as_slice() else {
                panic!("{form:?}, {} pieces: {answer:?}", pieces.len());
            };
            assert_eq!(trailers, b"grpc-status:0\r\n");
            let whole: &Vec<u8> = whole.get_or_insert_with(|| page.clone());
            assert_eq!(page, whole, "{form:?}, {} pieces", pieces.len());
        }
    }
    server.stop().await;
}

/// Goal: a static stream is delivered frame by frame, and each frame of the text form is base64 by
/// itself, so that a client need not wait for the next one; padding is in the middle of the body then.
/// Method: one envelope at a time, the next only when the one before has been read; the trailers come
/// when the server stops.
#[tokio::test]
async fn a_static_stream_comes_frame_by_frame() {
    const KEY: [u8; 32] = [7; 32];

    for form in FORMS {
        let server = TestServer::start().await;
        let topics = vec![after(&topic_bytes(1, &KEY), 0)];
        let request = SubscribeStaticRequest { topics }.encode_to_vec();
        let body = formed(form, &framed(&request));
        let mut exchange = Exchange::send(server.address(), SUBSCRIBE_STATIC, form, &[&body]).await;
        let head = exchange.head().await;
        assert_eq!(head[0], "HTTP/1.1 200 OK");
        let content_type = format!("content-type: {}", form.content_type());
        assert!(head.contains(&content_type), "{head:?}");

        let started = exchange.chunk().await.unwrap();
        assert_eq!(frame_of(form, &started).0, 0x00);
        let mut padded = 0;
        for length in 1..9 {
            let envelope = welcome::v1(&KEY, &vec![7; length]);
            ids(server.publish(vec![envelope]).await);
            let chunk = exchange.chunk().await.unwrap();
            assert_eq!(frame_of(form, &chunk).0, 0x00);
            padded += usize::from(chunk.ends_with(b"="));
        }
        if matches!(form, Form::Text) {
            assert_ne!(padded, 0, "no frame had padding");
        }

        server.stop().await;
        let trailers = exchange.chunk().await.unwrap();
        let (flag, trailers) = frame_of(form, &trailers);
        assert_eq!(flag, 0x80);
        let trailers = String::from_utf8(trailers).unwrap();
        assert!(trailers.contains("grpc-status:14\r\n"), "{trailers}");
        assert!(trailers.ends_with("\r\n"), "{trailers}");
        assert_eq!(exchange.chunk().await, None);
    }
}

/// An error before the first message is all headers: status 200, the media type of the request, the
/// gRPC status among the headers and not one byte of body, from the services and from the layers.
#[tokio::test]
async fn an_immediate_error_is_all_headers() {
    let server = TestServer::builder()
        .table(
            "auth",
            "enabled = true\napi_keys.phone = \"0123456789abcdef0123456789abcdef\"",
        )
        .start()
        .await;
    let open = TestServer::start().await;
    let cases = [
        (&open, QUERY, 3),
        (&open, SUBSCRIBE_STATIC, 3),
        (&open, "/xmtp.backend.v1.QueryService/Unknown", 12),
        (&server, QUERY, 16),
        (&server, SUBSCRIBE_STATIC, 16),
    ];
    for (server, path, code) in cases {
        for form in FORMS {
            // A query of a topic that is none, and a subscription to it.
            let topics = vec![after(b"", 0)];
            let body = formed(form, &framed(&page_of(topics, 0).encode_to_vec()));
            let mut exchange = Exchange::send(server.address(), path, form, &[&body]).await;
            let head = exchange.head().await;
            let claim = format!("{path} as {form:?}: {head:?}");
            assert_eq!(head[0], "HTTP/1.1 200 OK", "{claim}");
            for line in [
                format!("content-type: {}", form.content_type()),
                format!("grpc-status: {code}"),
                "content-length: 0".to_owned(),
                "access-control-allow-origin: *".to_owned(),
            ] {
                assert!(head.contains(&line), "{line} in {claim}");
            }
            assert!(exchange.received.is_empty(), "{claim}");
        }
    }
    open.stop().await;
    server.stop().await;
}
