//! Every rule of registrations, without a session around them.

use envelope::TopicKind;

use super::*;

fn topic(number: u8) -> Topic {
    Topic::new(TopicKind::GroupMessage, &[number; 16]).unwrap()
}

fn id(number: u64) -> SequenceId {
    SequenceId::from_wire(number).unwrap()
}

/// A registration that is active: cursor, head.
fn active(interests: &mut Interests, number: u8, after: u64, head: u64) -> Registration {
    let registration = interests.add(topic(number), id(after));
    interests.activate(registration, id(head));
    registration
}

/// Whose turn comes next, with the ids between which it fetches.
fn turn(interests: &mut Interests, max: usize) -> Vec<(Registration, u64, u64)> {
    let turn = interests.next_turn(max).into_iter();
    turn.map(|topic| {
        (
            topic.registration,
            topic.after.to_wire(),
            topic.needed.to_wire(),
        )
    })
    .collect()
}

/// Head and cursor decide whether history is owed: only above the cursor, only up to the head.
#[test]
fn history_is_owed_from_the_cursor_to_the_head() {
    for (after, head, owed) in [
        (0, 0, None),
        (0, 12, Some((0, 12))),
        (7, 12, Some((7, 12))),
        (11, 12, Some((11, 12))),
        (12, 12, None),
        (100, 12, None),
        (100, 0, None),
    ] {
        let mut interests = Interests::default();
        let registration = active(&mut interests, 1, after, head);
        let expected: Vec<_> = owed
            .map(|(f, n)| (registration, f, n))
            .into_iter()
            .collect();
        assert_eq!(
            turn(&mut interests, 10),
            expected,
            "after {after} of {head}"
        );
    }
}

/// Before its activation nothing of a registration is delivered or fetched, and what is noticed raises
/// what is needed, beyond the head that is read later (ARC-076).
#[test]
fn rows_before_the_activation_are_remembered() {
    let mut interests = Interests::default();
    let registration = interests.add(topic(1), id(5));
    assert_eq!(interests.live(registration, id(5)), Live::Dropped);
    assert_eq!(interests.live(registration, id(40)), Live::Remembered);
    interests.fall_behind(registration, id(41));
    assert_eq!(turn(&mut interests, 10), []);
    interests.activate(registration, id(12));
    assert_eq!(turn(&mut interests, 10), [(registration, 5, 41)]);
    // The target stays the head: what came later is not history.
    assert!(interests.delivered(registration, id(12)));
    assert!(!interests.delivered(registration, id(41)));
}

/// A row that was noticed and lies at or below the cursor is not owed.
#[test]
fn a_notice_below_the_cursor_owes_nothing() {
    let mut interests = Interests::default();
    let registration = interests.add(topic(1), id(50));
    interests.fall_behind(registration, id(40));
    interests.activate(registration, id(12));
    assert_eq!(turn(&mut interests, 10), []);
    assert_eq!(interests.live(registration, id(50)), Live::Dropped);
    assert_eq!(interests.live(registration, id(51)), Live::Deliver);
}

/// The hand-over between history and live: rows that come during a turn extend what is owed, and only
/// when nothing is does a row go out directly (ARC-078).
#[test]
fn a_topic_is_current_only_when_nothing_is_owed() {
    let mut interests = Interests::default();
    let registration = active(&mut interests, 1, 0, 10);
    assert_eq!(interests.live(registration, id(11)), Live::Remembered);
    assert_eq!(turn(&mut interests, 1), [(registration, 0, 11)]);
    assert_eq!(interests.live(registration, id(12)), Live::Remembered);
    // Its turn brought everything up to 11, and 12 was seen meanwhile.
    interests.delivered(registration, id(11));
    interests.served(registration);
    assert_eq!(turn(&mut interests, 1), [(registration, 11, 12)]);
    interests.delivered(registration, id(12));
    interests.served(registration);
    assert_eq!(turn(&mut interests, 1), []);
    assert_eq!(interests.live(registration, id(12)), Live::Dropped);
    assert_eq!(interests.live(registration, id(13)), Live::Deliver);
}

/// A live row that found no room is owed, in the queue once however often that happens.
#[test]
fn a_current_topic_that_falls_behind_is_owed_history_once() {
    let mut interests = Interests::default();
    let registration = active(&mut interests, 1, 0, 0);
    assert_eq!(interests.live(registration, id(3)), Live::Deliver);
    interests.fall_behind(registration, id(3));
    interests.fall_behind(registration, id(4));
    assert_eq!(interests.live(registration, id(5)), Live::Remembered);
    assert_eq!(turn(&mut interests, 10), [(registration, 0, 5)]);
    // Falling behind during its turn does not queue it twice either.
    interests.fall_behind(registration, id(6));
    assert_eq!(turn(&mut interests, 10), []);
    interests.delivered(registration, id(6));
    interests.served(registration);
    assert_eq!(turn(&mut interests, 10), []);
}

/// First in, first out: who needs more goes to the back, who was not reached to the front, in order
/// (ARC-087, ARC-088).
#[test]
fn turns_go_round() {
    let mut interests = Interests::default();
    let all: Vec<_> = (1..=5).map(|n| active(&mut interests, n, 0, 100)).collect();
    let next = |interests: &mut Interests, max| -> Vec<Registration> {
        let turn = interests.next_turn(max).into_iter();
        turn.map(|topic| topic.registration).collect()
    };
    assert_eq!(next(&mut interests, 3), all[..3]);
    // The first got rows; the others were not reached.
    interests.not_reached(&all[1..3]);
    interests.delivered(all[0], id(50));
    interests.served(all[0]);
    let sixth = active(&mut interests, 6, 0, 100);
    assert_eq!(
        next(&mut interests, 10),
        [all[1], all[2], all[3], all[4], all[0], sixth]
    );
    assert_eq!(next(&mut interests, 10), []);
}

/// A removed topic is gone: no turn, no row, no second removal; and its next registration is another
/// one, with a cursor of its own (ARC-074, API-105).
#[test]
fn a_removed_registration_is_void() {
    let mut interests = Interests::default();
    let first = active(&mut interests, 1, 0, 10);
    assert_eq!((interests.len(), interests.contains(&topic(1))), (1, true));
    assert_eq!(turn(&mut interests, 1).len(), 1);
    assert_eq!(interests.remove(&topic(1)), Some(first));
    assert_eq!(interests.remove(&topic(1)), None);
    assert_eq!((interests.len(), interests.contains(&topic(1))), (0, false));

    let second = active(&mut interests, 1, 7, 10);
    assert_ne!(first, second);
    // What the turn of the first brings concerns nobody.
    assert!(!interests.wants(first, id(8)));
    assert_eq!(interests.live(first, id(11)), Live::Dropped);
    assert!(!interests.delivered(first, id(9)));
    interests.served(first);
    interests.not_reached(&[first]);
    interests.fall_behind(first, id(20));
    interests.activate(first, id(30));
    assert!(interests.wants(second, id(8)));
    assert!(!interests.wants(second, id(7)));
    assert_eq!(turn(&mut interests, 10), [(second, 7, 10)]);
    assert_eq!(interests.all(), [(topic(1), second)]);
}

/// Topics that come and go while their turn never comes do not fill memory.
#[test]
fn removed_registrations_do_not_pile_up() {
    let mut interests = Interests::default();
    let kept = active(&mut interests, 9, 0, 1);
    for _ in 0..10_000 {
        active(&mut interests, 1, 0, 10);
        interests.remove(&topic(1));
    }
    assert!(interests.ready.len() < 100, "{}", interests.ready.len());
    assert_eq!(turn(&mut interests, 10), [(kept, 0, 1)]);
}
