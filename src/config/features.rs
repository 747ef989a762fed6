//! What a document may say that this build does not do.
//!
//! A configured feature that is silently absent would mislead an operator; so startup refuses it by
//! name.

use super::Config;
use super::error::Error;

impl Config {
    /// Refuses a configuration that asks for a feature this build does not have.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the first such key.
    pub fn unsupported(&self) -> Result<(), Error> {
        let telemetry = &self.telemetry;
        let features = [
            ("push", self.push.is_some(), "deliver push notifications"),
            (
                "telemetry.otlp_endpoint",
                telemetry.otlp_endpoint.is_some(),
                "export traces (the variable OTEL_EXPORTER_OTLP_ENDPOINT counts too)",
            ),
            ("telemetry.otlp_logs", telemetry.otlp_logs, "export logs"),
        ];
        match features.into_iter().find(|(_, configured, _)| *configured) {
            None => Ok(()),
            Some((key, _, feature)) => Err(Error::Unsupported { key, feature }),
        }
    }
}
