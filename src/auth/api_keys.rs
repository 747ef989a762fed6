//! Named API keys, compared in a time that tells nothing.
//!
//! A credential is hashed once and its digest compared with every configured one, always all of
//! them, without a branch on the outcome. Digests are never printed (ARC-101).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

use crate::config::Secret;

type Digest = [u8; 32];

/// The configured keys.
pub(super) struct ApiKeys(Vec<(Arc<str>, Digest)>);

impl ApiKeys {
    pub(super) fn new(keys: &BTreeMap<String, Secret<String>>) -> Self {
        let digested = |(name, key): (&String, &Secret<String>)| {
            (Arc::from(name.as_str()), digest(key.expose()))
        };
        Self(keys.iter().map(digested).collect())
    }

    /// The name of the key that this credential is.
    pub(super) fn find(&self, credential: &str) -> Option<Arc<str>> {
        self.find_by(credential, |a, b| a.ct_eq(b))
    }

    /// [`find`](Self::find) with a comparison that tests can watch.
    pub(super) fn find_by(
        &self,
        credential: &str,
        mut equal: impl FnMut(&Digest, &Digest) -> Choice,
    ) -> Option<Arc<str>> {
        let wanted = digest(credential);
        let mut found = Choice::from(0);
        let mut position = 0;
        for (index, (_, digest)) in (0_u64..).zip(&self.0) {
            let matches = equal(digest, &wanted);
            position.conditional_assign(&index, matches);
            found |= matches;
        }
        let position = usize::try_from(position).ok()?;
        let (name, _) = self.0.get(position)?;
        bool::from(found).then(|| Arc::clone(name))
    }
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

fn digest(text: &str) -> Digest {
    Sha256::digest(text).into()
}
