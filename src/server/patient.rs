//! The time a peer has: to say what it wants when it is new, and to take what it is sent (ARC-002).
//!
//! A library can bound the head of a request only once it knows the protocol, and it learns that from
//! the peer. So the socket itself carries a deadline, until it has delivered the preface of HTTP/2 or
//! a whole first head of HTTP/1.1.
//!
//! After that, a peer of HTTP/2 always reads: flow control keeps back what it has no room for. One whose
//! socket takes nothing answers no ping either, and cannot even be sent away, because the goodbye
//! waits behind the bytes that it does not take. A peer of HTTP/1.1 has no other way to pause a
//! response, so it may.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// What HTTP/2 with prior knowledge begins with (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A socket whose peer has to begin in time and, with HTTP/2, to go on reading.
#[derive(Debug)]
pub(super) struct Patient<S> {
    socket: S,
    /// While the peer has not begun.
    deadline: Option<Pin<Box<Sleep>>>,
    begun: Begun,
    /// How long a peer of HTTP/2 may take nothing.
    taking: Duration,
    /// While it takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    /// A socket whose peer begins within `opening` and, with HTTP/2, takes something every `taking`.
    pub(super) fn new(socket: S, opening: Duration, taking: Duration) -> Self {
        Self {
            socket,
            deadline: Some(Box::pin(tokio::time::sleep(opening))),
            begun: Begun::Preface { seen: 0 },
            taking,
            stalled: None,
        }
    }

    /// What a write has come to, in view of how long none has come to anything.
    fn written(
        &mut self,
        write: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if write.is_ready() || self.begun != Begun::Http2 {
            self.stalled = None;
            return write;
        }
        let taking = self.taking;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(taking)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => write,
        }
    }
}

/// How far a peer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    /// Everything so far is the beginning of [`PREFACE`].
    Preface { seen: usize },
    /// It is HTTP/1.1; tells whether the last line feed has only carriage returns behind it.
    Head { line_is_empty: bool },
    /// The whole preface.
    Http2,
    /// An empty line after the head.
    Http1,
}

impl Begun {
    fn read(self, bytes: &[u8]) -> Self {
        bytes.iter().fold(self, |begun, &byte| match begun {
            Self::Preface { seen } if PREFACE.get(seen) == Some(&byte) => {
                if seen + 1 == PREFACE.len() {
                    Self::Http2
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
            Self::Http1 | Self::Http2 => begun,
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
            ) => Self::Http1,
            (Self::Head { .. }, b'\n') => Self::Head {
                line_is_empty: true,
            },
            (Self::Head { line_is_empty }, b'\r') => Self::Head { line_is_empty },
            (Self::Head { .. }, _) => Self::Head {
                line_is_empty: false,
            },
            (begun @ (Self::Preface { .. } | Self::Http1 | Self::Http2), _) => begun,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
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
        let bytes = buffer.filled().get(before..).unwrap_or_default();
        this.begun = this.begun.read(bytes);
        if matches!(this.begun, Begun::Http1 | Begun::Http2) {
            this.deadline = None;
        } else if deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.written(write, cx)
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
        let write = Pin::new(&mut self.socket).poll_write_vectored(cx, buffers);
        self.written(write, cx)
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
                let mut socket = Patient::new(socket, PATIENCE, PATIENCE);
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
        let mut socket = Patient::new(socket, PATIENCE, PATIENCE);
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

    /// Goal: a peer of HTTP/2 that takes nothing is given up, one that takes something now and then is
    /// not, and one of HTTP/1.1 may pause. Method: a pipe that is full until somebody reads.
    #[tokio::test(start_paused = true)]
    async fn only_http2_has_to_go_on_reading() {
        let head = b"GET / HTTP/1.1\r\n\r\n".as_slice();
        for (beginning, reads, ends) in [
            (PREFACE, false, true),
            (PREFACE, true, false),
            (head, false, false),
        ] {
            let (mut peer, socket) = duplex(64);
            let mut socket = Patient::new(socket, PATIENCE, PATIENCE);
            peer.write_all(beginning).await.unwrap();
            socket.read_buf(&mut Vec::new()).await.unwrap();
            let writing = timeout(PATIENCE * 4, socket.write_all(&[0; 1024]));
            let reading = async {
                if reads {
                    loop {
                        tokio::time::sleep(PATIENCE / 2).await;
                        peer.read_exact(&mut [0; 8]).await.unwrap();
                    }
                }
                std::future::pending::<()>().await;
            };
            let written = tokio::select! {
                written = writing => written,
                () = reading => unreachable!("it never returns"),
            };
            let kind = written.map(|written| written.map_err(|error| error.kind()));
            assert_eq!(kind.is_ok_and(|w| w == Err(io::ErrorKind::TimedOut)), ends);
        }
    }
}
