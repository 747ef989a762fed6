//! Makes [`Scoped`] services; see the [module page](super).

use tower_layer::Layer;

use super::Scoped;

/// Opens a scope for every request.
#[derive(Clone, Copy, Debug)]
pub struct ScopeLayer<O> {
    open: O,
}

impl<O> ScopeLayer<O> {
    /// A layer that opens scopes by `open`, an [`Open`](super::Open) such as a function.
    pub const fn new(open: O) -> Self {
        Self { open }
    }
}

impl<S, O: Clone> Layer<S> for ScopeLayer<O> {
    type Service = Scoped<S, O>;

    fn layer(&self, inner: S) -> Scoped<S, O> {
        Scoped::new(inner, self.open.clone())
    }
}
