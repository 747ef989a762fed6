//! Whose turn it is to be checked: bounds on what checks hold and use, kept apart for short and long
//! ones.
//!
//! The check of an update costs what its inbox's history and the update itself are long. Nearly all are
//! a few kilobytes; anybody can make an inbox that takes a core for its whole time. Long checks
//! therefore have a queue, half of the cores and memory of their own, and whoever is short does not
//! wait behind them (ARC-051). No lock and no connection is held while waiting.

use std::num::NonZeroUsize;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Up to this many bytes of history and update a check is short: many times a usual history.
pub(super) const SHORT_BYTES_MAX: u64 = 256 * 1024;

/// Short checks at a time: together they hold a gibibyte of histories at most.
const SHORT_CHECKS_MAX: usize = 4096;

/// Mebibytes of history that all long checks hold together. The longest history that the default
/// limits allow is a quarter of it.
const LONG_MIB_MAX: u32 = 1024;

/// The turns of one process.
#[derive(Debug)]
pub(super) struct Turns {
    /// One permit per core: more checks that compute at once would only take each other's time.
    cores: Arc<Semaphore>,
    short: Arc<Semaphore>,
    /// One permit per long check.
    long: Arc<Semaphore>,
    /// One permit per mebibyte of a long check.
    long_mib: Arc<Semaphore>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _permits: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}

impl Turns {
    /// The turns of this machine.
    pub(super) fn new() -> Self {
        Self::of(std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
    }

    fn of(cores: usize) -> Self {
        Self {
            cores: Arc::new(Semaphore::new(cores)),
            short: Arc::new(Semaphore::new(SHORT_CHECKS_MAX)),
            long: Arc::new(Semaphore::new((cores / 2).max(1))),
            long_mib: Arc::new(Semaphore::new(LONG_MIB_MAX as usize)),
        }
    }

    /// Waits for the turn of a check of so many bytes.
    pub(super) async fn of_check(&self, bytes: u64) -> Turn {
        let permits = if bytes <= SHORT_BYTES_MAX {
            (take(&self.short, 1).await, None)
        } else {
            let turn = take(&self.long, 1).await;
            (turn, Some(take(&self.long_mib, mebibytes(bytes)).await))
        };
        Turn { _permits: permits }
    }

    /// Waits for a core to compute on.
    pub(super) async fn core(&self) -> OwnedSemaphorePermit {
        take(&self.cores, 1).await
    }
}

async fn take(semaphore: &Arc<Semaphore>, permits: u32) -> OwnedSemaphorePermit {
    Arc::clone(semaphore)
        .acquire_many_owned(permits)
        .await
        .expect("the semaphore is never closed")
}

/// How much of the room of long checks so many bytes take: some, and never more than there is. What
/// takes all of it is held alone.
fn mebibytes(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 20))
        .unwrap_or(LONG_MIB_MAX)
        .clamp(1, LONG_MIB_MAX)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Every history takes some room, in whole mebibytes, and none more than there is.
    #[test]
    fn histories_take_room_by_their_length() {
        let most = u64::from(LONG_MIB_MAX) * MIB;
        let cases = [
            (0, 1),
            (1, 1),
            (MIB, 1),
            (MIB + 1, 2),
            (256 * MIB, 256),
            (most, LONG_MIB_MAX),
            (most + 1, LONG_MIB_MAX),
            (u64::MAX, LONG_MIB_MAX),
        ];
        for (bytes, expected) in cases {
            assert_eq!(mebibytes(bytes), expected, "{bytes}");
        }
    }

    /// Half of the cores serve long checks, one at least, and short checks have their turn whatever
    /// waits; a turn that ends lets the next one in.
    #[test]
    fn long_checks_take_half_of_the_cores() {
        for (cores, expected) in [(1, 1), (2, 1), (3, 1), (4, 2), (64, 32)] {
            let turns = Turns::of(cores);
            let long = || turns.of_check(SHORT_BYTES_MAX + 1).now_or_never();
            let mut held: Vec<_> = std::iter::from_fn(long).collect();
            assert_eq!(held.len(), expected, "{cores} cores");
            assert!(turns.of_check(SHORT_BYTES_MAX).now_or_never().is_some());
            held.pop();
            assert!(long().is_some());
        }
    }

    /// Long checks hold a bounded amount of history together, however many cores there are.
    #[test]
    fn long_checks_share_their_memory() {
        let turns = Turns::of(64);
        let fat = || turns.of_check(256 * MIB).now_or_never();
        let held: Vec<_> = std::iter::from_fn(fat).collect();
        assert_eq!(held.len(), 4);
        assert!(turns.of_check(MIB).now_or_never().is_none());
        drop(held);
        assert!(turns.of_check(u64::MAX).now_or_never().is_some());
    }

    /// Short checks are bounded, too.
    #[test]
    fn short_checks_share_their_memory() {
        let turns = Turns::of(1);
        let short = || turns.of_check(0).now_or_never();
        let held: Vec<_> = std::iter::from_fn(short).collect();
        assert_eq!(held.len(), SHORT_CHECKS_MAX);
    }
}
