//! How one fetch turn is cut into frames: by rows, by bytes, and fairly (ARC-079, ARC-086, ARC-087).
//!
//! A topic has rows in one frame of a turn at most. As topics that have more join the back of the
//! queue, none gets a second frame of history before every other one got its own (API-261).

use super::frame::delivered_bytes;
use crate::config::delivery::{FRAME_BYTES, OUTBOUND_BYTES};
use crate::db::Candidate;

/// Topics of one turn (ARC-086).
pub(super) const TURN_TOPICS: usize = 256;

/// Rows of one topic in a turn (ARC-086).
pub(super) const TURN_ROWS: u32 = 64;

/// Bytes of a turn. What was fetched must be queued before the next turn begins, so a turn of more
/// than the queue holds would only wait in memory.
pub(super) const TURN_BYTES: u64 = OUTBOUND_BYTES;

/// A row that cannot be delivered, because no frame is large enough for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DoesNotFit;

/// Which rows to load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    /// Frames in order, each with the candidates in it. None is empty.
    pub(super) frames: Vec<Vec<Candidate>>,
    /// Topics with a smaller index have rows in the frames, if they have any at all. The others wait.
    pub(super) reached: usize,
}

/// The largest frame, given the configured bound on responses.
pub(super) fn frame_bytes(max_response_bytes: u64) -> u64 {
    FRAME_BYTES.min(max_response_bytes)
}

/// Cuts the candidates, which come by topic and ascend on each.
pub(super) fn cut(
    candidates: &[Candidate],
    topics: usize,
    frame_bytes: u64,
) -> Result<Cut, DoesNotFit> {
    let mut frames: Vec<Vec<Candidate>> = Vec::new();
    let mut in_frame = u64::MAX;
    let mut in_turn = 0_u64;
    for rows in candidates.chunk_by(|a, b| a.topic_index == b.topic_index) {
        for (place, row) in rows.iter().enumerate() {
            let bytes = delivered_bytes(row.bytes);
            if bytes > frame_bytes {
                // What comes before it is delivered first; then it is the first of its topic.
                if place > 0 {
                    break;
                }
                return Err(DoesNotFit);
            }
            let fits_frame = in_frame.saturating_add(bytes) <= frame_bytes;
            let fits_turn = in_turn.saturating_add(bytes) <= TURN_BYTES;
            if place > 0 && !(fits_frame && fits_turn) {
                break;
            }
            if !fits_turn {
                return Ok(Cut {
                    frames,
                    reached: row.topic_index,
                });
            }
            if !fits_frame {
                frames.push(Vec::new());
                in_frame = 0;
            }
            if let Some(frame) = frames.last_mut() {
                frame.push(*row);
            }
            in_frame += bytes;
            in_turn += bytes;
        }
    }
    Ok(Cut {
        frames,
        reached: topics,
    })
}

#[cfg(test)]
mod tests;
