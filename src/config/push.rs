//! The `[push]` table: push notifications (names and rules; credentials are loaded elsewhere).

use std::time::Duration;

use url::Host;

use super::form::{self, Form};
use super::key::{Rule, defaults, integer, list, seconds, section, switch, table, text};
use super::secret::Secret;

/// One day.
const TTL_SECONDS_MIN: i64 = 86_400;
/// Most seconds whose nanoseconds fit a stored timestamp.
const TTL_SECONDS_MAX: i64 = 9_223_372_036;
/// Most attempts of one delivery.
const ATTEMPTS_MAX: i64 = 10;

section! {
    /// Push notifications.
    pub struct Push {
        /// Time after which a recipient that does not renew itself is forgotten, in seconds.
        "recipient_ttl_seconds" => recipient_ttl: Duration =
            seconds(TTL_SECONDS_MIN, TTL_SECONDS_MAX).or(2_592_000);
        /// Attempts of one delivery.
        "max_attempts" => max_attempts: u32 = integer(1, ATTEMPTS_MAX).or(3);
        /// The channel of the Apple Push Notification service.
        "apns" => apns: Option<Apns> = table().optional();
        /// The channel of Firebase Cloud Messaging.
        "fcm" => fcm: Option<Fcm> = table().optional();
        /// The channel of webhooks.
        "http" => http: Option<Webhooks> = table().optional();
    }
}

section! {
    /// The channel of the Apple Push Notification service.
    pub struct Apns {
        /// Signing key: a P-256 key in PKCS #8 PEM.
        "key" => key: Secret<String> = secret();
        /// Id of the signing key.
        "key_id" => key_id: String = text(form::filled());
        /// Id of the developer team.
        "team_id" => team_id: String = text(form::filled());
        /// Bundle id of the application, sent as the topic.
        "bundle_id" => bundle_id: String = text(form::filled());
        /// Which service the application's tokens belong to.
        "environment" => environment: ApnsEnvironment =
            text(form::words("production or sandbox", &ApnsEnvironment::WORDS));
    }
}

section! {
    /// The channel of Firebase Cloud Messaging.
    pub struct Fcm {
        /// Service account as the JSON text that the console hands out.
        "service_account" => service_account: Secret<String> = secret();
    }
}

section! {
    /// The channel of webhooks.
    pub struct Webhooks {
        /// Hosts that a webhook may have: names, or `*.` and a name for everything below it. Absent
        /// or empty allows any host.
        "allowed_domains" => allowed_domains: Vec<String> =
            list(0, text(domain())).or(Vec::<toml::Value>::new());
        /// Whether a webhook may resolve to a private address. For development and tests.
        "allow_private_addresses" => allow_private_addresses: bool = switch().or(false);
    }
}

impl Default for Push {
    fn default() -> Self {
        defaults()
    }
}

impl Default for Webhooks {
    fn default() -> Self {
        defaults()
    }
}

/// Which Apple service the tokens of an application belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApnsEnvironment {
    /// Applications from the store.
    Production,
    /// Development builds.
    Sandbox,
}

impl ApnsEnvironment {
    const WORDS: [(&'static str, Self); 2] =
        [("production", Self::Production), ("sandbox", Self::Sandbox)];
}

fn secret() -> Rule<Secret<String>> {
    text(form::filled()).secret()
}

fn domain() -> Form<String> {
    form::pattern(
        r"^(\*\.)?[^\s.:/*?#@\\\[\]]+(\.[^\s.:/*?#@\\\[\]]+)*\.?$",
        "a host name, or `*.` and a host name",
        |text| {
            let host = text.strip_prefix("*.").unwrap_or(text);
            let labels = host.strip_suffix('.').unwrap_or(host).split('.');
            let plain = |label: &str| {
                !label.is_empty() && form::unspaced(label) && !label.contains(SEPARATORS)
            };
            (labels.into_iter().all(plain) && Host::parse(host).is_ok()).then(|| text.to_owned())
        },
    )
}

/// Characters that would make more than a host of an entry.
const SEPARATORS: [char; 9] = [':', '/', '*', '?', '#', '@', '\\', '[', ']'];
