//! What the HTTPS servers of the tests present.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// An authority of a server's own, and the server's configuration.
pub(crate) struct TlsIdentity {
    /// The authority's certificate, as the client's configuration takes it.
    pub(crate) authority: CertificateDer<'static>,
    /// The same, as files have it.
    pub(crate) authority_pem: String,
    /// Serves `localhost` under it.
    pub(crate) server: ServerConfig,
}

/// A new authority, and the certificate of `localhost` under it.
pub(crate) fn tls_identity() -> TlsIdentity {
    let mut params = CertificateParams::new([]).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = params.self_signed(&key).expect("an authority");
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
    let leaf = params.signed_by(&key, &issuer).expect("a certificate");
    let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a private key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .expect("an identity");
    TlsIdentity {
        authority: authority.der().clone(),
        authority_pem: authority.pem(),
        server,
    }
}
