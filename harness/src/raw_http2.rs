//! A peer of HTTP/2 made of frames, which does what no library would do.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;

use bytes::{Buf as _, BufMut as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// What a connection begins with (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames (RFC 9113, 6).
#[expect(missing_docs, reason = "the names are those of the specification")]
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

/// Flags of frames.
#[expect(missing_docs, reason = "the names are those of the specification")]
pub mod flag {
    pub const NONE: u8 = 0;
    /// Of SETTINGS and PING.
    pub const ACK: u8 = 1;
    /// Of DATA and HEADERS.
    pub const END_STREAM: u8 = 1;
    /// Of HEADERS and CONTINUATION.
    pub const END_HEADERS: u8 = 4;
}

/// A received frame.
#[derive(Debug)]
pub struct RawFrame {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream; 0 for the connection.
    pub stream: u32,
    /// What follows its head.
    pub payload: Vec<u8>,
}

impl RawFrame {
    /// The error code of a RST_STREAM or a GOAWAY.
    pub fn error_code(&self) -> Option<u32> {
        let mut code = match self.kind {
            kind::RST_STREAM => self.payload.get(..4)?,
            kind::GOAWAY => self.payload.get(4..8)?,
            _ => return None,
        };
        Some(code.get_u32())
    }
}

/// A connection that sends what it is told to and nothing else.
#[derive(Debug)]
pub struct RawHttp2 {
    socket: TcpStream,
}

impl RawHttp2 {
    /// Connects and sends the preface with these settings (identifier and value).
    pub async fn connect(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let socket = TcpStream::connect(address).await.expect("a server");
        let mut peer = Self { socket };
        peer.send_bytes(PREFACE).await.expect("an open connection");
        let mut payload = Vec::new();
        for (identifier, value) in settings {
            payload.put_u16(*identifier);
            payload.put_u32(*value);
        }
        let sent = peer.send(kind::SETTINGS, flag::NONE, 0, &payload).await;
        sent.expect("an open connection");
        peer
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    ///
    /// The server has closed the connection.
    pub async fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes).await
    }

    /// Sends a frame.
    ///
    /// # Errors
    ///
    /// The server has closed the connection.
    pub async fn send(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
    ) -> io::Result<()> {
        self.send_bytes(&frame(kind, flags, stream, payload)).await
    }

    /// The next frame; `None` once the server has closed the connection.
    pub async fn next(&mut self) -> Option<RawFrame> {
        read_frame(&mut self.socket).await
    }

    /// Sends bytes as they are and reads meanwhile, until the server sends it away (GOAWAY) or closes
    /// the connection: answers with the error code, if it came through.
    pub async fn flood(&mut self, bytes: &[u8]) -> Option<u32> {
        let (mut receive, mut send) = self.socket.split();
        let mut goodbye = pin!(async {
            loop {
                let frame = read_frame(&mut receive).await?;
                if frame.kind == kind::GOAWAY {
                    return frame.error_code();
                }
            }
        });
        tokio::select! {
            code = &mut goodbye => code,
            // When the server has closed, the reading side knows.
            _ = send.write_all(bytes) => goodbye.await,
        }
    }

    /// The next frame of this type, with or without the first flag; `None` once the server has closed
    /// the connection. Frames before it are dropped, unanswered.
    pub async fn until(&mut self, kind: u8, flags: u8) -> Option<RawFrame> {
        loop {
            let frame = self.next().await?;
            if frame.kind == kind && frame.flags & 1 == flags & 1 {
                return Some(frame);
            }
        }
    }

    /// Whether the server answers a ping.
    pub async fn is_answered(&mut self) -> bool {
        let sent = self.send(kind::PING, flag::NONE, 0, b"a person").await;
        sent.is_ok() && self.until(kind::PING, flag::ACK).await.is_some()
    }
}

async fn read_frame(socket: &mut (impl AsyncRead + Unpin)) -> Option<RawFrame> {
    let mut head = [0; 9];
    socket.read_exact(&mut head).await.ok()?;
    let mut head = head.as_slice();
    let length = head.get_uint(3);
    let (kind, flags, stream) = (head.get_u8(), head.get_u8(), head.get_u32());
    let mut payload = vec![0; usize::try_from(length).expect("24 bits")];
    socket.read_exact(&mut payload).await.ok()?;
    Some(RawFrame {
        kind,
        flags,
        stream,
        payload,
    })
}

/// The bytes of a frame.
///
/// # Panics
///
/// Payloads of 16 MiB and more have no frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u64::try_from(payload.len()).expect("a length");
    assert!(length < 1 << 24, "a frame has a length of three bytes");
    let mut frame = Vec::with_capacity(9 + payload.len());
    frame.put_uint(length, 3);
    frame.put_slice(&[kind, flags]);
    frame.put_u32(stream);
    frame.put_slice(payload);
    frame
}

/// A header field that no table remembers (RFC 7541, 6.2.2).
///
/// # Panics
///
/// Names and values of 2 MiB and more.
pub fn field(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0];
    for text in [name, value] {
        put_length(&mut field, text.len());
        field.put_slice(text.as_bytes());
    }
    field
}

/// An integer with a prefix of seven bits (RFC 7541, 5.1).
fn put_length(field: &mut Vec<u8>, length: usize) {
    const PREFIX: usize = 127;
    if length < PREFIX {
        field.push(u8::try_from(length).expect("seven bits"));
        return;
    }
    field.push(127);
    let mut rest = length - PREFIX;
    while rest >= 128 {
        field.push(u8::try_from(rest % 128).expect("seven bits") | 128);
        rest /= 128;
    }
    field.push(u8::try_from(rest).expect("seven bits"));
}

/// The head of a gRPC call.
pub fn grpc_head(path: &str) -> Vec<u8> {
    [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]
    .iter()
    .flat_map(|(name, value)| field(name, value))
    .collect()
}
