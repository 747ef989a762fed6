//! Waiting for what can be seen. Nothing here waits for time to pass.

use std::time::{Duration, Instant};

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(10);

/// When a condition that must come true counts as failed: far above what a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// Looks until a condition holds.
///
/// # Panics
///
/// With `what` when it does not come true within half a minute.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "does not come true: {what}");
        tokio::time::sleep(INTERVAL).await;
    }
}
