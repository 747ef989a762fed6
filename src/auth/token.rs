//! The compact form of a signed JSON Web Token (RFC 7515), read strictly.
//!
//! The order of the steps is the order in which reasons win. No claim has any influence before the
//! signature holds, except that there must be a JSON object of them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::Rejection;
use super::key_set::{KID_BYTES_MAX, KeySet};
use crate::config::Algorithm;

/// A token whose signature has not been looked at: only its form is known.
pub(super) struct Token<'t> {
    algorithm: Algorithm,
    kid: Option<String>,
    claims: Map<String, Value>,
    /// Header and claims as they arrived, which is what was signed.
    signed: &'t str,
    signature: Vec<u8>,
}

impl<'t> Token<'t> {
    /// Takes a credential apart.
    ///
    /// # Errors
    ///
    /// [`Rejection::NotToken`] and [`Rejection::UnsupportedAlgorithm`].
    pub(super) fn parse(credential: &'t str) -> Result<Self, Rejection> {
        let malformed = Rejection::NotToken;
        let (signed, signature) = credential.rsplit_once('.').ok_or(malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(malformed)?;
        if claims.contains('.') {
            return Err(malformed);
        }
        let mut header = object(header)?;
        let Some(Value::String(algorithm)) = header.get("alg") else {
            return Err(malformed);
        };
        let algorithm = Algorithm::parse(algorithm).ok_or(Rejection::UnsupportedAlgorithm)?;
        let kid = match header.remove("kid") {
            None => None,
            Some(Value::String(kid)) if kid.len() <= KID_BYTES_MAX => Some(kid),
            Some(_) => return Err(malformed),
        };
        // An extension that must be understood and is not (RFC 7515 section 4.1.11).
        if header.contains_key("crit") {
            return Err(malformed);
        }
        let claims = object(claims)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| malformed)?;
        Ok(Self {
            algorithm,
            kid,
            claims,
            signed,
            signature,
        })
    }

    /// The claims, if the one key for this token made its signature.
    ///
    /// # Errors
    ///
    /// [`Rejection::Untrusted`].
    pub(super) fn verify(self, keys: &KeySet) -> Result<Map<String, Value>, Rejection> {
        let key = keys.select(self.kid.as_deref(), self.algorithm)?;
        if key.verifies(self.signed.as_bytes(), &self.signature) {
            Ok(self.claims)
        } else {
            Err(Rejection::Untrusted)
        }
    }
}

impl fmt::Debug for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Reads a segment: base64url without padding around a JSON object. Of repeated members the last
/// one counts, for every reader, because there is only this one.
fn object(segment: &str) -> Result<Map<String, Value>, Rejection> {
    let bytes = URL_SAFE_NO_PAD.decode(segment).ok();
    match bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
        Some(Value::Object(object)) => Ok(object),
        _ => Err(Rejection::NotToken),
    }
}
