//! Finds ports of the loopback interface that nobody listens on.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::Context;

/// How many ports above the preferred one are tried.
const TRIES: u16 = 200;

/// A port the user asked for, or the first free one from the preferred one on.
pub(crate) fn choose(option: &str, asked: Option<u16>, preferred: u16) -> anyhow::Result<u16> {
    match asked {
        Some(0) => any(),
        Some(port) => {
            listen(port).with_context(|| {
                format!("port {port} of 127.0.0.1 cannot be used; give another one with {option}")
            })?;
            Ok(port)
        }
        None => (preferred..preferred.saturating_add(TRIES))
            .find(|port| listen(*port).is_ok())
            .map_or_else(any, Ok),
    }
}

/// Any free port.
pub(crate) fn any() -> anyhow::Result<u16> {
    listen(0).context("no free port on 127.0.0.1")
}

/// Listens for a moment and returns the port.
fn listen(port: u16) -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, port))?
        .local_addr()?
        .port())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port in use is passed over, unless the user insists on it: then the error names the option.
    #[test]
    fn taken_port_is_passed_over_or_refused() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert_ne!(choose("--port", None, port).unwrap(), port);
        let refusal = choose("--port", Some(port), 1).unwrap_err();
        assert!(refusal.to_string().contains("--port"), "{refusal}");
    }
}
