//! Who was admitted, for whatever runs behind admission.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

/// The caller of a request, in its extensions. Absent on public paths and without authentication.
///
/// Claims are the caller's, so `Debug` does not show them (ARC-101).
#[derive(Clone, PartialEq)]
pub enum Principal {
    /// Presented an API key.
    ApiKey {
        /// The configured name of the key.
        name: Arc<str>,
    },
    /// Presented a token.
    Jwt {
        /// Its claims, all of them, as signed.
        claims: Arc<Map<String, Value>>,
    },
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApiKey { name } => f.debug_struct("ApiKey").field("name", name).finish(),
            Self::Jwt { claims: _ } => f.debug_struct("Jwt").finish_non_exhaustive(),
        }
    }
}
