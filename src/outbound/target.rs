//! Where an exchange goes, judged once at startup.
//!
//! The address of a service is often a secret by itself, so it is never printed (ARC-101).

use std::fmt;

use http::Uri;
use http::uri::Scheme;
use url::Url;

/// A URL that no exchange can go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the URL cannot be called: it must be http or https, without user info")]
pub struct Unusable;

/// The address of a server and what is asked there. `Debug` shows nothing of it.
#[derive(Clone)]
pub struct Target(Uri);

impl Target {
    /// Takes an `http` or `https` URL. A fragment is dropped, as it is never sent.
    ///
    /// # Errors
    ///
    /// [`Unusable`] for another scheme, for user info, which would otherwise be lost without a
    /// word, and for the few URLs that HTTP cannot carry.
    pub fn new(url: &Url) -> Result<Self, Unusable> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Unusable);
        }
        let mut url = url.clone();
        url.set_fragment(None);
        let uri: Uri = url.as_str().parse().map_err(|_| Unusable)?;
        let schemes = [Scheme::HTTP, Scheme::HTTPS];
        let callable =
            uri.host().is_some() && uri.scheme().is_some_and(|scheme| schemes.contains(scheme));
        callable.then_some(Self(uri)).ok_or(Unusable)
    }

    pub(super) const fn uri(&self) -> &Uri {
        &self.0
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Target")
    }
}
