//! The cut of a turn, for any candidates.

use proptest::prelude::*;

use super::*;
use crate::db::SequenceId;

const MIB: u64 = 1024 * 1024;

fn row(topic_index: usize, id: u64, payload_bytes: u64) -> Candidate {
    Candidate {
        topic_index,
        sequence_id: SequenceId::from_wire(id).unwrap(),
        bytes: payload_bytes,
    }
}

/// Candidates with these payloads per topic; ids ascend.
fn candidates(topics: &[Vec<u64>]) -> Vec<Candidate> {
    let mut id = 0;
    let mut rows = Vec::new();
    for (index, payloads) in topics.iter().enumerate() {
        for bytes in payloads {
            id += 1;
            rows.push(row(index, id, *bytes));
        }
    }
    rows
}

/// How many rows of which topic are in each frame.
fn shape(cut: &Cut) -> Vec<Vec<(usize, usize)>> {
    let frames = cut.frames.iter();
    frames
        .map(|frame| {
            frame
                .chunk_by(|a, b| a.topic_index == b.topic_index)
                .map(|rows| (rows[0].topic_index, rows.len()))
                .collect()
        })
        .collect()
}

/// What fits one frame is one frame; the bound is met to the byte, and one byte more begins another
/// frame for the next topic, or ends the share of the same one.
#[test]
fn a_frame_is_filled_to_the_byte() {
    let allowance = delivered_bytes(0);
    let half = 1_000;
    let frame = 2 * (half + allowance);
    for (topics, frame_bytes, expected) in [
        (vec![vec![half, half]], frame, vec![vec![(0, 2)]]),
        (vec![vec![half, half]], frame - 1, vec![vec![(0, 1)]]),
        (
            vec![vec![half], vec![half]],
            frame,
            vec![vec![(0, 1), (1, 1)]],
        ),
        (
            vec![vec![half], vec![half]],
            frame - 1,
            vec![vec![(0, 1)], vec![(1, 1)]],
        ),
        // A topic that does not get all it wants lets the next one in.
        (
            vec![vec![half, half], vec![0]],
            frame - 1,
            vec![vec![(0, 1), (1, 1)]],
        ),
        // No rows, no frames.
        (vec![vec![], vec![]], frame, vec![]),
    ] {
        let cut = cut(&candidates(&topics), topics.len(), frame_bytes).unwrap();
        assert_eq!(shape(&cut), expected, "{topics:?} in {frame_bytes}");
        assert_eq!(cut.reached, topics.len());
    }
}

/// A row that fits no frame fails the turn when it is the first of its topic, and else waits until it
/// is (ARC-079).
#[test]
fn a_row_that_fits_no_frame_fails_the_turn_when_it_is_next() {
    let frame = 10_000;
    let fits = frame - delivered_bytes(0);
    let attempt = |topics: &[Vec<u64>]| cut(&candidates(topics), topics.len(), frame);
    assert_eq!(shape(&attempt(&[vec![fits]]).unwrap()), [[(0, 1)]]);
    assert_eq!(attempt(&[vec![fits + 1]]), Err(DoesNotFit));
    assert_eq!(attempt(&[vec![0], vec![u64::MAX]]), Err(DoesNotFit));
    let later = attempt(&[vec![0, u64::MAX, 0], vec![0]]).unwrap();
    assert_eq!(shape(&later), [[(0, 1), (1, 1)]]);
}

/// A full turn does not reach the topics behind it, and says so: they keep their place (ARC-087).
#[test]
fn a_full_turn_says_whom_it_did_not_reach() {
    let large = MIB - delivered_bytes(0);
    let topics = vec![vec![large; 3]; 20];
    let cut = cut(&candidates(&topics), topics.len(), frame_bytes(u64::MAX)).unwrap();
    // Two of a megabyte per frame, one topic each; sixteen megabytes.
    assert_eq!(
        shape(&cut),
        vec![
            [(0, 2)],
            [(1, 2)],
            [(2, 2)],
            [(3, 2)],
            [(4, 2)],
            [(5, 2)],
            [(6, 2)],
            [(7, 2)]
        ]
    );
    assert_eq!(cut.reached, 8);
}

/// Frames are at most 2 MiB, and at most what a response may have.
#[test]
fn the_smaller_bound_counts() {
    for (response, frame) in [
        (2 * MIB - 1, 2 * MIB - 1),
        (2 * MIB, 2 * MIB),
        (2 * MIB + 1, 2 * MIB),
        (25 * MIB, 2 * MIB),
        (300, 300),
    ] {
        assert_eq!(frame_bytes(response), frame);
    }
}

fn payload() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0..2_000_u64,
        2 => 0..400_000_u64,
        1 => 0..2 * MIB,
        1 => Just(MIB),
    ]
}

proptest! {
    /// For any candidates: frames keep to their bound and the turn to its own, a topic is in one frame
    /// with a prefix of its rows, topics keep their order, everybody before the cutoff gets something
    /// and nobody after it, and no share is smaller than it has to be (ARC-086, ARC-087, API-261).
    #[test]
    fn every_cut_is_fair_and_bounded(
        topics in proptest::collection::vec(proptest::collection::vec(payload(), 0..70), 0..40),
        response in prop_oneof![300..5_000_u64, 5_000..3 * MIB],
    ) {
        let frame_bytes = frame_bytes(response);
        let rows = candidates(&topics);
        let Ok(cut) = cut(&rows, topics.len(), frame_bytes) else {
            let first_too_large = topics
                .iter()
                .any(|t| t.first().is_some_and(|b| delivered_bytes(*b) > frame_bytes));
            prop_assert!(first_too_large);
            return Ok(());
        };
        let size = |row: &Candidate| delivered_bytes(row.bytes);
        let total: u64 = cut.frames.iter().flatten().map(size).sum();
        prop_assert!(total <= TURN_BYTES);
        prop_assert_eq!(cut.frames.is_empty(), rows.is_empty());
        prop_assert!(cut.reached <= topics.len());

        let mut given = vec![0; topics.len()];
        let mut last_topic = None;
        let mut in_turn = 0;
        for frame in &cut.frames {
            prop_assert!(!frame.is_empty());
            prop_assert!(frame.iter().map(size).sum::<u64>() <= frame_bytes);
            let mut in_frame = 0;
            for share in frame.chunk_by(|a, b| a.topic_index == b.topic_index) {
                let topic = share[0].topic_index;
                prop_assert!(last_topic < Some(topic), "a topic twice or out of order");
                last_topic = Some(topic);
                let all: Vec<_> = rows.iter().filter(|r| r.topic_index == topic).collect();
                prop_assert!(share.iter().eq(all[..share.len()].iter().copied()));
                given[topic] = share.len();
                in_frame += share.iter().map(size).sum::<u64>();
                in_turn += share.iter().map(size).sum::<u64>();
                if let Some(next) = all.get(share.len()) {
                    prop_assert!(
                        in_frame + size(next) > frame_bytes || in_turn + size(next) > TURN_BYTES,
                        "a share is too small"
                    );
                }
            }
        }
        for (topic, payloads) in topics.iter().enumerate() {
            let wanted = topic < cut.reached && !payloads.is_empty();
            prop_assert_eq!(given[topic] > 0, wanted, "topic {}", topic);
        }
    }
}
