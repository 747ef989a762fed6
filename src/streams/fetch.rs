//! Reading one turn of history (ARC-077, ARC-086, ARC-087).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::{Instrument as _, info_span};

use super::frame::Delivery;
use super::inbox::Registration;
use super::interests::TurnTopic;
use super::turn::{Cut, DoesNotFit, TURN_BYTES, TURN_ROWS, cut};
use crate::config::delivery::ENVELOPE_ALLOWANCE_BYTES;
use crate::db::{
    self, Candidate, Database, Heads, SequenceId, ServerIdentity, StoredEnvelope, TopicCursor,
    TurnLimits,
};
use crate::metrics::Metrics;

/// Reads history for all sessions of an instance, a bounded number of turns at a time.
#[derive(Debug)]
pub(super) struct Fetcher {
    pub(super) database: Database,
    pub(super) permits: Semaphore,
    pub(super) frame_bytes: u64,
    pub(super) metrics: Arc<Metrics>,
}

/// Why a turn failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// The database.
    #[error(transparent)]
    Database(#[from] db::Error),
    /// Another server answered than the tailer reads from (ARC-041).
    #[error("another server answered")]
    OtherServer,
    /// A row that is known to exist is not there.
    #[error("a row that exists was not found")]
    RowMissing,
    /// A row fits no frame (ARC-079).
    #[error("a stored envelope fits no frame")]
    TooLarge,
}

/// A frame of history that waits for the outbound queue.
#[derive(Debug)]
pub(super) struct Held {
    /// Its rows, grouped by registration, ascending in each.
    pub(super) rows: Vec<(Registration, Arc<Delivery>)>,
}

/// What a turn brought.
#[derive(Debug)]
pub(super) struct Fetched {
    /// Frames in delivery order.
    pub(super) frames: Vec<Held>,
    /// Registrations that got nothing because the turn was full, in their order.
    pub(super) not_reached: Vec<Registration>,
}

impl Fetcher {
    /// Reads a turn on `server`. Connection and permit are free again when this returns.
    pub(super) async fn fetch(
        &self,
        topics: Vec<TurnTopic>,
        server: ServerIdentity,
    ) -> Result<Fetched, FetchError> {
        let span = info_span!("stream.fetch", topics = topics.len());
        self.read(topics, server).instrument(span).await
    }

    /// Reads the heads of topics. It takes a permit like a turn: however many large Updates come in,
    /// half of the pool is left to everybody else (ARC-077).
    pub(super) async fn heads(&self, topics: &[&[u8]]) -> Result<Heads, db::Error> {
        let _permit = self.permit().await;
        self.database.heads(topics).await
    }

    /// Waits for a permit.
    async fn permit(&self) -> SemaphorePermit<'_> {
        let _wait = PermitWait {
            since: Instant::now(),
            metrics: &self.metrics,
        };
        self.permits
            .acquire()
            .await
            .expect("the semaphore is never closed")
    }

    async fn read(
        &self,
        topics: Vec<TurnTopic>,
        server: ServerIdentity,
    ) -> Result<Fetched, FetchError> {
        let _permit = self.permit().await;
        let cursors: Vec<TopicCursor<'_>> = topics
            .iter()
            .map(|topic| TopicCursor {
                topic: topic.topic.as_bytes(),
                after: topic.after,
            })
            .collect();
        let limits = TurnLimits {
            rows_per_topic: TURN_ROWS,
            allowance_bytes: ENVELOPE_ALLOWANCE_BYTES,
            topic_bytes: self.frame_bytes,
            turn_bytes: TURN_BYTES,
        };
        let turn = self.database.turn(&cursors, limits).await?;
        if turn.server != server {
            return Err(FetchError::OtherServer);
        }
        check_complete(&topics, &turn.candidates)?;
        let cut = cut(&turn.candidates, topics.len(), self.frame_bytes)
            .map_err(|DoesNotFit| FetchError::TooLarge)?;
        Ok(fill(&topics, cut, turn.envelopes))
    }
}

/// Puts the envelopes into their frames. What was not loaded, because rows before it that found no
/// place in a frame had taken the room, waits for another turn.
fn fill(
    topics: &[TurnTopic],
    cut: Cut,
    mut envelopes: HashMap<SequenceId, StoredEnvelope>,
) -> Fetched {
    let Cut {
        frames,
        mut reached,
    } = cut;
    let mut filled = Vec::with_capacity(frames.len());
    'turn: for frame in frames {
        let mut rows = Vec::with_capacity(frame.len());
        for of_topic in frame.chunk_by(|a, b| a.topic_index == b.topic_index) {
            let TurnTopic {
                registration,
                topic,
                ..
            } = topics[of_topic[0].topic_index];
            let topic = Bytes::copy_from_slice(topic.as_bytes());
            for (place, row) in of_topic.iter().enumerate() {
                match envelopes.remove(&row.sequence_id) {
                    Some(envelope) => {
                        let delivery = delivery(topic.clone(), envelope);
                        rows.push((registration, Arc::new(delivery)));
                    }
                    None if place == 0 => {
                        reached = row.topic_index;
                        filled.push(Held { rows });
                        break 'turn;
                    }
                    None => break,
                }
            }
        }
        filled.push(Held { rows });
    }
    Fetched {
        frames: filled,
        not_reached: topics[reached..]
            .iter()
            .map(|topic| topic.registration)
            .collect(),
    }
}

/// Every topic was ready because a row above its cursor exists. A topic that shows fewer rows than it
/// may, and not that one, has lost it: saying nothing would be losing it too (ARC-075).
fn check_complete(topics: &[TurnTopic], candidates: &[Candidate]) -> Result<(), FetchError> {
    let mut found = vec![(0_u32, None); topics.len()];
    for row in candidates {
        let (rows, last) = &mut found[row.topic_index];
        *rows += 1;
        *last = Some(row.sequence_id);
    }
    for (topic, (rows, last)) in topics.iter().zip(found) {
        if rows < TURN_ROWS && last.is_none_or(|last| last < topic.needed) {
            return Err(FetchError::RowMissing);
        }
    }
    Ok(())
}

/// A stored envelope for its subscribers.
pub(super) fn delivery(topic: Bytes, envelope: StoredEnvelope) -> Delivery {
    Delivery {
        topic,
        hash: Bytes::copy_from_slice(&envelope.hash),
        meta: envelope.meta,
        payload: envelope.payload,
    }
}

/// Measures a wait for a permit, also one that was given up.
struct PermitWait<'m> {
    since: Instant,
    metrics: &'m Metrics,
}

impl Drop for PermitWait<'_> {
    fn drop(&mut self) {
        self.metrics.stream_fetch_waited(self.since.elapsed());
    }
}
