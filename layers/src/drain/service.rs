//! The service of the drain layer; see the [module page](super).

use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::future::Passage;
use super::gate::Gate;
use super::{DrainBody, DrainFuture};
use crate::record::Record;
use crate::refusal::Protocol;

/// Made by [`DrainLayer`](super::DrainLayer).
#[derive(Clone, Debug)]
pub struct Drain<S> {
    inner: S,
    gate: Arc<Gate>,
    exempt: &'static [&'static str],
}

impl<S> Drain<S> {
    pub(super) const fn new(inner: S, gate: Arc<Gate>, exempt: &'static [&'static str]) -> Self {
        Self {
            inner,
            gate,
            exempt,
        }
    }
}

impl<S, B, R> Service<Request<B>> for Drain<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<DrainBody<R>>;
    type Error = S::Error;
    type Future = DrainFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let path = request.uri().path();
        if self.exempt.iter().any(|prefix| path.starts_with(prefix)) {
            return DrainFuture::exempt(self.inner.call(request));
        }
        let protocol = Protocol::of(request.headers());
        let record = Record::of(request.extensions_mut());
        // Before entering: a cut that comes after the gate let this request in must reach it.
        let cut = self.gate.cut();
        match self.gate.enter() {
            None => DrainFuture::refused(protocol, record),
            Some(inside) => {
                let passage = Passage {
                    inside,
                    protocol,
                    record,
                };
                DrainFuture::passing(self.inner.call(request), cut, passage)
            }
        }
    }
}
