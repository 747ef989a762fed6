//! What operators see: log lines on standard output and the Prometheus listener.

mod exposition;
mod logging;

pub use exposition::serve_metrics;
pub use logging::{WITHOUT_SPANS, install};
