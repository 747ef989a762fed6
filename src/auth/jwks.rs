//! Where the key set of a URL comes from.

use std::time::Duration;

use tracing::warn;
use url::Url;

use super::key_set::KeySet;
use super::{Cause, Error};
use crate::outbound::{Bounds, Outbound, Target};

/// What one fetch may take.
const BOUNDS: Bounds = Bounds {
    timeout: Duration::from_secs(10),
    answer_bytes_max: 256 * 1024,
};

/// Tries to load the set before the server gives up to start.
const STARTUP_TRIES: u32 = 3;

/// Pause between two of them.
const STARTUP_PAUSE: Duration = Duration::from_secs(1);

/// Fetches a key set; the server's is a [`Jwks`].
pub(super) trait Fetch: Send + Sync + 'static {
    /// Fetches the set once.
    fn fetch(&self) -> impl Future<Output = Result<KeySet, Cause>> + Send;
}

/// A key set at a URL.
#[derive(Debug)]
pub(super) struct Jwks {
    outbound: Outbound,
    target: Target,
}

impl Jwks {
    pub(super) fn new(outbound: Outbound, url: &Url) -> Result<Self, Error> {
        let target = Target::new(url).map_err(|_| Error::JwksUrl)?;
        Ok(Self { outbound, target })
    }
}

impl Fetch for Jwks {
    async fn fetch(&self) -> Result<KeySet, Cause> {
        let document = self.outbound.read(&self.target, BOUNDS).await?;
        KeySet::parse(&document)
    }
}

/// Loads the set for the first time, in a few tries.
pub(super) async fn load(source: &impl Fetch) -> Result<KeySet, Error> {
    let mut tries = 1;
    loop {
        match source.fetch().await {
            Ok(keys) => return Ok(keys),
            Err(cause) => {
                warn!(cause = cause.word(), "the key set could not be fetched");
                if tries == STARTUP_TRIES {
                    return Err(Error::KeySet(cause));
                }
            }
        }
        tries += 1;
        tokio::time::sleep(STARTUP_PAUSE).await;
    }
}
