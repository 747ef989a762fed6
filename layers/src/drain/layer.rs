//! Makes [`Drain`] services and their handle; see the [module page](super).

use std::sync::Arc;

use tower_layer::Layer;

use super::gate::Gate;
use super::{Drain, DrainHandle};

/// Refuses requests once its handle has closed it.
#[derive(Clone, Debug)]
pub struct DrainLayer {
    gate: Arc<Gate>,
    exempt: &'static [&'static str],
}

/// An open gate: the layer for the stack, and the handle that closes it.
///
/// Requests whose raw path starts with one of `exempt` always pass.
#[must_use]
pub fn gate(exempt: &'static [&'static str]) -> (DrainLayer, DrainHandle) {
    let gate = Arc::new(Gate::default());
    (
        DrainLayer {
            gate: Arc::clone(&gate),
            exempt,
        },
        DrainHandle::new(gate),
    )
}

impl<S> Layer<S> for DrainLayer {
    type Service = Drain<S>;

    fn layer(&self, inner: S) -> Drain<S> {
        Drain::new(inner, Arc::clone(&self.gate), self.exempt)
    }
}
