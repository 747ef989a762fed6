//! Whom a server on the other side must have its certificate from.
//!
//! The machine decides, so that an operator's own authority works: `SSL_CERT_FILE` and
//! `SSL_CERT_DIR` where they are set, its usual places otherwise. Only a machine that names no
//! authority in either way, such as a small container, falls back on the list that is built in. A
//! file that was named and cannot be read must not widen whom the server trusts.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use tracing::{info, warn};

/// The variables by which a machine names its authorities.
const NAMED_BY: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// The certificate authorities that are trusted.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// Those of this machine; those of the Mozilla list on a machine that names none.
    #[default]
    Machine,
    /// Only these.
    Only(Vec<CertificateDer<'static>>),
}

impl Trust {
    /// Reads the list. What cannot be read is not trusted, and reported by no error: a connection
    /// that needed it fails.
    pub(super) fn roots(self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        match self {
            Self::Only(certificates) => {
                roots.add_parsable_certificates(certificates);
            }
            Self::Machine => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                let named = NAMED_BY.iter().any(|name| std::env::var_os(name).is_some());
                if roots.is_empty() && named {
                    warn!("no certificate authority can be read, no server will be trusted");
                } else if roots.is_empty() {
                    info!("no certificate authorities on this machine, trusting the built-in list");
                    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
                }
            }
        }
        roots
    }
}
