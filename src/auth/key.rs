//! One public key that signs tokens: read from PEM or from a JSON Web Key, and bound to one
//! algorithm.
//!
//! A key that exists is valid: its type and curve fit the algorithm, an RSA modulus has 2048 to 8192
//! bits, a point is on its curve. Private members of a JSON Web Key are never read.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::elliptic_curve::sec1::ToEncodedPoint as _;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde_json::Value;
use spki::der::asn1::UintRef;
use spki::der::{Decode as _, Document, Reader as _, SliceReader};
use spki::{ObjectIdentifier, SubjectPublicKeyInfoRef};

use super::KeyProblem;
use crate::config::Algorithm;

/// Bits of an RSA modulus: fewer are weak, more cost too much per request.
const MODULUS_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// Largest RSA exponent that signatures are verified with.
const EXPONENT_MAX: u64 = (1 << 33) - 1;

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const ELLIPTIC_CURVE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const ED25519_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// A key, and the one algorithm that it verifies.
pub(super) struct Key {
    pub(super) kid: Option<String>,
    pub(super) algorithm: Algorithm,
    material: Material,
}

enum Material {
    Rsa(&'static RsaParameters, RsaPublicKeyComponents<Vec<u8>>),
    Point(UnparsedPublicKey<Vec<u8>>),
}

impl Key {
    /// Reads one PEM block labelled `PUBLIC KEY`.
    pub(super) fn from_pem(kid: &str, algorithm: Algorithm, pem: &str) -> Result<Self, KeyProblem> {
        let (label, document) = Document::from_pem(pem.trim()).map_err(|_| KeyProblem::Form)?;
        if label != "PUBLIC KEY" {
            return Err(KeyProblem::Form);
        }
        let info =
            SubjectPublicKeyInfoRef::from_der(document.as_bytes()).map_err(|_| KeyProblem::Form)?;
        let bits = info.subject_public_key.as_bytes().ok_or(KeyProblem::Form)?;
        let parameters = info.algorithm.parameters_oid().ok();
        let material = match (algorithm, info.algorithm.oid, parameters) {
            (Algorithm::Rs256 | Algorithm::Rs384 | Algorithm::Rs512, RSA, _) => {
                let (modulus, exponent) = rsa_numbers(bits)?;
                rsa(algorithm, modulus, exponent)
            }
            (Algorithm::Es256, ELLIPTIC_CURVE, Some(P256)) => p256_point(bits),
            (Algorithm::Es384, ELLIPTIC_CURVE, Some(P384)) => p384_point(bits),
            (Algorithm::EdDsa, ED25519_KEY, _) => ed25519_point(bits),
            (_, _, _) => return Err(KeyProblem::Kind(algorithm)),
        };
        Ok(Self {
            kid: Some(kid.to_owned()),
            algorithm,
            material: material.ok_or(KeyProblem::Value)?,
        })
    }

    /// Reads an item of a JSON Web Key Set; nothing when it cannot be used here.
    pub(super) fn from_jwk(item: &Value, kid_bytes_max: usize) -> Option<Self> {
        let member = |name: &str| item.as_object()?.get(name);
        let text = |name: &str| member(name)?.as_str();
        let number = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        let kid = match member("kid") {
            None => None,
            Some(kid) => Some(kid.as_str().filter(|kid| kid.len() <= kid_bytes_max)?),
        };
        if member("use").is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let algorithm = Algorithm::parse(text("alg")?)?;
        let point = |size: usize| {
            let (x, y) = (number("x")?, number("y")?);
            (x.len() == size && y.len() == size).then(|| [&[4][..], &x, &y].concat())
        };
        let material = match (algorithm, text("kty")?, text("crv")) {
            (Algorithm::Rs256 | Algorithm::Rs384 | Algorithm::Rs512, "RSA", _) => {
                rsa(algorithm, &number("n")?, &number("e")?)
            }
            (Algorithm::Es256, "EC", Some("P-256")) => p256_point(&point(32)?),
            (Algorithm::Es384, "EC", Some("P-384")) => p384_point(&point(48)?),
            (Algorithm::EdDsa, "OKP", Some("Ed25519")) => ed25519_point(&number("x")?),
            (_, _, _) => None,
        };
        Some(Self {
            kid: kid.map(ToOwned::to_owned),
            algorithm,
            material: material?,
        })
    }

    /// Whether this key made the signature of the message.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verdict = match &self.material {
            Material::Rsa(parameters, key) => key.verify(parameters, message, signature),
            Material::Point(key) => key.verify(message, signature),
        };
        verdict.is_ok()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Key").field(&self.algorithm).finish()
    }
}

/// Modulus and exponent of a DER `RSAPublicKey`.
fn rsa_numbers(der: &[u8]) -> Result<(&[u8], &[u8]), KeyProblem> {
    let mut reader = SliceReader::new(der).map_err(|_| KeyProblem::Form)?;
    let numbers =
        reader.sequence(|reader| Ok((UintRef::decode(reader)?, UintRef::decode(reader)?)));
    let (modulus, exponent) = numbers.map_err(|_| KeyProblem::Form)?;
    let numbers = (modulus.as_bytes(), exponent.as_bytes());
    reader.finish(numbers).map_err(|_| KeyProblem::Form)
}

fn rsa(algorithm: Algorithm, modulus: &[u8], exponent: &[u8]) -> Option<Material> {
    let parameters = match algorithm {
        Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => return None,
    };
    let (n, e) = (without_zeros(modulus), without_zeros(exponent));
    let zeros = n.first()?.leading_zeros() as usize;
    let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
    let value = |number: &[u8]| {
        let shifted = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        (number.len() <= 8).then(|| number.iter().fold(0, shifted))
    };
    let valid = MODULUS_BITS.contains(&(n.len().checked_mul(8)? - zeros))
        && is_odd(n)
        && is_odd(e)
        && (3..=EXPONENT_MAX).contains(&value(e)?);
    let (n, e) = (n.to_vec(), e.to_vec());
    valid.then_some(Material::Rsa(parameters, RsaPublicKeyComponents { n, e }))
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

fn p256_point(sec1: &[u8]) -> Option<Material> {
    let point = p256::PublicKey::from_sec1_bytes(sec1).ok()?;
    let bytes = point.to_encoded_point(false).as_bytes().to_vec();
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED as _, bytes);
    Some(Material::Point(key))
}

fn p384_point(sec1: &[u8]) -> Option<Material> {
    let point = p384::PublicKey::from_sec1_bytes(sec1).ok()?;
    let bytes = point.to_encoded_point(false).as_bytes().to_vec();
    let key = UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED as _, bytes);
    Some(Material::Point(key))
}

fn ed25519_point(bytes: &[u8]) -> Option<Material> {
    let point = ed25519_dalek::VerifyingKey::try_from(bytes).ok()?;
    // A point of small order verifies signatures that nobody made.
    let key = UnparsedPublicKey::new(&ED25519 as _, point.as_bytes().to_vec());
    (!point.is_weak()).then_some(Material::Point(key))
}
