//! Token buckets (API-107).

use std::time::Duration;

use tokio::time::Instant;

/// A bucket that is full at first, loses one token per frame and refills at a steady rate.
///
/// Kept as the time at which it will be full again: that takes no arithmetic on fractions of tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    per_token: Duration,
    /// How long an empty bucket takes to be full.
    capacity: Duration,
    full_at: Instant,
}

impl Bucket {
    /// A full bucket of `burst` tokens, refilled with `per_second` of them each second.
    pub(super) fn new(per_second: u32, burst: u32, now: Instant) -> Self {
        let per_token = Duration::from_secs(1) / per_second.max(1);
        Self {
            per_token,
            capacity: per_token * burst,
            full_at: now,
        }
    }

    /// Takes a token if there is one.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + self.per_token;
        if full_at.duration_since(now) > self.capacity {
            return false;
        }
        self.full_at = full_at;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the burst passes at once, the next frame does not, and one token is back after one
    /// refill time (API-107). Times are arguments, so nothing waits.
    #[test]
    fn a_bucket_lets_its_burst_pass_and_then_its_rate() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        let mut bucket = Bucket::new(10, 100, start);
        assert!((0..100).all(|_| bucket.take(start)));
        assert!(!bucket.take(start));
        assert!(!bucket.take(after(99)));
        assert!(bucket.take(after(100)));
        assert!(!bucket.take(after(100)));
        // It never holds more than the burst.
        assert!((0..100).all(|_| bucket.take(after(3_600_000))));
        assert!(!bucket.take(after(3_600_000)));
    }
}
