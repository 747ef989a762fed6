//! Whom a server on the other side must have its certificate from.
//!
//! The machine decides (`SSL_CERT_FILE` and `SSL_CERT_DIR` included), so that an operator's own
//! authority works. A container image without any list falls back on the one that is built in.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use tracing::info;

/// The certificate authorities that are trusted.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// Those of this machine; those of the Mozilla list when the machine names none.
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
                if roots.is_empty() {
                    info!("no certificate authorities on this machine, trusting the built-in list");
                    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
                }
            }
        }
        roots
    }
}
