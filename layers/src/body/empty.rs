//! The body of a layer that either passes an answer on or answers by itself.
//!
//! It must never ask the inner body for an empty value of its own: a wrapped body that reports its
//! ending has none.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The inner body, or no body at all.
    #[derive(Debug)]
    pub struct OrEmpty<B> {
        #[pin]
        inner: Option<B>,
    }
}

impl<B> OrEmpty<B> {
    /// Passes `inner` on unchanged.
    pub const fn inner(inner: B) -> Self {
        Self { inner: Some(inner) }
    }

    /// A body that has ended already, so that a transport sends headers and nothing else.
    #[must_use]
    pub const fn empty() -> Self {
        Self { inner: None }
    }
}

impl<B> Default for OrEmpty<B> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<B: Body> Body for OrEmpty<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        match self.project().inner.as_pin_mut() {
            Some(inner) => inner.poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(B::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), B::size_hint)
    }
}
