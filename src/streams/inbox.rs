//! What the tailer leaves for a session: rows to deliver, as long as there is room, and how far
//! behind each topic is, which takes none (ARC-073, ARC-078).
//!
//! Putting something in never waits for the session.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::frame::Delivery;
use crate::config::delivery::{FETCH_BUDGET_BYTES, OUTBOUND_BYTES};
use crate::db::SequenceId;

/// Bytes of live rows that wait for one session. With a turn of history, which fills at most as much
/// as the outbound queue, they stay within the budget of a stream (ARC-077).
const LIVE_BYTES: u64 = OUTBOUND_BYTES;
const _: () = assert!(LIVE_BYTES + OUTBOUND_BYTES <= FETCH_BUDGET_BYTES);

/// One topic on one session, from its add to its removal; never used again (ARC-074).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Registration(pub(super) u64);

/// What a session finds in its inbox.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// Rows, ascending per registration.
    pub(super) rows: Vec<(Registration, Arc<Delivery>)>,
    /// Registrations that have more rows above those, up to these ids.
    pub(super) behind: HashMap<Registration, SequenceId>,
    bytes: u64,
}

/// The inbox of one session.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    notices: Mutex<Notices>,
    filled: Notify,
}

impl Inbox {
    /// Leaves a row. [`wake`](Self::wake) must follow, once for any number of rows.
    pub(super) fn put(&self, registration: Registration, delivery: &Arc<Delivery>) {
        let mut notices = self.lock();
        let bytes = delivery.bytes();
        // Once a registration is behind, its later rows are too: their order must not change.
        let fits = notices.bytes.saturating_add(bytes) <= LIVE_BYTES;
        if fits && !notices.behind.contains_key(&registration) {
            notices.bytes += bytes;
            notices.rows.push((registration, Arc::clone(delivery)));
        } else {
            notices.behind.insert(registration, delivery.id());
        }
    }

    /// Tells the session that there is something.
    pub(super) fn wake(&self) {
        self.filled.notify_one();
    }

    /// Returns once there is something.
    pub(super) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Empties the inbox.
    pub(super) fn take(&self) -> Notices {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Notices> {
        // No code that can panic runs under this lock.
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
