//! Makes [`Admission`] services; see the [module page](super).

use tower_layer::Layer;

use super::Admission;

/// Admits requests by path, or refuses them.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionLayer<V> {
    verify: Option<V>,
    public: &'static [&'static str],
}

impl<V> AdmissionLayer<V> {
    /// A layer that asks `verify` about every request whose raw path starts with none of `public`.
    ///
    /// `None` admits every request without reading a header. The prefixes are constants because what
    /// is public is a decision of the program, not of its configuration.
    pub const fn new(verify: Option<V>, public: &'static [&'static str]) -> Self {
        Self { verify, public }
    }
}

impl<S, V: Clone> Layer<S> for AdmissionLayer<V> {
    type Service = Admission<S, V>;

    fn layer(&self, inner: S) -> Admission<S, V> {
        Admission::new(inner, self.verify.clone(), self.public)
    }
}
