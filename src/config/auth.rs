//! The `[auth]` table: who may call (names and rules; key material is loaded elsewhere).
//!
//! A table that is present must say whether it is on, so that authentication cannot go off by
//! accident. One that says `enabled = false` is dropped unjudged, after key names and types of the
//! whole document were checked and its variables were resolved.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use toml::Value;
use url::{Host, Url};

use super::error::{Error, Requirement};
use super::form::{self, Form};
use super::key::{Rule, UNBOUNDED, dotted, list, map, seconds, section, switch, table, text};
use super::secret::Secret;

/// Most API keys.
const API_KEYS_MAX: usize = 256;
/// Most bytes of the name of an API key.
const API_KEY_NAME_BYTES_MAX: usize = 64;
/// Fewest and most bytes of an API key.
const API_KEY_BYTES: (u32, u32) = (32, 8192);
/// Most bytes of a key id.
const KID_BYTES_MAX: usize = 256;
/// Largest clock tolerance in seconds.
const LEEWAY_SECONDS_MAX: i64 = 300;
/// Time that one refresh of the key set may take beyond its jittered period.
const REFRESH_SLACK_SECONDS: u64 = 10;

section! {
    /// Who may call. A loaded configuration holds this table only when it is enabled.
    pub struct Auth {
        /// Whether callers must present a credential. Required when the table is present.
        "enabled" => enabled: bool = switch();
        /// API keys by name, at most 256: each 32 to 8192 visible ASCII characters, no two equal. A
        /// name has 1 to 64 letters, digits, dots, underscores and hyphens and begins with a letter
        /// or digit.
        "api_keys" => api_keys: BTreeMap<String, Secret<String>> =
            map(Some(API_KEYS_MAX), api_key_name(), text(api_key()).secret());
        /// `https` URL of the JSON Web Key Set that signs tokens (`http` on a loopback host).
        /// Excludes `keys`.
        "jwks_url" => jwks_url: Option<Secret<Url>> = text(jwks_url()).secret().optional();
        /// Public keys that sign tokens. Excludes `jwks_url`.
        "keys" => keys: Vec<InlineKey> = list(0, table()).or(Vec::<Value>::new());
        /// Audiences of which a token must name one. Absent checks none.
        "audiences" => audiences: Option<Vec<String>> = list(1, text(form::filled())).optional();
        /// Issuers of which a token must name one. Absent checks none.
        "issuers" => issuers: Option<Vec<String>> = list(1, text(form::filled())).optional();
        /// Scopes that a token must have, all of them.
        "required_scopes" => required_scopes: Vec<String> =
            list(0, text(scope())).or(Vec::<Value>::new());
        /// Tolerance for clock differences when a token's times are checked, in seconds.
        "leeway_seconds" => leeway: Duration = seconds(0, LEEWAY_SECONDS_MAX).or(60);
        /// Time between two fetches of the key set, before jitter, in seconds.
        "jwks_refresh_seconds" => jwks_refresh: Duration = seconds(1, UNBOUNDED).or(300);
        /// Age at which a key set that could not be refreshed stops the server, in seconds. Must be
        /// at least jwks_refresh_seconds plus a tenth of it, rounded up, plus 10.
        "jwks_max_stale_seconds" => jwks_max_stale: Duration = seconds(1, UNBOUNDED).or(3_600);
    }
}

section! {
    /// A public key that signs tokens.
    pub struct InlineKey {
        /// Key id, unique among the keys: 1 to 256 bytes.
        "kid" => kid: String = text(key_id());
        /// Signature algorithm.
        "alg" => alg: Algorithm = text(form::words(Algorithm::EXPECTED, &Algorithm::WORDS));
        /// The key as one PEM block labelled `PUBLIC KEY`, of a type that fits the algorithm.
        "public_key" => public_key: Secret<String> = text(form::filled()).secret();
    }
}

/// A signature algorithm of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    const WORDS: [(&'static str, Self); 6] = [
        (Self::Rs256.name(), Self::Rs256),
        (Self::Rs384.name(), Self::Rs384),
        (Self::Rs512.name(), Self::Rs512),
        (Self::Es256.name(), Self::Es256),
        (Self::Es384.name(), Self::Es384),
        (Self::EdDsa.name(), Self::EdDsa),
    ];
    const EXPECTED: &'static str = "RS256, RS384, RS512, ES256, ES384 or EdDSA";

    /// Reads a name; case counts.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (_, algorithm) = Self::WORDS.into_iter().find(|(word, _)| *word == name)?;
        Some(algorithm)
    }

    /// The name of RFC 7518 and RFC 8037.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// The rule of the table: nothing when it is absent or switched off.
pub(super) fn rule() -> Rule<Option<Auth>> {
    let checked = |auth: Auth, path: &str| auth.check(path).map(|()| auth);
    table::<Auth>().then(checked).optional_unless(switched_off)
}

/// Whether a table says that it is off.
fn switched_off(value: &Value) -> bool {
    value.get("enabled").and_then(Value::as_bool) == Some(false)
}

impl Auth {
    /// Checks the relations inside an enabled table.
    fn check(&self, path: &str) -> Result<(), Error> {
        let invalid = |key: &str, rule| Err(Error::invalid(format!("{path}.{key}"), rule));
        if self.api_keys.is_empty() && self.jwks_url.is_none() && self.keys.is_empty() {
            let rule = "given at least one of api_keys, jwks_url and keys when enabled";
            return Err(Error::invalid(path, Requirement::Form(rule)));
        }
        if self.jwks_url.is_some() && !self.keys.is_empty() {
            return invalid(
                "jwks_url",
                Requirement::Form("absent when auth.keys is given"),
            );
        }
        let mut values = BTreeSet::new();
        if let Some((name, _)) = self
            .api_keys
            .iter()
            .find(|(_, key)| !values.insert(key.expose()))
        {
            return invalid(&dotted("api_keys", name), Requirement::Unique);
        }
        if !self.stale_window_is_wide_enough() {
            let rule = "at least auth.jwks_refresh_seconds plus a tenth of it plus 10";
            return invalid("jwks_max_stale_seconds", Requirement::Form(rule));
        }
        let mut ids = BTreeSet::new();
        match self.keys.iter().position(|key| !ids.insert(&key.kid)) {
            Some(index) => invalid(&format!("keys[{index}].kid"), Requirement::Unique),
            None => Ok(()),
        }
    }

    /// Whether one refresh can fail and the next still arrives before the key set is stale.
    fn stale_window_is_wide_enough(&self) -> bool {
        let refresh = self.jwks_refresh.as_secs();
        let needed = refresh
            .checked_add(refresh.div_ceil(10))
            .and_then(|seconds| seconds.checked_add(REFRESH_SLACK_SECONDS));
        needed.is_some_and(|needed| self.jwks_max_stale.as_secs() >= needed)
    }
}

fn api_key_name() -> Form<String> {
    form::pattern(
        "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        "1 to 64 letters, digits, dots, underscores and hyphens, beginning with a letter or digit",
        |name| {
            let inner =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
            let valid = name.len() <= API_KEY_NAME_BYTES_MAX
                && name.bytes().all(inner)
                && name.starts_with(|first: char| first.is_ascii_alphanumeric());
            valid.then(|| name.to_owned())
        },
    )
}

fn api_key() -> Form<String> {
    let (min, max) = API_KEY_BYTES;
    form::pattern(
        r"^(?!env:)[\x21-\x7E]+$",
        "32 to 8192 visible ASCII characters",
        move |key| {
            let length = (min as usize..=max as usize).contains(&key.len());
            (length && key.bytes().all(|byte| byte.is_ascii_graphic())).then(|| key.to_owned())
        },
    )
    .chars(min, max)
}

fn key_id() -> Form<String> {
    form::pattern(r"^(?!env:)", "1 to 256 bytes", |kid| {
        (1..=KID_BYTES_MAX)
            .contains(&kid.len())
            .then(|| kid.to_owned())
    })
    .chars(1, 256)
}

fn scope() -> Form<String> {
    form::pattern(
        r"^(?!env:)[^\s]+$",
        "a scope: not empty, without whitespace",
        |scope| {
            let valid = !scope.is_empty() && !scope.contains(char::is_whitespace);
            valid.then(|| scope.to_owned())
        },
    )
}

fn jwks_url() -> Form<Url> {
    form::pattern(
        r"^https?://[^\s/?#@][^\s#]*$",
        "an https URL (http on a loopback host) without user info and fragment",
        |text| {
            let url = form::parse_http_url(text)?;
            let anonymous = url.username().is_empty() && url.password().is_none();
            let protected = url.scheme() == "https" || on_loopback(&url);
            (anonymous && protected && url.fragment().is_none()).then_some(url)
        },
    )
}

/// Whether the host of a URL is this machine by its spelling alone.
fn on_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => IpAddr::V4(address).is_loopback(),
        Some(Host::Ipv6(address)) => IpAddr::V6(address).is_loopback(),
        None => false,
    }
}
