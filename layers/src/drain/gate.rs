//! The state that layer and handle share: whether the gate is closed, and who is inside.
//!
//! Both are one atomic value, so that no request can slip in between the closing and the count. It
//! must never be possible to open a closed gate (ARC-003).

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// The bit that says the gate is closed.
const CLOSED: usize = 1;

/// One request inside; the count stands above the bit. Half the address space bounds it: every
/// request inside holds memory of its own.
const ONE_INSIDE: usize = 2;

/// The gate itself.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: AtomicUsize,
    emptied: Notify,
    cut: Arc<Notify>,
}

/// A request inside the gate; leaves when it is dropped.
#[derive(Debug)]
pub(super) struct Inside {
    gate: Arc<Gate>,
}

impl Gate {
    /// Lets one request in, unless the gate is closed.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Inside> {
        let add = |state: usize| (state & CLOSED == 0).then_some(state + ONE_INSIDE);
        let entered = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
        entered.ok().map(|_| Inside {
            gate: Arc::clone(self),
        })
    }

    /// Resolves at the first [`DrainHandle::cut`] from now on.
    pub(super) fn cut(&self) -> OwnedNotified {
        Arc::clone(&self.cut).notified_owned()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let before = self.gate.state.fetch_sub(ONE_INSIDE, Ordering::AcqRel);
        if before == CLOSED + ONE_INSIDE {
            self.gate.emptied.notify_waiters();
        }
    }
}

/// Closes the gate and waits for what is inside; clones steer the same gate.
#[derive(Clone, Debug)]
pub struct DrainHandle {
    gate: Arc<Gate>,
}

impl DrainHandle {
    pub(super) const fn new(gate: Arc<Gate>) -> Self {
        Self { gate }
    }

    /// Closes the gate, for good: a request that enters from here on is refused.
    pub fn close(&self) {
        let before = self.gate.state.fetch_or(CLOSED, Ordering::AcqRel);
        if before < ONE_INSIDE {
            self.gate.emptied.notify_waiters();
        }
    }

    /// Whether the gate is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.gate.state.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Requests inside: entered, and their response body not yet dropped.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.gate.state.load(Ordering::Acquire) / ONE_INSIDE
    }

    /// Closes the gate and answers every request inside that has no response yet with
    /// `UNAVAILABLE`, dropping its handler.
    pub fn cut(&self) {
        self.close();
        self.gate.cut.notify_waiters();
    }

    /// Resolves when the gate is closed and nothing is inside; at once when it is so already.
    pub async fn drained(&self) {
        let mut emptied = pin!(self.gate.emptied.notified());
        loop {
            // Registered before the look, so that a change in between is not missed.
            emptied.as_mut().enable();
            if self.gate.state.load(Ordering::Acquire) == CLOSED {
                return;
            }
            emptied.as_mut().await;
            emptied.set(self.gate.emptied.notified());
        }
    }
}
