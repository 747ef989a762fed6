//! The loop of a session: one event after the other, until one ends it.

use std::future::pending;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, Stream, StreamExt as _};
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument as _, info_span};
use uuid::Uuid;

use super::{Added, Session};
use crate::db::{self, Heads};
use crate::metrics::{FrameKind, ReceivedFrame, StreamKind, UpdateOutcome};
use crate::streams::end::{End, Invalid};
use crate::streams::fetch::{FetchError, Fetched};
use crate::streams::frame::{ClientFrame, Frame, Update};
use crate::streams::outbound::Share;
use crate::streams::turn::TURN_TOPICS;
use crate::streams::update::check_update;

/// What a session waits for besides its client and the tailer. At most one of each (ARC-077).
#[derive(Default)]
struct Work {
    heads: Option<BoxFuture<'static, (Added, Result<Heads, db::Error>)>>,
    turn: Option<BoxFuture<'static, Result<Fetched, FetchError>>>,
}

impl Session {
    /// Serves the stream until it ends. The session is gone after that.
    pub(in crate::streams) async fn run(
        mut self,
        mut inbound: impl Stream<Item = ClientFrame> + Unpin,
    ) {
        let mut work = Work::default();
        let end = loop {
            if let Err(end) = self.step(&mut inbound, &mut work).await {
                break end;
            }
            // A client that never stops sending must not keep the thread for itself.
            consume_budget().await;
        };
        self.fail(end);
    }

    /// Waits for one event and handles it.
    async fn step(
        &mut self,
        inbound: &mut (impl Stream<Item = ClientFrame> + Unpin),
        work: &mut Work,
    ) -> Result<(), End> {
        if let Some(end) = self.generation.why() {
            return Err(end);
        }
        if self.outbound.is_abandoned() {
            return Err(End::Gone);
        }
        self.send_held();
        self.begin_turn(work);
        let deadline = self.keepalive.deadline(self.outbound.ping_taken());
        tokio::select! {
            () = self.generation.over() => Ok(()),
            () = self.outbound.changed() => Ok(()),
            // The next Update is not looked at before this one is applied.
            frame = inbound.next(), if work.heads.is_none() => self.receive(frame, work),
            (added, heads) = finished(&mut work.heads) => self.applied(added, heads),
            fetched = finished(&mut work.turn) => self.fetched(fetched),
            () = self.inbox.filled() => self.deliver_live(),
            () = sleep_until(self.keepalive.idle_at()) => self.keep_alive(),
            () = sleep_until(deadline.unwrap_or_else(Instant::now)),
                if deadline.is_some() && work.heads.is_none() => self.pong_is_late(inbound, work),
        }
    }

    /// Begins the next turn of history once the last one is queued and there is room for more.
    fn begin_turn(&mut self, work: &mut Work) {
        let fetcher = &self.shared.fetcher;
        let is_idle = work.turn.is_none() && self.held.is_empty();
        if !is_idle || !self.outbound.has_room(fetcher.frame_bytes, Share::History) {
            return;
        }
        let topics = self.interests.next_turn(TURN_TOPICS);
        if topics.is_empty() {
            return;
        }
        let fetcher = Arc::clone(fetcher);
        let server = self.generation.server;
        work.turn = Some(async move { fetcher.fetch(topics, server).await }.boxed());
    }

    fn receive(&mut self, frame: Option<ClientFrame>, work: &mut Work) -> Result<(), End> {
        let Some(frame) = frame else {
            return Err(End::HalfClosed);
        };
        let metrics = &self.shared.metrics;
        match frame {
            ClientFrame::Update(update) => {
                metrics.frame_received(ReceivedFrame::Update);
                self.update(&update, work)
            }
            ClientFrame::Ping(nonce) => {
                metrics.frame_received(ReceivedFrame::Ping);
                if !self.pings.take(Instant::now()) {
                    return Err(End::TooManyPings);
                }
                self.answer(FrameKind::Pong, Frame::Pong(nonce))
            }
            ClientFrame::Pong(nonce) => {
                metrics.frame_received(ReceivedFrame::Pong);
                self.keepalive.answered(nonce);
                Ok(())
            }
            ClientFrame::Unset => Err(Invalid::Unset.into()),
            ClientFrame::Unreadable => Err(End::Unreadable),
            ClientFrame::Lost => Err(End::Gone),
        }
    }

    /// Removes and registers at once, and reads the heads of what is new (ARC-076).
    fn update(&mut self, update: &Update, work: &mut Work) -> Result<(), End> {
        let metrics = Arc::clone(&self.shared.metrics);
        if !self.updates.take(Instant::now()) {
            metrics.stream_updated(UpdateOutcome::RateLimited);
            return Err(End::TooManyUpdates);
        }
        let limits = &self.shared.limits;
        let change = check_update(update, self.last_update, &self.interests, limits)
            .inspect_err(|_| metrics.stream_updated(UpdateOutcome::Invalid))?;
        self.last_update = update.id;
        self.deregister(&change.removes);
        let added = Added {
            id: Some(update.id),
            registrations: self.register(&change.adds),
            removed: change.removes.len(),
        };
        let span = info_span!(
            "stream.update",
            added = change.adds.len(),
            removed = change.removes.len()
        );
        let server = self.generation.server;
        let fetcher = Arc::clone(&self.shared.fetcher);
        let read = async move {
            let topics: Vec<&[u8]> = change
                .adds
                .iter()
                .map(|(topic, _)| topic.as_bytes())
                .collect();
            let heads = if topics.is_empty() {
                Ok(Heads {
                    server,
                    heads: Vec::new(),
                })
            } else {
                fetcher.heads(&topics).await
            };
            (added, heads)
        };
        work.heads = Some(read.instrument(span).boxed());
        Ok(())
    }

    fn applied(&mut self, added: Added, heads: Result<Heads, db::Error>) -> Result<(), End> {
        self.begin(added, heads)?;
        self.shared.metrics.stream_updated(UpdateOutcome::Applied);
        Ok(())
    }

    /// Says that the server is there; asks whether the client is, where it can answer.
    ///
    /// Not behind frames that wait for a reader: it would only hear of it after those, and signs of life
    /// that nobody reads would fill the queue until there is no room for what must be said.
    fn keep_alive(&mut self) -> Result<(), End> {
        let now = Instant::now();
        if self.keepalive.is_waiting() || !self.outbound.is_empty() {
            self.keepalive.rearm(now);
            return Ok(());
        }
        match self.kind {
            StreamKind::Static => self.answer(FrameKind::Keepalive, Frame::Keepalive),
            StreamKind::Bidi => {
                let (nonce, _) = Uuid::new_v4().as_u64_pair();
                // Before it is queued: the transport may take it at once.
                self.keepalive.asked(nonce, now);
                self.answer(FrameKind::Ping, Frame::Ping(nonce))
            }
        }
    }

    /// The deadline has passed. A Pong that has arrived already counts, wherever it waits: each call
    /// looks at one more frame, and between two of them the session notices everything else.
    fn pong_is_late(
        &mut self,
        inbound: &mut (impl Stream<Item = ClientFrame> + Unpin),
        work: &mut Work,
    ) -> Result<(), End> {
        match inbound.next().now_or_never() {
            Some(frame) => self.receive(frame, work),
            None => Err(End::NoPong),
        }
    }
}

/// Returns what the work results in, if there is any; it goes on where it was when this is dropped.
async fn finished<T>(work: &mut Option<BoxFuture<'static, T>>) -> T {
    let Some(running) = work else {
        return pending().await;
    };
    let result = running.await;
    *work = None;
    result
}
