//! Keys of the configuration.

use harness::Signer;

use super::super::KeyProblem::{Form, Kind, Value};
use super::{Error, NOW, access, header, judge, with};
use crate::config::Algorithm::{EdDsa, Es256, Es384, Rs256};
use serde_json::json;

const PKCS1: &str = include_str!("keys/pkcs1.pem");
const CERTIFICATE: &str = include_str!("keys/certificate.pem");
const RSA_1024: &str = include_str!("keys/rsa1024.pem");
const RSA_PSS: &str = include_str!("keys/rsa-pss.pem");
const SECP256K1: &str = include_str!("keys/secp256k1.pem");
const X25519: &str = include_str!("keys/x25519.pem");
const COMPRESSED: &str = include_str!("keys/p256-compressed.pem");

fn keys(algorithm: &str, pem: &str) -> String {
    let good = Signer::RsaA.inline("good", "RS256");
    let key = format!("kid = \"k\", alg = \"{algorithm}\", public_key = \"\"\"{pem}\"\"\"");
    format!("keys = [{good}, {{ {key} }}]")
}

/// Goal: a key that does not fit its algorithm ends the start, and the error names its place and
/// nothing of it. Method: table of blocks of other forms, kinds, curves and sizes.
#[tokio::test]
async fn an_unusable_inline_key_is_named_by_its_place() {
    let private = Signer::RsaA.public_pem().replace("PUBLIC", "PRIVATE");
    let rsa = Signer::RsaA.public_pem();
    let (p256, p384) = (Signer::P256.public_pem(), Signer::P384.public_pem());
    let ed25519 = Signer::Ed25519.public_pem();
    let twice = format!("{rsa}{rsa}");
    let small_order = ed25519_pem(&[0; 32]);
    let cases = [
        ("RS256", PKCS1, Form),
        ("RS256", CERTIFICATE, Form),
        ("RS256", &private, Form),
        ("RS256", &twice, Form),
        ("RS256", "no PEM", Form),
        ("RS256", &rsa[..rsa.len() / 2], Form),
        ("RS256", &rsa.replace("MII", "MIJ"), Form),
        ("RS256", RSA_1024, Value),
        ("RS256", RSA_PSS, Kind(Rs256)),
        ("RS256", p256, Kind(Rs256)),
        ("EdDSA", rsa, Kind(EdDsa)),
        ("EdDSA", X25519, Kind(EdDsa)),
        ("EdDSA", &small_order, Value),
        ("ES384", p256, Kind(Es384)),
        ("ES256", p384, Kind(Es256)),
        ("ES256", SECP256K1, Kind(Es256)),
        ("ES256", ed25519, Kind(Es256)),
    ];
    for (algorithm, pem, problem) in cases {
        let error = access(&keys(algorithm, pem)).await.unwrap_err();
        assert_eq!(
            error,
            Error::InlineKey { index: 1, problem },
            "{algorithm}\n{pem}"
        );
        let text = error.to_string();
        assert!(text.contains("auth.keys[1].public_key"), "{text}");
        assert!(!pem.lines().any(|line| text.contains(line)), "{text}");
    }
}

fn ed25519_pem(point: &[u8; 32]) -> String {
    use base64::Engine as _;
    let mut der = hex::decode("302a300506032b6570032100").unwrap();
    der.extend(point);
    let line = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN PUBLIC KEY-----\n{line}\n-----END PUBLIC KEY-----\n")
}

/// Goal: every kind of key verifies with every algorithm it is good for, whatever the line ends are.
/// Method: table; a point that is written in its short form too.
#[tokio::test]
async fn a_usable_inline_key_verifies() {
    let crlf = Signer::RsaB.public_pem().replace('\n', "\r\n");
    let untrimmed = format!("\n{}\n", Signer::RsaB.public_pem());
    let cases = [
        ("RS256", Signer::RsaB, Signer::RsaB.public_pem()),
        ("RS384", Signer::RsaB, Signer::RsaB.public_pem()),
        ("RS512", Signer::RsaB, Signer::RsaB.public_pem()),
        ("RS512", Signer::RsaB, &crlf),
        ("RS512", Signer::RsaB, &untrimmed),
        ("RS512", Signer::RsaB, Signer::RsaB.public_pem().trim_end()),
        ("ES256", Signer::P256, Signer::P256.public_pem()),
        ("ES256", Signer::P256, COMPRESSED),
        ("ES384", Signer::P384, Signer::P384.public_pem()),
        ("EdDSA", Signer::Ed25519, Signer::Ed25519.public_pem()),
    ];
    for (algorithm, signer, pem) in cases {
        let access = access(&keys(algorithm, pem)).await;
        let who = access.unwrap_or_else(|error| panic!("{algorithm}: {error}\n{pem}"));
        let header = with(header(), json!({"alg": algorithm, "kid": "k"}));
        let token = signer.token(&header, &json!({"exp": NOW}));
        assert!(
            judge(&who.authenticator().unwrap(), &token).is_ok(),
            "{algorithm}\n{pem}"
        );
        assert!(!who.stale().is_cancelled());
    }
}

/// Goal: what is published of the keys is their ids and algorithms in order. Method: two keys.
#[tokio::test]
async fn ids_and_algorithms_are_published() {
    let access = access(&keys("EdDSA", Signer::Ed25519.public_pem()))
        .await
        .unwrap();
    let published: Vec<_> = access
        .published()
        .iter()
        .map(|key| (key.kid.as_str(), key.algorithm.name()))
        .collect();
    assert_eq!(published, [("good", "RS256"), ("k", "EdDSA")]);
}
