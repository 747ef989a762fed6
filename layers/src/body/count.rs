//! A body whose data bytes are counted frame by frame.
//!
//! It must never buffer, never allocate per frame and never trust `content-length`: the count is
//! what passed through, no more (ARC-095).

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// Takes the length of each data frame that passes.
pub trait Meter {
    /// Adds `bytes`, the length of one data frame; trailers are not bytes of the body.
    ///
    /// Called while the frame is on its way, so it must not block or take a lock.
    fn add(&self, bytes: u64);
}

pin_project! {
    /// A body that reports the length of each data frame to a [`Meter`] and is otherwise its inner
    /// body.
    #[derive(Debug)]
    pub struct CountBody<B, M> {
        #[pin]
        inner: B,
        meter: M,
    }
}

impl<B, M: Meter> CountBody<B, M> {
    /// Wraps `inner`; bytes polled before this moment are not counted.
    pub const fn new(inner: B, meter: M) -> Self {
        Self { inner, meter }
    }
}

impl<B: Body, M: Meter> Body for CountBody<B, M> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let polled = this.inner.poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            // No supported target has a `usize` wider than 64 bits.
            this.meter.add(data.remaining() as u64);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
