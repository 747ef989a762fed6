//! Why authentication could not be set up, in words without a value.

use crate::config::Algorithm;
use crate::outbound::Failure;

/// Why the server cannot start with this `[auth]` table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An inline key that cannot be used.
    #[error("configuration error: auth.keys[{index}].public_key: {problem}")]
    InlineKey {
        /// Its position in the array.
        index: usize,
        /// What is wrong with it.
        problem: KeyProblem,
    },
    /// A URL that HTTP cannot carry.
    #[error("configuration error: auth.jwks_url: the URL cannot be called")]
    JwksUrl,
    /// The key set could not be loaded in any of the tries.
    #[error("the key set of auth.jwks_url could not be loaded: {0}")]
    KeySet(Cause),
}

/// What is wrong with a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyProblem {
    /// Another form, another label, or more than one block.
    #[error("expected one PEM block labelled PUBLIC KEY")]
    Form,
    /// A key of another kind.
    #[error("expected a key for {}", .0.name())]
    Kind(Algorithm),
    /// Numbers that are no key: no point of the curve, or a modulus of another size.
    #[error("expected a valid public key, an RSA key of 2048 to 8192 bits")]
    Value,
}

/// Why a key set could not be fetched, in a closed set of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The exchange failed.
    #[error(transparent)]
    Exchange(#[from] Failure),
    /// The answer is not a JSON object with an array `keys`.
    #[error("the answer is not a JSON Web Key Set")]
    Parse,
    /// None of the keys in it can be used.
    #[error("the answer has no usable key")]
    NoUsableKeys,
}

impl Cause {
    /// One word for a log line.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Exchange(failure) => failure.word(),
            Self::Parse => "parse",
            Self::NoUsableKeys => "no_usable_keys",
        }
    }
}
