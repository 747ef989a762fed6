//! The future of the scope layer; see the [module page](super).

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

use super::{Scope, ScopeBody};

pin_project! {
    /// The inner future, polled and dropped inside its scope.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ScopeFuture<F, C>
    where
        C: Scope,
    {
        // Emptied before the scope goes, so that its drop can run inside.
        #[pin]
        inner: Option<F>,
        scope: C,
    }

    impl<F, C: Scope> PinnedDrop for ScopeFuture<F, C> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let _entered = this.scope.enter();
            this.inner.set(None);
        }
    }
}

impl<F, C: Scope> ScopeFuture<F, C> {
    pub(super) const fn new(inner: F, scope: C) -> Self {
        Self {
            inner: Some(inner),
            scope,
        }
    }
}

impl<F, C, R, E> Future for ScopeFuture<F, C>
where
    F: Future<Output = Result<Response<R>, E>>,
    C: Scope,
{
    type Output = Result<Response<ScopeBody<R, C>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let _entered = this.scope.enter();
        let Some(inner) = this.inner.as_mut().as_pin_mut() else {
            // Polled after it was ready, which no caller may do.
            return Poll::Pending;
        };
        let answered = ready!(inner.poll(cx));
        this.inner.set(None);
        Poll::Ready(answered.map(|response| {
            let scope = this.scope.clone();
            response.map(|body| ScopeBody::new(body, scope))
        }))
    }
}
