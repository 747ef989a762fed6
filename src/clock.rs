//! The wall clock as an argument, so that tests can choose the time (ARC-110).

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Tells the time. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// The clock of this machine.
    #[must_use]
    pub fn system() -> Self {
        Self(Arc::new(SystemTime::now))
    }

    /// A clock that shows whatever `now` returns.
    #[must_use]
    pub fn from_fn(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Whole seconds since the Unix epoch; 0 for any time before it.
    #[must_use]
    pub fn unix_seconds(&self) -> u64 {
        self.since_epoch().as_secs()
    }

    /// Nanoseconds since the Unix epoch; 0 for any time before it.
    #[must_use]
    pub fn unix_nanos(&self) -> u64 {
        u64::try_from(self.since_epoch().as_nanos()).unwrap_or(u64::MAX)
    }

    fn since_epoch(&self) -> Duration {
        (self.0)().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
