//! The verdict about a request, from its headers, the keys and the time.

use std::sync::Arc;

use http::HeaderMap;
use tokio::sync::watch;

use super::api_keys::ApiKeys;
use super::claims::Requirements;
use super::credential::credential;
use super::key_set::KeySet;
use super::token::Token;
use super::{Principal, Rejection};
use crate::clock::Clock;

/// Judges callers. It neither waits nor fetches.
#[derive(Debug)]
pub struct Authenticator {
    pub(super) api_keys: ApiKeys,
    /// The keys for tokens and what tokens must claim; nothing when only API keys are admitted.
    pub(super) tokens: Option<Tokens>,
}

/// What tokens are judged by.
#[derive(Debug)]
pub(super) struct Tokens {
    /// The current set of keys; a refresh replaces it whole.
    pub(super) keys: watch::Receiver<Arc<KeySet>>,
    pub(super) requirements: Requirements,
    pub(super) clock: Clock,
}

impl Authenticator {
    /// Finds out who sent a request with these headers.
    ///
    /// # Errors
    ///
    /// The [`Rejection`] that is found first.
    pub fn judge(&self, headers: &HeaderMap) -> Result<Principal, Rejection> {
        let credential = credential(headers)?;
        if let Some(name) = self.api_keys.find(credential) {
            return Ok(Principal::ApiKey { name });
        }
        let tokens = self.tokens.as_ref().ok_or(Rejection::Untrusted)?;
        tokens.judge(credential)
    }
}

impl Tokens {
    fn judge(&self, credential: &str) -> Result<Principal, Rejection> {
        let token = Token::parse(credential)?;
        let keys = Arc::clone(&self.keys.borrow());
        let claims = token.verify(&keys)?;
        self.requirements
            .check(&claims, self.clock.unix_seconds())?;
        let claims = Arc::new(claims);
        Ok(Principal::Jwt { claims })
    }
}
