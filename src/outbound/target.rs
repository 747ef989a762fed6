//! Where an exchange goes, judged once at startup.
//!
//! The address of a service is often a secret by itself, so it is never printed (ARC-101).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::uri::Scheme;
use http::{HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use url::Url;

/// A URL that no exchange can go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the URL cannot be called: it must be one of http or https")]
pub struct Unusable;

/// The address of a server and what is asked there. `Debug` shows nothing of it.
#[derive(Clone)]
pub struct Target {
    uri: Uri,
    authorization: Option<HeaderValue>,
}

impl Target {
    /// Takes an `http` or `https` URL. User info is sent as basic authorization (RFC 7617); a
    /// fragment is dropped, as it is never sent.
    ///
    /// # Errors
    ///
    /// [`Unusable`] for another scheme, and for the few URLs that HTTP cannot carry.
    pub fn new(url: &Url) -> Result<Self, Unusable> {
        let authorization = basic_authorization(url);
        let mut url = url.clone();
        url.set_fragment(None);
        url.set_username("").map_err(|()| Unusable)?;
        url.set_password(None).map_err(|()| Unusable)?;
        let uri: Uri = url.as_str().parse().map_err(|_| Unusable)?;
        let schemes = [Scheme::HTTP, Scheme::HTTPS];
        let callable =
            uri.host().is_some() && uri.scheme().is_some_and(|scheme| schemes.contains(scheme));
        let target = Self { uri, authorization };
        callable.then_some(target).ok_or(Unusable)
    }

    pub(super) const fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(super) const fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }
}

/// The credential in the user info of a URL, where percent signs stand for bytes.
fn basic_authorization(url: &Url) -> Option<HeaderValue> {
    let password = url.password();
    if url.username().is_empty() && password.is_none() {
        return None;
    }
    let mut credential: Vec<u8> = percent_decode_str(url.username()).collect();
    credential.push(b':');
    credential.extend(percent_decode_str(password.unwrap_or_default()));
    let value = format!("Basic {}", STANDARD.encode(credential));
    // Base64 is always a header value.
    let mut value = HeaderValue::try_from(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Target")
    }
}
