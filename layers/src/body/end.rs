//! How a body ended, told to a hook exactly once.
//!
//! A body ends in one of four ways, and a transport does not always ask for the end: it stops
//! polling as soon as a body says it is over, and it drops bodies whose caller went away. So the
//! hook is told when the last frame passes, when the body is over from the start, when it fails, and
//! otherwise when it is dropped. It must never be told twice, and never not at all (ARC-095,
//! ARC-098).

use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

/// How something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// All frames were handed on.
    Complete,
    /// The service or the body answered with an error.
    Failed,
    /// It was dropped before its end, mostly because the caller went away.
    Dropped,
    /// It was dropped because a panic unwound through it.
    Panicked,
}

/// Takes the one ending.
pub trait OnEnd {
    /// Called exactly once, with the trailers when the body had some.
    ///
    /// It may run while a drop or even a panic is in progress, so it must not panic: a second panic
    /// during the first aborts the process.
    fn on_end(self, ending: Ending, trailers: Option<&HeaderMap>);
}

/// Tells a hook its ending: by [`finish`](Self::finish) when it is known, otherwise on drop.
///
/// A future holds one until it has a body, then hands it to [`EndBody::guarded`].
#[derive(Debug)]
pub struct EndGuard<H: OnEnd> {
    hook: Option<H>,
}

impl<H: OnEnd> EndGuard<H> {
    /// Arms the guard: from here on, `hook` will be told.
    pub const fn new(hook: H) -> Self {
        Self { hook: Some(hook) }
    }

    /// Tells the hook, unless it was told before.
    pub fn finish(&mut self, ending: Ending, trailers: Option<&HeaderMap>) {
        if let Some(hook) = self.hook.take() {
            hook.on_end(ending, trailers);
        }
    }

    /// The hook, while it has not been told.
    pub const fn hook(&self) -> Option<&H> {
        self.hook.as_ref()
    }
}

impl<H: OnEnd> Drop for EndGuard<H> {
    fn drop(&mut self) {
        // Runtimes drop a task that panicked while still unwinding, which is how the two differ.
        let ending = if thread::panicking() {
            Ending::Panicked
        } else {
            Ending::Dropped
        };
        self.finish(ending, None);
    }
}

pin_project! {
    /// A body that tells an [`OnEnd`] hook how it ended and is otherwise its inner body.
    #[derive(Debug)]
    pub struct EndBody<B, H>
    where
        B: Body,
        H: OnEnd,
    {
        #[pin]
        inner: B,
        guard: EndGuard<H>,
    }

    impl<B: Body, H: OnEnd> PinnedDrop for EndBody<B, H> {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            // A body may learn between two polls that it is over; its transport then asks no more.
            if !thread::panicking() && this.inner.is_end_stream() {
                this.guard.finish(Ending::Complete, None);
            }
        }
    }
}

impl<B: Body, H: OnEnd> EndBody<B, H> {
    /// Wraps `inner`; a body that is over already is told at once.
    pub fn new(inner: B, hook: H) -> Self {
        Self::guarded(inner, EndGuard::new(hook))
    }

    /// Wraps `inner` under a guard that may have been carried from an earlier stage.
    pub fn guarded(inner: B, mut guard: EndGuard<H>) -> Self {
        // A transport does not poll such a body, it only drops it.
        if inner.is_end_stream() {
            guard.finish(Ending::Complete, None);
        }
        Self { inner, guard }
    }
}

impl<B: Body, H: OnEnd> Body for EndBody<B, H> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let polled = this.inner.as_mut().poll_frame(cx);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(None) => this.guard.finish(Ending::Complete, None),
            Poll::Ready(Some(Err(_))) => this.guard.finish(Ending::Failed, None),
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_ref() {
                    // Nothing may follow trailers.
                    this.guard.finish(Ending::Complete, Some(trailers));
                } else if this.inner.is_end_stream() {
                    // Nobody will poll again: this was the last frame.
                    this.guard.finish(Ending::Complete, None);
                }
            }
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
