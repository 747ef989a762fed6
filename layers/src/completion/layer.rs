//! Makes [`Completion`] services; see the [module page](super).

use tower_layer::Layer;

use super::Completion;

/// Tells a hook once how every request ended.
#[derive(Clone, Copy, Debug)]
pub struct CompletionLayer<O> {
    observe: O,
}

impl<O> CompletionLayer<O> {
    /// A layer that tells `observe`, an [`Observe`](super::Observe) such as a function.
    pub const fn new(observe: O) -> Self {
        Self { observe }
    }
}

impl<S, O: Clone> Layer<S> for CompletionLayer<O> {
    type Service = Completion<S, O>;

    fn layer(&self, inner: S) -> Completion<S, O> {
        Completion::new(inner, self.observe.clone())
    }
}
