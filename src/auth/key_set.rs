//! The keys that tokens may be signed with, and the choice of one for a token.

use serde_json::Value;
use tracing::warn;

use super::key::Key;
use super::{Cause, Error, Rejection};
use crate::config::{Algorithm, InlineKey};

/// Most bytes of a key id, in a key set and in a token.
pub(super) const KID_BYTES_MAX: usize = 256;

/// Most keys of a key set; the rest of the document is not looked at.
const KEYS_MAX: usize = 64;

/// Most bytes of a key id in a log line.
const LOGGED_KID_BYTES_MAX: usize = 32;

/// Most log lines about skipped keys of one document. A document has room for a hundred thousand
/// items that are no keys.
const SKIP_WARNINGS_MAX: usize = 100;

/// What is published of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedKey {
    /// Its id; empty for a key without one.
    pub kid: String,
    /// Its algorithm.
    pub algorithm: Algorithm,
}

/// A set of keys, in the order of its document. Never changed, only replaced.
#[derive(Debug)]
pub(super) struct KeySet(Vec<Key>);

impl KeySet {
    /// Reads the keys of the configuration.
    pub(super) fn inline(keys: &[InlineKey]) -> Result<Self, Error> {
        let read = |(index, key): (usize, &InlineKey)| {
            Key::from_pem(&key.kid, key.alg, key.public_key.expose())
                .map_err(|problem| Error::InlineKey { index, problem })
        };
        let keys: Result<_, _> = keys.iter().enumerate().map(read).collect();
        Ok(Self(keys?))
    }

    /// Reads a JSON Web Key Set. Items that cannot be used are skipped, each with a warning.
    pub(super) fn parse(document: &[u8]) -> Result<Self, Cause> {
        let document: Value = serde_json::from_slice(document).map_err(|_| Cause::Parse)?;
        let items = document.get("keys").and_then(Value::as_array);
        let mut keys = Vec::new();
        let mut skipped = 0_usize;
        for item in items.ok_or(Cause::Parse)? {
            if keys.len() == KEYS_MAX {
                break;
            }
            match Key::from_jwk(item, KID_BYTES_MAX) {
                Some(key) => keys.push(key),
                None => {
                    if skipped < SKIP_WARNINGS_MAX {
                        warn!(kid = %logged_kid(item), "skipped a key that cannot be used");
                    }
                    skipped += 1;
                }
            }
        }
        if skipped > SKIP_WARNINGS_MAX {
            warn!(skipped, "skipped more keys than are named");
        }
        if keys.is_empty() {
            return Err(Cause::NoUsableKeys);
        }
        Ok(Self(keys))
    }

    /// The one key for a token: the one with its id, or, without an id, with its algorithm.
    pub(super) fn select(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<&Key, Rejection> {
        let named = |key: &&Key| match kid {
            Some(_) => key.kid.as_deref() == kid,
            None => key.algorithm == algorithm,
        };
        let mut candidates = self.0.iter().filter(named);
        match (candidates.next(), candidates.next()) {
            (Some(key), None) if key.algorithm == algorithm => Ok(key),
            (_, _) => Err(Rejection::Untrusted),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn published(&self) -> Vec<PublishedKey> {
        let published = |key: &Key| PublishedKey {
            kid: key.kid.clone().unwrap_or_default(),
            algorithm: key.algorithm,
        };
        self.0.iter().map(published).collect()
    }
}

/// The beginning of a key id, on one line; empty when there is none.
pub(super) fn logged_kid(item: &Value) -> String {
    let kid = item.get("kid").and_then(Value::as_str).unwrap_or_default();
    let mut logged = String::new();
    for character in kid.chars() {
        let escaped = character.escape_debug();
        if logged.len() + escaped.clone().map(char::len_utf8).sum::<usize>() > LOGGED_KID_BYTES_MAX
        {
            break;
        }
        logged.extend(escaped);
    }
    logged
}
