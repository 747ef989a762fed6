//! The body of the drain layer; see the [module page](super).

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::gate::Inside;
use crate::body::OrEmpty;

pin_project! {
    /// The inner body, or none for a refusal; its request leaves the gate when it is dropped.
    #[derive(Debug)]
    pub struct DrainBody<B> {
        #[pin]
        inner: OrEmpty<B>,
        // Dropped last: nothing of the request is left when it leaves.
        inside: Option<Inside>,
    }
}

impl<B> DrainBody<B> {
    pub(super) const fn new(inner: B, inside: Option<Inside>) -> Self {
        Self {
            inner: OrEmpty::inner(inner),
            inside,
        }
    }

    pub(super) const fn refused(inner: OrEmpty<B>) -> Self {
        Self {
            inner,
            inside: None,
        }
    }
}

impl<B: Body> Body for DrainBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().inner.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
