//! The body of the scope layer; see the [module page](super).

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::Scope;

pin_project! {
    /// The inner body, polled and dropped inside its scope.
    #[derive(Debug)]
    pub struct ScopeBody<B, C>
    where
        C: Scope,
    {
        // Present until the drop, which empties it inside the scope.
        #[pin]
        inner: Option<B>,
        scope: C,
    }

    impl<B, C: Scope> PinnedDrop for ScopeBody<B, C> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let _entered = this.scope.enter();
            this.inner.set(None);
        }
    }
}

impl<B, C: Scope> ScopeBody<B, C> {
    pub(super) const fn new(inner: B, scope: C) -> Self {
        Self {
            inner: Some(inner),
            scope,
        }
    }
}

impl<B: Body, C: Scope> Body for ScopeBody<B, C> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let _entered = this.scope.enter();
        match this.inner.as_pin_mut() {
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
