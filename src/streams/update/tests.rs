//! Which Updates and static requests are valid, and what they come to.

use bytes::Bytes;
use envelope::TopicKind;

use super::*;

fn topic(number: u8) -> Topic {
    Topic::new(TopicKind::GroupMessage, &[number; 16]).unwrap()
}

fn bytes(number: u8) -> Bytes {
    Bytes::copy_from_slice(topic(number).as_bytes())
}

fn adds(numbers: &[u8]) -> Vec<Add> {
    let numbers = numbers.iter();
    numbers
        .map(|number| Add {
            topic: bytes(*number),
            after: u64::from(*number),
        })
        .collect()
}

fn limits(adds: u32, removes: u32, topics: u32) -> Limits {
    Limits {
        max_update_adds: adds,
        max_update_removes: removes,
        max_stream_topics: topics,
        max_static_topics: topics,
        ..Limits::default()
    }
}

/// A stream with these topics.
fn interests(numbers: &[u8]) -> Interests {
    let mut interests = Interests::default();
    for number in numbers {
        interests.add(topic(*number), SequenceId::START);
    }
    interests
}

fn update(id: u64, add: &[u8], remove: &[u8]) -> Update {
    Update {
        id,
        adds: adds(add),
        removes: remove.iter().map(|number| bytes(*number)).collect(),
    }
}

/// Ids rise from above 0, by any step (API-102).
#[test]
fn ids_rise() {
    for (last, id, valid) in [
        (0, 0, false),
        (0, 1, true),
        (0, u64::MAX, true),
        (7, 6, false),
        (7, 7, false),
        (7, 8, true),
        (u64::MAX - 1, u64::MAX, true),
        (u64::MAX, u64::MAX, false),
    ] {
        let update = update(id, &[], &[]);
        let checked = check_update(&update, last, &interests(&[]), &Limits::default());
        let expected = if valid { None } else { Some(Invalid::UpdateId) };
        assert_eq!(checked.err(), expected, "{id} after {last}");
    }
}

/// Every bound at its value and one above; removals count first, and repeats of what is there do not
/// count (API-130).
#[test]
fn the_numbers_of_topics_are_bounded() {
    let limits = limits(3, 2, 4);
    let too_many = Invalid::TooManyTopics { max: 4 };
    for (have, add, remove, error) in [
        (&[][..], &[1, 2, 3][..], &[][..], None),
        (
            &[],
            &[1, 2, 3, 4],
            &[],
            Some(Invalid::TooManyAdds { max: 3 }),
        ),
        (&[1, 2, 3], &[], &[1, 2], None),
        (
            &[1, 2, 3],
            &[],
            &[1, 2, 3],
            Some(Invalid::TooManyRemoves { max: 2 }),
        ),
        (&[1, 2, 3], &[4], &[], None),
        (&[1, 2, 3, 4], &[5], &[], Some(too_many.clone())),
        (&[1, 2, 3, 4], &[5], &[1], None),
        (&[1, 2, 3, 4], &[5], &[9], Some(too_many.clone())),
        (&[1, 2, 3, 4], &[1, 2, 3], &[], None),
        (&[1, 2, 3, 4], &[5, 6, 1], &[2, 3], None),
        (&[1, 2, 3, 4], &[5, 6, 7], &[2, 3], Some(too_many)),
    ] {
        let checked = check_update(&update(1, add, remove), 0, &interests(have), &limits);
        assert_eq!(checked.err(), error, "{have:?} + {add:?} - {remove:?}");
    }
}

/// What is there is not added and what is absent not removed; the rest keeps its order and cursors.
#[test]
fn only_what_changes_something_is_left() {
    let update = update(1, &[5, 2, 4, 1], &[3, 9]);
    let change = check_update(&update, 0, &interests(&[1, 2, 3]), &Limits::default()).unwrap();
    let after = |number| SequenceId::from_wire(number).unwrap();
    assert_eq!(change.adds, [(topic(5), after(5)), (topic(4), after(4))]);
    assert_eq!(change.removes, [topic(3)]);
}

/// A topic may occur once in an Update, on whichever side and whether or not it is registered.
#[test]
fn no_topic_occurs_twice() {
    for have in [&[][..], &[1]] {
        for (add, remove) in [
            (&[1, 1][..], &[][..]),
            (&[1, 2, 1], &[]),
            (&[], &[1, 1]),
            (&[1], &[1]),
            (&[2, 1], &[3, 1]),
        ] {
            let update = update(1, add, remove);
            let checked = check_update(&update, 0, &interests(have), &Limits::default());
            assert_eq!(checked.unwrap_err(), Invalid::RepeatedTopic);
        }
    }
}

/// Malformed topics and cursors beyond the signed range, on both kinds of streams (API-004).
#[test]
fn topics_and_cursors_are_checked() {
    let interests = interests(&[1]);
    let limits = Limits::default();
    for (topic, after, error) in [
        (bytes(1), 0, None),
        (bytes(1), i64::MAX.unsigned_abs(), None),
        (bytes(1), i64::MAX.unsigned_abs() + 1, Some(Invalid::Cursor)),
        (bytes(2), u64::MAX, Some(Invalid::Cursor)),
        (Bytes::new(), 0, Some(Invalid::Topic)),
        (bytes(1).slice(..16), 0, Some(Invalid::Topic)),
    ] {
        let add = Add { topic, after };
        let checked = check_static(std::slice::from_ref(&add), &limits);
        assert_eq!(checked.err(), error, "{add:?}");
        let update = Update {
            id: 1,
            adds: vec![add.clone()],
            removes: vec![],
        };
        let checked = check_update(&update, 0, &interests, &limits);
        assert_eq!(checked.err(), error, "{add:?}");
        let update = Update {
            id: 1,
            adds: vec![],
            removes: vec![add.topic],
        };
        let checked = check_update(&update, 0, &interests, &limits);
        let error = error.filter(|error| *error == Invalid::Topic);
        assert_eq!(checked.err(), error);
    }
}

/// A static stream has at least one topic, at most as many as allowed, and none twice (API-108).
#[test]
fn a_static_stream_has_some_topics_once_each() {
    let limits = limits(1, 1, 3);
    for (numbers, error) in [
        (&[][..], Some(Invalid::NoTopics)),
        (&[1], None),
        (&[1, 2, 3], None),
        (&[1, 2, 3, 4], Some(Invalid::TooManyTopics { max: 3 })),
        (&[1, 2, 1], Some(Invalid::RepeatedTopic)),
    ] {
        assert_eq!(check_static(&adds(numbers), &limits).err(), error);
    }
}
