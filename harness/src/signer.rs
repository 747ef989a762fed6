//! Keys that sign tokens, of every kind that the server verifies.
//!
//! The private keys in `keys/` were made for these tests and are worth nothing.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING,
    ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256,
    RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};

/// A key pair of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// An RSA key of 2048 bits.
    RsaA,
    /// Another one.
    RsaB,
    /// A key on P-256.
    P256,
    /// A key on P-384.
    P384,
    /// An Ed25519 key.
    Ed25519,
}

impl Signer {
    const fn private_pem(self) -> &'static str {
        match self {
            Self::RsaA => include_str!("keys/rsa-a.pem"),
            Self::RsaB => include_str!("keys/rsa-b.pem"),
            Self::P256 => include_str!("keys/p256.pem"),
            Self::P384 => include_str!("keys/p384.pem"),
            Self::Ed25519 => include_str!("keys/ed25519.pem"),
        }
    }

    /// The public key, as one PEM block.
    #[must_use]
    pub const fn public_pem(self) -> &'static str {
        match self {
            Self::RsaA => include_str!("keys/rsa-a.pub.pem"),
            Self::RsaB => include_str!("keys/rsa-b.pub.pem"),
            Self::P256 => include_str!("keys/p256.pub.pem"),
            Self::P384 => include_str!("keys/p384.pub.pem"),
            Self::Ed25519 => include_str!("keys/ed25519.pub.pem"),
        }
    }

    /// A line for the array `auth.keys` of a configuration.
    #[must_use]
    pub fn inline(self, kid: &str, algorithm: &str) -> String {
        let pem = self.public_pem();
        format!("{{ kid = \"{kid}\", alg = \"{algorithm}\", public_key = \"\"\"{pem}\"\"\" }}")
    }

    /// The public key, as an item of a JSON Web Key Set.
    ///
    /// # Panics
    ///
    /// For an algorithm that the key cannot make.
    #[must_use]
    pub fn jwk(self, kid: &str, algorithm: &str) -> Value {
        let base64 = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut item = match self {
            Self::RsaA | Self::RsaB => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(self.rsa().public());
                json!({"kty": "RSA", "n": base64(&public.n), "e": base64(&public.e)})
            }
            Self::P256 | Self::P384 => {
                let pair = self.ecdsa(self.fixed());
                let (x, y) = pair.public_key().as_ref()[1..].split_at(self.coordinate_bytes());
                let curve = if self == Self::P256 { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": curve, "x": base64(x), "y": base64(y)})
            }
            Self::Ed25519 => {
                let pair = self.ed25519();
                json!({"kty": "OKP", "crv": "Ed25519", "x": base64(pair.public_key().as_ref())})
            }
        };
        item["kid"] = kid.into();
        item["alg"] = algorithm.into();
        item["use"] = "sig".into();
        item
    }

    /// Signs with an algorithm of the standard, with `PS256`, or with `ES256-DER`.
    ///
    /// # Panics
    ///
    /// For an algorithm that the key cannot make.
    #[must_use]
    pub fn sign(self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        match algorithm {
            "RS256" => self.sign_rsa(&RSA_PKCS1_SHA256, message),
            "RS384" => self.sign_rsa(&RSA_PKCS1_SHA384, message),
            "RS512" => self.sign_rsa(&RSA_PKCS1_SHA512, message),
            "PS256" => self.sign_rsa(&RSA_PSS_SHA256, message),
            "ES256" | "ES384" => self.sign_ecdsa(self.fixed(), message),
            "ES256-DER" => self.sign_ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING, message),
            "EdDSA" => self.ed25519().sign(message).as_ref().to_vec(),
            other => panic!("nothing here signs {other}"),
        }
    }

    /// A token with this header and these claims, signed with the algorithm of the header.
    #[must_use]
    pub fn token(self, header: &Value, claims: &Value) -> String {
        let algorithm = header["alg"].as_str().expect("an algorithm");
        self.token_signed_with(algorithm, header, claims)
    }

    /// A token signed with another algorithm than its header says.
    #[must_use]
    pub fn token_signed_with(self, algorithm: &str, header: &Value, claims: &Value) -> String {
        let signed = unsigned(header, claims);
        let signature = self.sign(algorithm, signed.as_bytes());
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    fn der(self) -> PrivatePkcs8KeyDer<'static> {
        PrivatePkcs8KeyDer::from_pem_slice(self.private_pem().as_bytes()).expect("a private key")
    }

    fn rsa(self) -> RsaKeyPair {
        RsaKeyPair::from_pkcs8(self.der().secret_pkcs8_der()).expect("an RSA key")
    }

    fn ed25519(self) -> Ed25519KeyPair {
        let der = self.der();
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der()).expect("Ed25519")
    }

    fn fixed(self) -> &'static EcdsaSigningAlgorithm {
        if self == Self::P384 {
            &ECDSA_P384_SHA384_FIXED_SIGNING
        } else {
            &ECDSA_P256_SHA256_FIXED_SIGNING
        }
    }

    fn coordinate_bytes(self) -> usize {
        if self == Self::P384 { 48 } else { 32 }
    }

    fn ecdsa(self, algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
        let der = self.der();
        EcdsaKeyPair::from_pkcs8(algorithm, der.secret_pkcs8_der(), &SystemRandom::new())
            .expect("a key on the curve")
    }

    fn sign_rsa(self, encoding: &'static dyn RsaEncoding, message: &[u8]) -> Vec<u8> {
        let pair = self.rsa();
        let mut signature = vec![0; pair.public().modulus_len()];
        pair.sign(encoding, &SystemRandom::new(), message, &mut signature)
            .expect("a signature");
        signature
    }

    fn sign_ecdsa(self, algorithm: &'static EcdsaSigningAlgorithm, message: &[u8]) -> Vec<u8> {
        let signature = self.ecdsa(algorithm).sign(&SystemRandom::new(), message);
        signature.expect("a signature").as_ref().to_vec()
    }
}

/// Header and claims of a token, without a signature.
#[must_use]
pub fn unsigned(header: &Value, claims: &Value) -> String {
    let segment = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", segment(header), segment(claims))
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
