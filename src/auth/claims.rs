//! The claims of a token whose signature holds: their types, and what is required of them.
//!
//! A claim of the wrong type is never read as absent: that would turn a check off.

use std::time::Duration;

use serde_json::{Map, Value};

use super::Rejection;
use crate::config::Auth;

/// What tokens must claim.
#[derive(Debug)]
pub(super) struct Requirements {
    audiences: Option<Vec<String>>,
    issuers: Option<Vec<String>>,
    scopes: Vec<String>,
    leeway: Duration,
}

/// A claim as it was found.
enum Claim<T> {
    Absent,
    IllTyped,
    Value(T),
}

impl<T> Claim<T> {
    fn read<'c>(
        claims: &'c Map<String, Value>,
        name: &str,
        read: impl FnOnce(&'c Value) -> Option<T>,
    ) -> Self {
        match claims.get(name) {
            None => Self::Absent,
            Some(value) => read(value).map_or(Self::IllTyped, Self::Value),
        }
    }

    const fn is_ill_typed(&self) -> bool {
        matches!(self, Self::IllTyped)
    }
}

impl Requirements {
    pub(super) fn new(auth: &Auth) -> Self {
        Self {
            audiences: auth.audiences.clone(),
            issuers: auth.issuers.clone(),
            scopes: auth.required_scopes.clone(),
            leeway: auth.leeway,
        }
    }

    /// Judges the claims as of `now`, in seconds since the Unix epoch. The order of the checks is
    /// the order in which reasons win; both bounds of time are inclusive.
    ///
    /// # Errors
    ///
    /// The reason that wins.
    pub(super) fn check(&self, claims: &Map<String, Value>, now: u64) -> Result<(), Rejection> {
        let leeway = self.leeway.as_secs();
        let expiry = Claim::read(claims, "exp", seconds);
        let beginning = Claim::read(claims, "nbf", seconds);
        let audience = Claim::read(claims, "aud", texts);
        let issuer = Claim::read(claims, "iss", Value::as_str);
        let subject = Claim::read(claims, "sub", Value::as_str);
        let scope = Claim::read(claims, "scope", scopes);

        match expiry {
            Claim::Absent => return Err(Rejection::Expired),
            Claim::Value(end) if end < now.saturating_sub(leeway) => {
                return Err(Rejection::Expired);
            }
            Claim::Value(_) | Claim::IllTyped => {}
        }
        if matches!(beginning, Claim::Value(start) if start > now.saturating_add(leeway)) {
            return Err(Rejection::NotYetValid);
        }
        if lacks(self.audiences.as_deref(), &audience, Vec::as_slice) {
            return Err(Rejection::Audience);
        }
        if lacks(self.issuers.as_deref(), &issuer, std::slice::from_ref) {
            return Err(Rejection::Issuer);
        }
        if expiry.is_ill_typed()
            || beginning.is_ill_typed()
            || audience.is_ill_typed()
            || issuer.is_ill_typed()
            || subject.is_ill_typed()
            || scope.is_ill_typed()
        {
            return Err(Rejection::NotToken);
        }
        let granted = match &scope {
            Claim::Value(granted) => granted.as_slice(),
            Claim::Absent | Claim::IllTyped => &[],
        };
        let is_granted = |required: &String| granted.contains(&required.as_str());
        if self.scopes.iter().all(is_granted) {
            Ok(())
        } else {
            Err(Rejection::Scope)
        }
    }
}

/// Whether one of some texts is asked for and the claim, well typed or absent, has none of them.
fn lacks<'c, T>(
    allowed: Option<&[String]>,
    claim: &'c Claim<T>,
    texts: impl FnOnce(&'c T) -> &'c [&'c str],
) -> bool {
    let Some(allowed) = allowed else {
        return false;
    };
    match claim {
        Claim::Absent => true,
        Claim::IllTyped => false,
        Claim::Value(claimed) => {
            let is_allowed = |text: &&str| allowed.iter().any(|allowed| allowed == text);
            !texts(claimed).iter().any(is_allowed)
        }
    }
}

/// A point in time: a number that is not negative, rounded to whole seconds, saturating.
fn seconds(value: &Value) -> Option<u64> {
    let number = value.as_number()?;
    number.as_u64().or_else(|| {
        let seconds = number.as_f64()?;
        // The cast saturates.
        (seconds.is_finite() && seconds >= 0.0).then_some((seconds + 0.5).floor() as u64)
    })
}

/// A text, or an array of nothing but texts.
fn texts(value: &Value) -> Option<Vec<&str>> {
    match value {
        Value::String(text) => Some(vec![text]),
        Value::Array(items) => items.iter().map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// Scopes: the words of a text, or the items of an array, each whole.
fn scopes(value: &Value) -> Option<Vec<&str>> {
    match value {
        Value::String(text) => Some(text.split(' ').filter(|word| !word.is_empty()).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            texts(value)
        }
    }
}
