//! Setting authentication up at startup (ARC-005).

use std::sync::Arc;
use std::time::Duration;

use ring::rand::{SystemRandom, generate};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::{error, info};

use super::Error;
use super::api_keys::ApiKeys;
use super::authenticator::{Authenticator, Tokens};
use super::claims::Requirements;
use super::freshness::{Schedule, refresh_until_stale};
use super::jwks::{Jwks, load};
use super::key_set::{KeySet, PublishedKey};
use crate::clock::Clock;
use crate::config::Auth;
use crate::metrics::Metrics;
use crate::outbound::{Outbound, Trust};

/// Authentication that works. Dropping it ends the refresh of its keys.
#[derive(Debug, Default)]
pub struct Access {
    authenticator: Option<Arc<Authenticator>>,
    published: Vec<PublishedKey>,
    stale: CancellationToken,
    _refreshing: Option<DropGuard>,
}

impl Access {
    /// What judges callers; nothing when everybody may call.
    #[must_use]
    pub fn authenticator(&self) -> Option<Arc<Authenticator>> {
        self.authenticator.clone()
    }

    /// The keys for tokens at startup, in order. A refresh does not change what was published.
    #[must_use]
    pub fn published(&self) -> &[PublishedKey] {
        &self.published
    }

    /// Cancelled when the keys are too old to be trusted: the server has to stop then. Keys of the
    /// configuration never are.
    #[must_use]
    pub fn stale(&self) -> CancellationToken {
        self.stale.clone()
    }
}

/// Reads or fetches the keys, and keeps a fetched set fresh from then on. Without a table nothing
/// is read and nothing fetched.
///
/// # Errors
///
/// Any [`Error`]. A URL is tried three times, a second apart.
pub async fn open(
    auth: Option<&Auth>,
    clock: Clock,
    trust: Trust,
    metrics: &Arc<Metrics>,
) -> Result<Access, Error> {
    let mut access = Access::default();
    let Some(auth) = auth else {
        return Ok(access);
    };
    let keys = match &auth.jwks_url {
        Some(url) => {
            let source = Jwks::new(Outbound::new(trust), url.expose())?;
            let set = load(&source).await?;
            info!(keys = set.len(), "key set loaded");
            Some(access.keep_fresh(source, set, auth, metrics))
        }
        None if auth.keys.is_empty() => None,
        None => Some(watch::channel(Arc::new(KeySet::inline(&auth.keys)?)).1),
    };
    if let Some(keys) = &keys {
        let set = keys.borrow();
        metrics.auth_keys(set.len());
        access.published = set.published();
    }
    access.authenticator = Some(Arc::new(Authenticator {
        api_keys: ApiKeys::new(&auth.api_keys),
        tokens: keys.map(|keys| Tokens {
            keys,
            requirements: Requirements::new(auth),
            clock,
        }),
    }));
    Ok(access)
}

impl Access {
    /// Starts the refresh of a set that was loaded now.
    fn keep_fresh(
        &mut self,
        source: Jwks,
        set: KeySet,
        auth: &Auth,
        metrics: &Arc<Metrics>,
    ) -> watch::Receiver<Arc<KeySet>> {
        let (sender, receiver) = watch::channel(Arc::new(set));
        let schedule = Schedule {
            refresh: auth.jwks_refresh,
            max_stale: auth.jwks_max_stale,
        };
        let loaded = Instant::now();
        let metrics = Arc::clone(metrics);
        let refresh = refresh_until_stale(source, sender, metrics, schedule, loaded, jitter);
        let stop = CancellationToken::new();
        self._refreshing = Some(stop.clone().drop_guard());
        let stale = self.stale.clone();
        tokio::spawn(async move {
            if stop.run_until_cancelled(refresh).await.is_some() {
                error!("the key set could not be refreshed for too long");
                stale.cancel();
            }
        });
        receiver
    }
}

/// A random time from nothing to a tenth of the period.
pub(super) fn jitter(period: Duration) -> Duration {
    // Without randomness there is no jitter, which is no fault.
    let random: [u8; 4] = generate(&SystemRandom::new()).map_or([0; 4], |random| random.expose());
    (period / 10).mul_f64(f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX))
}
