//! One open stream: its registrations, what it owes, and what it has queued (ARC-074).
//!
//! A session belongs to one task. Everything it decides, it decides here, one event after the other,
//! so that no decision races another.

mod drive;
mod keepalive;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use envelope::Topic;
use tokio::time::Instant;
use tracing::info;

use super::bucket::Bucket;
use super::end::End;
use super::fetch::{FetchError, Fetched, Fetcher, Held};
use super::frame::{Delivery, Frame, Target};
use super::generation::Generation;
use super::inbox::{Inbox, Registration};
use super::interests::{Interests, Live};
use super::outbound::{Frames, Outbound, Share, queue};
use crate::clock::Clock;
use crate::config::Limits;
use crate::config::delivery::{OUTBOUND_BYTES, OUTBOUND_FRAMES};
use crate::db::{self, Heads, SequenceId};
use crate::metrics::{FrameKind, Metrics, Phase, StreamKind};

use self::keepalive::Keepalive;

/// What all sessions of an instance share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) fetcher: Arc<Fetcher>,
    pub(super) limits: Limits,
    pub(super) keepalive_interval: Duration,
    pub(super) max_pong_wait: Duration,
    pub(super) clock: Clock,
    pub(super) metrics: Arc<Metrics>,
}

/// One open stream.
#[derive(Debug)]
pub(super) struct Session {
    shared: Arc<Shared>,
    generation: Arc<Generation>,
    kind: StreamKind,
    inbox: Arc<Inbox>,
    interests: Interests,
    outbound: Outbound,
    /// Frames of the last turn that are not queued yet.
    held: VecDeque<Held>,
    /// Since when the first of them waits.
    held_since: Option<Instant>,
    keepalive: Keepalive,
    updates: Bucket,
    pings: Bucket,
    last_update: u64,
    stalled: Stalled,
    end: Option<End>,
}

/// Live rows that came while the queue was full, since the subscriber last took a frame (ARC-080).
#[derive(Debug, Default)]
struct Stalled {
    taken: u64,
    batches: usize,
    bytes: u64,
}

/// New registrations whose heads are being read.
#[derive(Debug)]
pub(super) struct Added {
    /// The Update that added them; `None` for the topics of a static stream.
    id: Option<u64>,
    registrations: Vec<(Topic, Registration)>,
    removed: usize,
}

impl Session {
    /// A session without topics, and the frames that will come out of it.
    pub(super) fn new(
        shared: Arc<Shared>,
        generation: Arc<Generation>,
        kind: StreamKind,
    ) -> (Self, Frames) {
        let (outbound, frames) = queue();
        let now = Instant::now();
        let limits = &shared.limits;
        let updates = Bucket::new(
            limits.max_update_frames_per_second,
            limits.max_update_burst,
            now,
        );
        let pings = Bucket::new(
            limits.max_ping_frames_per_second,
            limits.max_ping_burst,
            now,
        );
        shared.metrics.stream_opened(kind);
        let session = Self {
            keepalive: Keepalive::new(shared.keepalive_interval, shared.max_pong_wait, now),
            shared,
            generation,
            kind,
            inbox: Arc::default(),
            interests: Interests::default(),
            outbound,
            held: VecDeque::new(),
            held_since: None,
            updates,
            pings,
            last_update: 0,
            stalled: Stalled::default(),
            end: None,
        };
        (session, frames)
    }

    /// Ends the session with this reason, unless it has one.
    pub(super) fn fail(&mut self, end: End) {
        self.end.get_or_insert(end);
    }

    /// Registers topics, so that no row is missed from here on (ARC-076).
    pub(super) fn register(&mut self, adds: &[(Topic, SequenceId)]) -> Vec<(Topic, Registration)> {
        let registrations: Vec<_> = adds
            .iter()
            .map(|(topic, after)| (*topic, self.interests.add(*topic, *after)))
            .collect();
        self.generation
            .registry
            .register(&self.inbox, &registrations);
        self.shared.metrics.topics_registered(registrations.len());
        registrations
    }

    fn deregister(&mut self, topics: &[Topic]) {
        let removed: Vec<_> = topics
            .iter()
            .filter_map(|topic| Some((*topic, self.interests.remove(topic)?)))
            .collect();
        self.generation.registry.deregister(&self.inbox, &removed);
        self.shared.metrics.topics_deregistered(removed.len());
    }

    /// Opens a static stream: answers with all its targets and begins delivery.
    pub(super) fn open_static(
        &mut self,
        registrations: Vec<(Topic, Registration)>,
        heads: Result<Heads, db::Error>,
    ) -> Result<(), End> {
        self.begin(
            Added {
                id: None,
                registrations,
                removed: 0,
            },
            heads,
        )
    }

    /// Opens a bidirectional stream.
    pub(super) fn open(&mut self) -> Result<(), End> {
        self.answer(FrameKind::Started, self.started(Vec::new()))
    }

    fn started(&self, targets: Vec<Target>) -> Frame {
        let interval = self.shared.keepalive_interval.as_millis();
        Frame::Started {
            keepalive_interval_ms: u32::try_from(interval).unwrap_or(u32::MAX),
            targets,
        }
    }

    /// Answers with the targets of new registrations, and only then begins to deliver them. The change
    /// is logged by its numbers, whether or not requests are (ARC-096).
    fn begin(&mut self, added: Added, heads: Result<Heads, db::Error>) -> Result<(), End> {
        let heads = match heads {
            Ok(Heads { server, heads }) if server == self.generation.server => heads,
            Ok(_) => return Err(self.other_server()),
            Err(error) => return Err(self.database_failed(&error)),
        };
        let Added {
            id,
            registrations,
            removed,
        } = added;
        let targets = registrations
            .iter()
            .zip(&heads)
            .map(|((topic, _), head)| Target {
                topic: Bytes::copy_from_slice(topic.as_bytes()),
                through: *head,
            });
        let targets = targets.collect();
        match id {
            Some(id) => self.answer(FrameKind::Applied, Frame::Applied { id, targets })?,
            None => self.answer(FrameKind::Started, self.started(targets))?,
        }
        for ((_, registration), head) in registrations.iter().zip(heads) {
            self.interests.activate(*registration, head);
        }
        info!(added = registrations.len(), removed, "interests changed");
        Ok(())
    }

    /// Queues a frame that cannot wait.
    fn answer(&mut self, kind: FrameKind, frame: Frame) -> Result<(), End> {
        let bytes = frame.bytes();
        if bytes > self.shared.limits.max_response_bytes.min(OUTBOUND_BYTES) {
            return Err(End::TooLarge);
        }
        if !self.outbound.admit(frame, bytes, Share::Whole) {
            return Err(End::TooSlow);
        }
        self.admitted(kind);
        Ok(())
    }

    fn admitted(&mut self, kind: FrameKind) {
        self.shared.metrics.frame_sent(kind);
        self.keepalive.admitted(Instant::now());
    }

    /// Queues envelopes if there is room, and raises the floors of their topics (ARC-075).
    fn send(&mut self, rows: &[(Registration, Arc<Delivery>)], share: Share) -> bool {
        let deliveries: Vec<_> = rows.iter().map(|(_, row)| Arc::clone(row)).collect();
        let frame = Frame::Messages(deliveries);
        let bytes = frame.bytes();
        if !self.outbound.admit(frame, bytes, share) {
            return false;
        }
        let now_ns = self.shared.clock.unix_nanos();
        let mut caught_up = 0;
        for (registration, row) in rows {
            if self.interests.delivered(*registration, row.id()) {
                caught_up += 1;
            } else {
                let lag_ns = now_ns.saturating_sub(row.meta.server_ns.unsigned_abs());
                self.shared
                    .metrics
                    .delivery_lagged(Duration::from_nanos(lag_ns));
            }
        }
        let metrics = &self.shared.metrics;
        metrics.envelopes_sent(Phase::CatchUp, caught_up);
        metrics.envelopes_sent(Phase::Live, rows.len() - caught_up);
        self.admitted(FrameKind::Messages);
        true
    }

    /// Delivers what the tailer left: at once where a topic is current, else later from history.
    fn deliver_live(&mut self) -> Result<(), End> {
        let notices = self.inbox.take();
        let max_frame = self.shared.fetcher.frame_bytes;
        let mut frame: Vec<(Registration, Arc<Delivery>)> = Vec::new();
        let mut frame_bytes = 0;
        let mut arrived_bytes = 0;
        for (registration, row) in notices.rows {
            let bytes = row.bytes();
            let live = self.interests.live(registration, row.id());
            if live != Live::Dropped {
                arrived_bytes += bytes;
            }
            if live != Live::Deliver {
                continue;
            }
            if bytes > max_frame {
                return Err(End::TooLarge);
            }
            if frame_bytes + bytes > max_frame {
                self.send_live(&std::mem::take(&mut frame));
                frame_bytes = 0;
                // The frame may have been refused, with an earlier row of this topic in it.
                if self.interests.live(registration, row.id()) != Live::Deliver {
                    continue;
                }
            }
            frame_bytes += bytes;
            frame.push((registration, row));
        }
        self.send_live(&frame);
        for (registration, id) in notices.behind {
            self.interests.fall_behind(registration, id);
        }
        self.stalled(arrived_bytes)
    }

    /// Queues live rows, or leaves them to history.
    fn send_live(&mut self, rows: &[(Registration, Arc<Delivery>)]) {
        if rows.is_empty() || self.send(rows, Share::Whole) {
            return;
        }
        for (registration, row) in rows {
            self.interests.fall_behind(*registration, row.id());
        }
    }

    /// Ends a stream whose subscriber takes nothing, while a second queueful of live rows comes in.
    ///
    /// Its state would stay bounded, as the rows are in the database; but somebody who does not read
    /// at all is told so rather than kept. The queue is full when a whole frame finds no room: only
    /// live rows get it there, and once they are left to history nothing else shows that it is.
    fn stalled(&mut self, arrived_bytes: u64) -> Result<(), End> {
        let taken = self.outbound.taken();
        let max_frame = self.shared.fetcher.frame_bytes;
        let is_full = !self.outbound.has_room(max_frame, Share::Whole);
        if taken != self.stalled.taken || !is_full {
            self.stalled = Stalled {
                taken,
                ..Stalled::default()
            };
        }
        if is_full {
            self.stalled.batches += 1;
            self.stalled.bytes = self.stalled.bytes.saturating_add(arrived_bytes);
        }
        if self.stalled.batches > OUTBOUND_FRAMES || self.stalled.bytes > OUTBOUND_BYTES {
            return Err(End::TooSlow);
        }
        Ok(())
    }

    /// Takes what a turn brought.
    fn fetched(&mut self, fetched: Result<Fetched, FetchError>) -> Result<(), End> {
        match fetched {
            Ok(Fetched {
                frames,
                not_reached,
            }) => {
                self.held.extend(frames);
                self.interests.not_reached(&not_reached);
                Ok(())
            }
            Err(FetchError::OtherServer) => Err(self.other_server()),
            Err(FetchError::TooLarge) => Err(End::TooLarge),
            Err(FetchError::Database(error)) => Err(self.database_failed(&error)),
            Err(FetchError::RowMissing) => {
                let missing = db::Error::Invariant(db::Invariant::MissingRows);
                Err(self.database_failed(&missing))
            }
        }
    }

    /// Queues held history as far as there is room for it. Rows of registrations that are gone are
    /// dropped here, at the last moment (ARC-074).
    fn send_held(&mut self) {
        while let Some(mut held) = self.held.pop_front() {
            let interests = &self.interests;
            held.rows
                .retain(|(registration, row)| interests.wants(*registration, row.id()));
            if !held.rows.is_empty() && !self.send(&held.rows, Share::History) {
                self.held_since.get_or_insert_with(Instant::now);
                self.held.push_front(held);
                return;
            }
            if let Some(since) = self.held_since.take() {
                self.shared.metrics.outbound_waited(since.elapsed());
            }
            for rows in held.rows.chunk_by(|(a, _), (b, _)| a == b) {
                self.interests.served(rows[0].0);
            }
        }
    }

    /// The tailer's state and this answer are of different servers: nothing that is based on either
    /// may go on (ARC-041).
    fn other_server(&self) -> End {
        self.generation.end(End::Recovery);
        End::Recovery
    }

    fn database_failed(&self, error: &db::Error) -> End {
        super::report(error, &self.shared.metrics);
        End::Database
    }
}

impl Drop for Session {
    /// The one way out (ARC-082): deregisters, ends the stream, and counts it once.
    fn drop(&mut self) {
        // Without a reason, the task was cancelled with its client, or panicked.
        let end = self.end.take().unwrap_or(if std::thread::panicking() {
            End::Recovery
        } else {
            End::Gone
        });
        let registrations = self.interests.all();
        self.generation
            .registry
            .deregister(&self.inbox, &registrations);
        let metrics = &self.shared.metrics;
        metrics.topics_deregistered(registrations.len());
        metrics.stream_ended(self.kind, end.reason());
        self.outbound.finish(end);
    }
}

#[cfg(test)]
mod tests;
