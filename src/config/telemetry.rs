//! The `[telemetry]` table: the metrics listener and the export of traces (ARC-097).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use url::Url;

use super::error::{Error, Requirement};
use super::form;
use super::key::{dotted, map, ratio, section, switch, text};
use super::secret::{Environment, Secret, read_variable};

/// The one variable that stands in for an absent key (ARC-097).
const ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Resource attributes that the server writes itself. [`attribute_name`] repeats them.
const RESERVED: [&str; 3] = ["service.name", "service.version", "xmtp.backend.identifier"];

section! {
    /// The metrics listener and the export of traces.
    pub struct Telemetry {
        /// IP address and port of the Prometheus listener. Empty opens no listener; metrics are
        /// recorded all the same.
        "metrics_listen" => metrics_listen: Option<SocketAddr> =
            text(form::address_or_none()).or("0.0.0.0:9464");
        /// `http` or `https` URL that traces are exported to by OTLP over gRPC. Absent, the
        /// variable OTEL_EXPORTER_OTLP_ENDPOINT is used if it is set and not empty; without either
        /// nothing is exported.
        "otlp_endpoint" => otlp_endpoint: Option<Secret<Url>> =
            text(form::http_url()).secret().optional();
        /// Whether logs are exported to the same endpoint.
        "otlp_logs" => otlp_logs: bool = switch().or(false);
        /// The `service.name` attribute of what is exported; not empty.
        "service_name" => service_name: String = text(form::filled()).or("xmtp-backend");
        /// Share of traces that are exported, 0.0 to 1.0.
        "sample_ratio" => sample_ratio: f64 = ratio().or(1.0);
        /// Further attributes of what is exported. `service.name`, `service.version` and
        /// `xmtp.backend.identifier` are reserved.
        "resource_attributes" => resource_attributes: BTreeMap<String, Secret<String>> =
            map(None, attribute_name(), text(form::any()).secret())
                .then(unreserved)
                .or(toml::Table::new());
    }
}

impl Telemetry {
    /// Fills an absent endpoint from its variable.
    pub(super) fn resolve_endpoint(&mut self, environment: &Environment<'_>) -> Result<(), Error> {
        if self.otlp_endpoint.is_some() {
            return Ok(());
        }
        let value = read_variable(ENDPOINT_VARIABLE, "telemetry.otlp_endpoint", environment)?;
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let url = form::parse_http_url(&value).ok_or_else(|| {
                Error::invalid(ENDPOINT_VARIABLE, Requirement::Form(form::HTTP_URL))
            })?;
            self.otlp_endpoint = Some(Secret::new(url));
        }
        Ok(())
    }
}

/// Any name in the loader, because a reserved one must be named in the error; the pattern refuses
/// the reserved ones by itself.
fn attribute_name() -> form::Form<String> {
    form::pattern(
        r"^(?!(service\.name|service\.version|xmtp\.backend\.identifier)$)",
        "an attribute name",
        |name| Some(name.to_owned()),
    )
}

fn unreserved<V>(
    attributes: BTreeMap<String, V>,
    path: &str,
) -> Result<BTreeMap<String, V>, Error> {
    match RESERVED.iter().find(|name| attributes.contains_key(**name)) {
        Some(name) => Err(Error::invalid(dotted(path, name), Requirement::Reserved)),
        None => Ok(attributes),
    }
}
