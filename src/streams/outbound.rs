//! The queue between a session and its transport, bounded by frames and by bytes (ARC-080).
//!
//! The session never waits in here: it admits a frame or is told that there is no room. The
//! transport waits for frames, and tells the session when it took one or went away.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::end::End;
use super::frame::Frame;
use crate::config::delivery::{OUTBOUND_BYTES, OUTBOUND_FRAMES};

/// Part of the queue that history may fill. The rest is kept for live rows and for the answers that
/// must not wait, so that a subscriber who reads history slowly can still change its interests.
const HISTORY_FRAMES: usize = OUTBOUND_FRAMES / 2;
const HISTORY_BYTES: u64 = OUTBOUND_BYTES / 2;

/// How much of the queue a frame may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// Up to half: history can wait in the database.
    History,
    /// All of it.
    Whole,
}

impl Share {
    fn bounds(self) -> (usize, u64) {
        match self {
            Self::History => (HISTORY_FRAMES, HISTORY_BYTES),
            Self::Whole => (OUTBOUND_FRAMES, OUTBOUND_BYTES),
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<(Frame, u64)>,
    bytes: u64,
    /// Frames that the transport took so far.
    taken: u64,
    /// When it took a Ping last.
    ping_taken: Option<Instant>,
    end: Option<End>,
    reader: Option<Waker>,
    reader_is_gone: bool,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Signals the session: something was taken, or the transport is gone.
    changed: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // No code that can panic runs under this lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes an empty queue.
pub(super) fn queue() -> (Outbound, Frames) {
    let shared = Arc::new(Shared::default());
    (Outbound(Arc::clone(&shared)), Frames(shared))
}

/// The session's side. Dropping it without [`finish`](Self::finish) fails the stream.
#[derive(Debug)]
pub(super) struct Outbound(Arc<Shared>);

impl Outbound {
    /// Queues a frame if its share of the queue has room.
    pub(super) fn admit(&self, frame: Frame, bytes: u64, share: Share) -> bool {
        let mut queue = self.0.lock();
        if !has_room(&queue, bytes, share) {
            return false;
        }
        queue.frames.push_back((frame, bytes));
        queue.bytes += bytes;
        let reader = queue.reader.take();
        drop(queue);
        if let Some(reader) = reader {
            reader.wake();
        }
        true
    }

    /// Whether a frame of this size would be admitted.
    pub(super) fn has_room(&self, bytes: u64, share: Share) -> bool {
        has_room(&self.0.lock(), bytes, share)
    }

    /// Whether the transport has taken everything.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().frames.is_empty()
    }

    /// Frames that the transport took so far.
    pub(super) fn taken(&self) -> u64 {
        self.0.lock().taken
    }

    /// When the transport took a Ping last (ARC-081).
    pub(super) fn ping_taken(&self) -> Option<Instant> {
        self.0.lock().ping_taken
    }

    /// Whether nobody will read what is queued.
    pub(super) fn is_abandoned(&self) -> bool {
        self.0.lock().reader_is_gone
    }

    /// Returns after the transport took a frame or went away, if that happened since the last call.
    pub(super) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Ends the stream, after the frames that are still worth sending.
    pub(super) fn finish(&self, end: End) {
        end_with(&self.0, end);
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        end_with(&self.0, End::Recovery);
    }
}

fn has_room(queue: &Queue, bytes: u64, share: Share) -> bool {
    let (max_frames, max_bytes) = share.bounds();
    queue.frames.len() < max_frames && queue.bytes.saturating_add(bytes) <= max_bytes
}

/// The first end counts.
fn end_with(shared: &Shared, end: End) {
    let mut queue = shared.lock();
    if queue.end.is_some() {
        return;
    }
    let unread = if end.keeps_queue() {
        VecDeque::new()
    } else {
        std::mem::take(&mut queue.frames)
    };
    queue.end = Some(end);
    let reader = queue.reader.take();
    drop(queue);
    drop(unread);
    if let Some(reader) = reader {
        reader.wake();
    }
}

/// The transport's side: the frames of a stream, then why it ended.
#[derive(Debug)]
pub struct Frames(Arc<Shared>);

impl Stream for Frames {
    type Item = Result<Frame, End>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut queue = self.0.lock();
        let Some((frame, bytes)) = queue.frames.pop_front() else {
            return match &queue.end {
                // A half-close is a success without a word.
                Some(End::HalfClosed) => Poll::Ready(None),
                Some(end) => {
                    let end = end.clone();
                    // Whoever polls after the end gets nothing more.
                    queue.end = Some(End::HalfClosed);
                    Poll::Ready(Some(Err(end)))
                }
                None => {
                    queue.reader = Some(context.waker().clone());
                    Poll::Pending
                }
            };
        };
        queue.bytes -= bytes;
        queue.taken += 1;
        if matches!(frame, Frame::Ping(_)) {
            queue.ping_taken = Some(Instant::now());
        }
        drop(queue);
        self.0.changed.notify_one();
        Poll::Ready(Some(Ok(frame)))
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.reader_is_gone = true;
        let unread = std::mem::take(&mut queue.frames);
        drop(queue);
        drop(unread);
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests;
