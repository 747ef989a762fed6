//! Makes [`Preflight`] services; see the [module page](super).

use http::{HeaderName, HeaderValue};
use tower_layer::Layer;

use super::Preflight;

/// Answers preflights and adds CORS headers to every other response.
#[derive(Clone, Debug, Default)]
pub struct PreflightLayer {
    exposed: Option<HeaderValue>,
}

impl PreflightLayer {
    /// A layer whose responses let a page read the headers `names`, beyond the few that browsers
    /// always show.
    #[must_use]
    pub fn exposing(names: &[HeaderName]) -> Self {
        let list = names
            .iter()
            .map(HeaderName::as_str)
            .collect::<Vec<_>>()
            .join(",");
        // Header names and commas are always a valid header value; an empty list needs no header.
        let exposed = HeaderValue::try_from(list)
            .ok()
            .filter(|list| !list.is_empty());
        Self { exposed }
    }
}

impl<S> Layer<S> for PreflightLayer {
    type Service = Preflight<S>;

    fn layer(&self, inner: S) -> Preflight<S> {
        Preflight::new(inner, self.exposed.clone())
    }
}
