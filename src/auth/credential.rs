//! The `authorization` header, and what counts as a bearer credential in it.

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::Rejection;

/// Most bytes of a credential. Longer ones are refused before anything is compared or decoded.
const CREDENTIAL_BYTES_MAX: usize = 8192;

/// Finds the credential: what follows `Bearer` and one space, with blanks trimmed off at both ends.
///
/// # Errors
///
/// [`Rejection::Missing`], [`Rejection::NotBearer`] (two headers included: they could be read
/// differently by somebody in between) or [`Rejection::NotToken`] for one that is too long.
pub(super) fn credential(headers: &HeaderMap) -> Result<&str, Rejection> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(Rejection::Missing)?;
    if values.next().is_some() {
        return Err(Rejection::NotBearer);
    }
    // Visible ASCII, spaces and tabs.
    let value = value.to_str().map_err(|_| Rejection::NotBearer)?;
    let (scheme, rest) = value.split_once(' ').ok_or(Rejection::NotBearer)?;
    let credential = rest.trim_matches([' ', '\t']);
    if !scheme.eq_ignore_ascii_case("bearer") || credential.is_empty() {
        return Err(Rejection::NotBearer);
    }
    if credential.len() > CREDENTIAL_BYTES_MAX {
        return Err(Rejection::NotToken);
    }
    Ok(credential)
}
