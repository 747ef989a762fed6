//! When a session says that it is there, and when it gives up on its client (ARC-081).
//!
//! Two timers: one since the last frame was queued, one since the transport took a Ping.

use std::time::Duration;

use tokio::time::Instant;

/// The two timers of a session, as times. The session waits for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keepalive {
    interval: Duration,
    max_pong_wait: Duration,
    idle_since: Instant,
    ping: Option<Ping>,
}

/// A Ping without a Pong.
#[derive(Clone, Copy, Debug)]
struct Ping {
    nonce: u64,
    admitted: Instant,
}

impl Keepalive {
    /// Timers that begin now.
    pub(super) fn new(interval: Duration, max_pong_wait: Duration, now: Instant) -> Self {
        Self {
            interval,
            max_pong_wait,
            idle_since: now,
            ping: None,
        }
    }

    /// A frame of any kind was queued.
    pub(super) fn admitted(&mut self, now: Instant) {
        self.idle_since = now;
    }

    /// When the session has been idle for too long.
    pub(super) fn idle_at(&self) -> Instant {
        self.idle_since + self.interval
    }

    /// Begins a new idle time, though nothing was queued: a Ping is unanswered already.
    pub(super) fn rearm(&mut self, now: Instant) {
        self.idle_since = now;
    }

    /// Whether a Ping has no Pong yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.ping.is_some()
    }

    /// A Ping with this nonce was queued.
    pub(super) fn asked(&mut self, nonce: u64, now: Instant) {
        self.ping = Some(Ping {
            nonce,
            admitted: now,
        });
    }

    /// A Pong came. Only that of the open Ping counts.
    pub(super) fn answered(&mut self, nonce: u64) {
        if self.ping.is_some_and(|ping| ping.nonce == nonce) {
            self.ping = None;
        }
    }

    /// When the Pong is late; `None` while no Ping is on its way. `taken` is when the transport took
    /// the last Ping.
    pub(super) fn deadline(&self, taken: Option<Instant>) -> Option<Instant> {
        let ping = self.ping?;
        let taken = taken.filter(|taken| *taken >= ping.admitted)?;
        Some(taken + self.max_pong_wait)
    }
}
