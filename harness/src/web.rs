//! A gRPC-Web client made of bytes, so that no library can hide a fault.

use std::marker::PhantomData;
use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpStream;
use tonic::Status;

/// The HTTP version of a call.
#[derive(Clone, Copy, Debug)]
pub enum Http {
    /// HTTP/1.1.
    One,
    /// HTTP/2 with prior knowledge.
    Two,
}

/// How frames travel in the body.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// As they are.
    Binary,
    /// In base64.
    Text,
}

impl Form {
    /// Its media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Binary => "application/grpc-web+proto",
            Self::Text => "application/grpc-web-text+proto",
        }
    }
}

/// Where and how to call.
#[derive(Clone, Copy, Debug)]
pub struct WebCall {
    /// The port.
    pub address: SocketAddr,
    /// The HTTP version.
    pub http: Http,
    /// The form of the body.
    pub form: Form,
}

impl WebCall {
    /// One request message with these headers, one response message.
    pub async fn unary<Q, A>(
        self,
        path: &str,
        headers: &HeaderMap,
        request: &Q,
    ) -> Result<A, Status>
    where
        Q: Message,
        A: Message + Default,
    {
        let response = self.ask(path, headers, std::slice::from_ref(request)).await;
        let headers = response.headers().clone();
        let body = response
            .into_body()
            .collect()
            .await
            .expect("the whole body")
            .to_bytes();
        self.read_answer(&headers, body)
    }

    /// Sends these request messages, and answers with the messages of the response as they come.
    pub async fn stream<Q, A>(self, path: &str, requests: &[Q]) -> Result<WebStream<A>, Status>
    where
        Q: Message,
        A: Message + Default,
    {
        let response = self.ask(path, &HeaderMap::new(), requests).await;
        if let Some(status) = Status::from_header_map(response.headers()) {
            return Err(status);
        }
        Ok(WebStream {
            body: response.into_body(),
            form: self.form,
            text: BytesMut::new(),
            frames: BytesMut::new(),
            message: PhantomData,
        })
    }

    async fn ask<Q: Message>(
        self,
        path: &str,
        headers: &HeaderMap,
        requests: &[Q],
    ) -> Response<Incoming> {
        let mut body = BytesMut::new();
        for request in requests {
            let message = request.encode_to_vec();
            body.put_u8(0);
            body.put_u32(u32::try_from(message.len()).expect("a message fits a frame"));
            body.put_slice(&message);
        }
        let body = match self.form {
            Form::Binary => body.freeze(),
            Form::Text => STANDARD.encode(&body).into(),
        };
        let mut request = Request::post(format!("http://{}{path}", self.address))
            .header("host", self.address.to_string())
            .header("content-type", self.form.content_type())
            .header("accept", self.form.content_type())
            .header("x-grpc-web", "1")
            .body(Full::new(body))
            .expect("a well-formed request");
        request.headers_mut().extend(headers.clone());

        let response = self.send(request).await;
        assert_eq!(
            response.status(),
            200,
            "gRPC-Web failures travel as gRPC statuses"
        );
        assert_eq!(response.headers()["content-type"], self.form.content_type());
        response
    }

    /// Sends a request as it is, on a connection of its own.
    pub async fn send(self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address)
            .await
            .expect("the server accepts");
        let io = TokioIo::new(stream);
        match self.http {
            Http::One => {
                let (mut sender, connection) = hyper::client::conn::http1::handshake(io)
                    .await
                    .expect("HTTP/1.1");
                tokio::spawn(connection);
                sender.send_request(request).await.expect("an answer")
            }
            Http::Two => {
                let executor = TokioExecutor::new();
                let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io)
                    .await
                    .expect("HTTP/2");
                tokio::spawn(connection);
                sender.send_request(request).await.expect("an answer")
            }
        }
    }

    fn read_answer<A: Message + Default>(
        self,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<A, Status> {
        if let Some(status) = Status::from_header_map(headers) {
            assert!(body.is_empty(), "a trailers-only answer has no body");
            return Err(status);
        }
        let mut frames = match self.form {
            Form::Binary => body,
            Form::Text => decode_text(&body),
        };
        let mut message = None;
        let mut trailers = None;
        while frames.has_remaining() {
            let flag = frames.get_u8();
            let length = frames.get_u32() as usize;
            let data = frames.split_to(length);
            match flag {
                0x00 => message = Some(A::decode(data).expect("a well-formed answer")),
                0x80 => trailers = Some(read_trailers(&data)),
                other => panic!("unknown frame flag {other:#x}"),
            }
        }
        let trailers = trailers.expect("the trailers frame");
        let status = Status::from_header_map(&trailers).expect("a status in the trailers");
        match (status.code(), message) {
            (tonic::Code::Ok, Some(message)) => Ok(message),
            (tonic::Code::Ok, None) => panic!("success without a message"),
            (_, _) => Err(status),
        }
    }
}

/// The messages of a response, one by one, while it is open.
#[derive(Debug)]
pub struct WebStream<A> {
    body: Incoming,
    form: Form,
    /// Base64 that is not a whole group yet.
    text: BytesMut,
    /// Bytes that are not a whole frame yet.
    frames: BytesMut,
    message: PhantomData<fn() -> A>,
}

impl<A: Message + Default> WebStream<A> {
    /// The next message, once it is there; `None` after a success.
    pub async fn next(&mut self) -> Result<Option<A>, Status> {
        loop {
            if let Some((flag, data)) = self.take_frame() {
                match flag {
                    0x00 => return Ok(Some(A::decode(data).expect("a well-formed answer"))),
                    0x80 => {
                        let trailers = read_trailers(&data);
                        let status = Status::from_header_map(&trailers).expect("a status");
                        return if status.code() == tonic::Code::Ok {
                            Ok(None)
                        } else {
                            Err(status)
                        };
                    }
                    other => panic!("unknown frame flag {other:#x}"),
                }
            }
            let Some(frame) = self.body.frame().await else {
                panic!("the body ended without trailers");
            };
            let frame = match frame {
                Ok(frame) => frame,
                Err(error) => return Err(Status::unavailable(error.to_string())),
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            match self.form {
                Form::Binary => self.frames.put_slice(&data),
                Form::Text => {
                    self.text.put_slice(&data);
                    let whole = self.text.len() / 4 * 4;
                    let whole = self.text.split_to(whole);
                    self.frames.put_slice(&decode_text(&whole));
                }
            }
        }
    }

    fn take_frame(&mut self) -> Option<(u8, Bytes)> {
        let mut head = self.frames.get(..5)?;
        let flag = head.get_u8();
        let length = head.get_u32() as usize;
        if self.frames.len() < 5 + length {
            return None;
        }
        self.frames.advance(5);
        Some((flag, self.frames.split_to(length).freeze()))
    }
}

/// Text bodies are base64 runs that may each be padded.
fn decode_text(body: &[u8]) -> Bytes {
    let mut frames = BytesMut::new();
    let mut rest = body;
    while !rest.is_empty() {
        let text = rest.iter().take_while(|&&byte| byte != b'=').count();
        let padding = rest[text..]
            .iter()
            .take_while(|&&byte| byte == b'=')
            .count();
        let (run, after) = rest.split_at(text + padding);
        frames.put_slice(&STANDARD.decode(run).expect("base64"));
        rest = after;
    }
    frames.freeze()
}

fn read_trailers(data: &[u8]) -> HeaderMap {
    let text = std::str::from_utf8(data).expect("trailers are text");
    text.split("\r\n")
        .filter(|line| !line.is_empty())
        .map(|line| {
            let (name, value) = line.split_once(':').expect("name and value");
            let name: HeaderName = name.parse().expect("a header name");
            (
                name,
                HeaderValue::from_str(value.trim_start()).expect("a header value"),
            )
        })
        .collect()
}
