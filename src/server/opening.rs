//! The time a new connection has to say what it wants.
//!
//! A library can bound the head of a request only once it knows the protocol, and it learns that from
//! the peer. So the socket itself carries a deadline, until it has delivered the preface of HTTP/2 or
//! a whole first head of HTTP/1.1. From then on the protocols have bounds of their own, and this is
//! nothing but a socket: it never closes a connection that has asked for something (ARC-002).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// What HTTP/2 with prior knowledge begins with (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A socket whose peer has to begin in time.
#[derive(Debug)]
pub(super) struct Opening<S> {
    socket: S,
    /// While the peer has not begun.
    deadline: Option<Pin<Box<Sleep>>>,
    begun: Begun,
}

impl<S> Opening<S> {
    pub(super) fn new(socket: S, patience: Duration) -> Self {
        Self {
            socket,
            deadline: Some(Box::pin(tokio::time::sleep(patience))),
            begun: Begun::Preface { seen: 0 },
        }
    }
}

/// How far a peer has come.
#[derive(Debug, PartialEq, Eq)]
enum Begun {
    /// Everything so far is the beginning of [`PREFACE`].
    Preface { seen: usize },
    /// It is HTTP/1.1; tells whether the last line feed has only carriage returns behind it.
    Head { line_is_empty: bool },
    /// The preface, or an empty line after the head.
    Whole,
}

impl Begun {
    fn read(self, bytes: &[u8]) -> Self {
        bytes.iter().fold(self, |begun, &byte| match begun {
            Self::Preface { seen } if PREFACE.get(seen) == Some(&byte) => {
                if seen + 1 == PREFACE.len() {
                    Self::Whole
                } else {
                    Self::Preface { seen: seen + 1 }
                }
            }
            // What was seen has a line of its own, or none: no head is over in it before its last
            // bytes, which only the preface has.
            Self::Preface { .. } => Self::Head {
                line_is_empty: false,
            }
            .then(byte),
            Self::Head { .. } => begun.then(byte),
            Self::Whole => Self::Whole,
        })
    }

    /// One more byte of a head. Lines may end in a line feed alone, as the parser takes them.
    fn then(self, byte: u8) -> Self {
        match (self, byte) {
            (
                Self::Head {
                    line_is_empty: true,
                },
                b'\n',
            ) => Self::Whole,
            (Self::Head { .. }, b'\n') => Self::Head {
                line_is_empty: true,
            },
            (Self::Head { line_is_empty }, b'\r') => Self::Head { line_is_empty },
            (Self::Head { .. }, _) => Self::Head {
                line_is_empty: false,
            },
            (begun @ (Self::Preface { .. } | Self::Whole), _) => begun,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Opening<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.socket).poll_read(cx, buffer);
        let Some(deadline) = &mut this.deadline else {
            return read;
        };
        let begun = std::mem::replace(&mut this.begun, Begun::Whole);
        this.begun = begun.read(buffer.filled().get(before..).unwrap_or_default());
        if this.begun == Begun::Whole {
            this.deadline = None;
        } else if deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Opening<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, buffers)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// Goal: exactly the preface, or a head with its empty line, is a beginning, however it is cut
    /// into pieces. Method: a table of bytes, each sent whole and byte by byte.
    #[tokio::test(start_paused = true)]
    async fn a_beginning_is_a_preface_or_a_whole_head() {
        let cases: [(&[u8], bool); 14] = [
            (b"", false),
            (b"P", false),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r", false),
            (PREFACE, true),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nrest", true),
            (b"POST / HTTP/1.1\r\n", false),
            (b"POST / HTTP/1.1\r\nhost: a\r\n", false),
            (b"POST / HTTP/1.1\r\nhost: a\r\n\r", false),
            (b"POST / HTTP/1.1\r\nhost: a\r\n\r\n", true),
            (b"POST / HTTP/1.1\r\nhost: a\r\n\r\nbody", true),
            (b"GET / HTTP/1.1\n\n", true),
            (b"GET / HTTP/1.1\nhost: a\n", false),
            // Not the preface, and no head of a request either; the parser says so.
            (b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", true),
            (&[0; 64], false),
        ];
        for (bytes, begins) in cases {
            for piece in [1, 1024] {
                let (mut peer, socket) = duplex(1024);
                let mut socket = Opening::new(socket, PATIENCE);
                let mut received = Vec::new();
                for piece in bytes.chunks(piece) {
                    peer.write_all(piece).await.unwrap();
                    socket.read_buf(&mut received).await.unwrap();
                }
                assert_eq!(received, bytes);
                let read = timeout(PATIENCE * 2, socket.read_buf(&mut received)).await;
                let ended = read.is_ok_and(|read| read.is_err());
                assert_eq!(ended, !begins, "{}", bytes.escape_ascii());
            }
        }
    }

    /// Goal: bytes that come one by one do not move the deadline. Method: a byte in every second.
    #[tokio::test(start_paused = true)]
    async fn a_slow_peer_gets_no_more_time() {
        let (mut peer, socket) = duplex(1024);
        let mut socket = Opening::new(socket, PATIENCE);
        let started = tokio::time::Instant::now();
        let slowly = tokio::spawn(async move {
            while peer.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let mut received = Vec::new();
        let error = loop {
            if let Err(error) = socket.read_buf(&mut received).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(started.elapsed(), PATIENCE);
        drop(socket);
        slowly.await.unwrap();
    }
}
