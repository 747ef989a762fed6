//! Keeping a key set fresh, and the moment when it is too old to be trusted.
//!
//! Time is the monotonic clock: a step of the wall clock changes nothing here.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use super::jwks::Fetch;
use super::key_set::KeySet;
use crate::metrics::{Metrics, RefreshResult};

/// When the set is fetched again, and how old it may become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    /// Time between two fetches, before jitter.
    pub(super) refresh: Duration,
    /// Greatest age of the set that is in use.
    pub(super) max_stale: Duration,
}

/// Refreshes the set until it is stale: returns at the deadline that no refresh moved, at once even
/// if a fetch is in progress.
///
/// `loaded` is when the set that is in use was loaded; `jitter` answers what is added to a period,
/// so that many servers do not ask at the same time.
pub(super) async fn refresh_until_stale(
    source: impl Fetch,
    keys: watch::Sender<Arc<KeySet>>,
    metrics: Arc<Metrics>,
    schedule: Schedule,
    mut loaded: Instant,
    jitter: impl Fn(Duration) -> Duration,
) {
    // The configuration admits no age that the clock cannot show; one that could not be shown
    // would have to count as reached.
    while let Some(deadline) = loaded.checked_add(schedule.max_stale) {
        let attempt = async {
            tokio::time::sleep(schedule.refresh.saturating_add(jitter(schedule.refresh))).await;
            source.fetch().await
        };
        let Ok(fetched) = timeout_at(deadline, attempt).await else {
            return;
        };
        let now = Instant::now();
        if now >= deadline {
            return;
        }
        match fetched {
            Ok(set) => {
                metrics.jwks_refreshed(RefreshResult::Ok);
                metrics.auth_keys(set.len());
                keys.send_replace(Arc::new(set));
                loaded = now;
            }
            Err(cause) => {
                metrics.jwks_refreshed(RefreshResult::Error);
                warn!(cause = cause.word(), "the key set could not be refreshed");
            }
        }
    }
}
