//! Interleavings on the primary that are known to go wrong elsewhere, one test each (ARC-112).

use gapless::{Error, Page};

use crate::auditor::Violation;
use crate::database::{Server, Step};
use crate::story::{Reader, Story, limits};
use crate::tail::Tail;

/// Goal: a late commit is found by the probe, and no boundary is needed for it (ARC-037).
#[test]
fn late_commit_is_delivered_without_a_boundary_run() {
    let mut story = Story::new();
    let mut reader = Reader::of_primary(&story, 50);
    let a1 = story.open("A");
    story.publish("B");
    assert_eq!(reader.poll(&story), "B2");
    assert_eq!(reader.tail.missing(), [(1, 1)]);
    story.commit(a1);
    assert_eq!(reader.poll(&story), "A1");
    reader.end(&story);
}

/// Goal: a rolled back id stays missing until a boundary closes it, however often it is probed
/// (ARC-038), and it asks for that boundary from the second poll on (ARC-040).
#[test]
fn rolled_back_id_is_retired_by_a_boundary_only() {
    let mut story = Story::new();
    let mut reader = Reader::of_primary(&story, 50);
    let a1 = story.open("A");
    story.publish("B");
    assert_eq!(reader.poll(&story), "B2");
    assert_eq!(reader.wanted, None, "a gap of this very page does not ask");
    story.database.rollback(a1);
    for _ in 0..100 {
        assert_eq!(reader.poll(&story), "");
        assert_eq!(reader.tail.missing(), [(1, 1)]);
        assert_eq!(reader.wanted, Some(1));
    }
    assert_eq!(story.boundary(), Some(2));
    assert_eq!(reader.poll(&story), "");
    assert_eq!(reader.wanted, None);
    reader.end(&story);
}

/// Goal: a boundary run that gives up changes nothing, and a row that a later boundary covers is
/// delivered, not retired, by the first page that shows both (ARC-037, ARC-039).
#[test]
fn late_commit_under_its_own_boundary_is_delivered() {
    let mut story = Story::new();
    let mut reader = Reader::of_primary(&story, 50);
    let a1 = story.open("A");
    story.publish("B");
    assert_eq!(reader.poll(&story), "B2");
    assert_eq!(story.boundary(), None, "the open publish holds the barrier");
    assert_eq!(reader.poll(&story), "");
    assert_eq!(reader.tail.missing(), [(1, 1)]);
    story.commit(a1);
    assert_eq!(story.boundary(), Some(2));
    assert_eq!(reader.poll(&story), "A1");
    reader.end(&story);
}

/// Goal: a late row and the next row of its topic come in order from one page (ARC-037).
#[test]
fn late_row_precedes_the_forward_row_of_its_topic() {
    let mut story = Story::new();
    let mut reader = Reader::of_primary(&story, 50);
    let a1 = story.open("A");
    story.publish("B");
    assert_eq!(reader.poll(&story), "B2");
    story.commit(a1);
    story.publish("A");
    assert_eq!(reader.poll(&story), "A1 A3");
    reader.end(&story);
}

/// Goal: the auditor sees what goes wrong when the forward scan is newer than the probe (ARC-037).
/// Method: the case above with the two commits between the scans; row A3 comes without A1.
#[test]
fn forward_scan_after_the_probe_overtakes_and_is_caught() {
    let mut story = Story::new();
    let mut reader = Reader::of_primary(&story, 50);
    let a1 = story.open("A");
    story.publish("B");
    assert_eq!(reader.poll(&story), "B2");
    let query = reader.tail.query();
    let early = story.database.snapshot(Server::Primary);
    let (boundary, probe) = (early.boundary(), query.probe(early));
    story.commit(a1);
    story.publish("A");
    let forward = query.forward(story.database.snapshot(Server::Primary));

    let page = Page {
        boundary,
        probe,
        forward,
    };
    let outcome = reader.tail.apply(page, 0).unwrap();
    let (row, earlier) = (outcome.deliver[0], story.database.rows(a1)[0]);
    assert_eq!(
        reader
            .auditor
            .page(&outcome.deliver, &reader.tail, &story.database),
        Err(Violation::Overtaken { row, earlier })
    );
}

/// Goal: the auditor sees what goes wrong when the boundary is newer than the probe (ARC-038).
/// Method: A1 commits and is closed over between probe and boundary; it would be retired.
#[test]
fn boundary_read_after_the_probe_loses_a_row_and_is_caught() {
    let mut story = Story::new();
    let mut reader = Reader::of_primary(&story, 50);
    let a1 = story.open("A");
    story.publish("B");
    assert_eq!(reader.poll(&story), "B2");
    let query = reader.tail.query();
    let early = story.database.snapshot(Server::Primary);
    let (probe, forward) = (query.probe(early), query.forward(early));
    story.commit(a1);
    assert_eq!(story.boundary(), Some(2));
    let boundary = story.database.snapshot(Server::Primary).boundary();

    let outcome = reader
        .tail
        .apply(
            Page {
                boundary,
                probe,
                forward,
            },
            0,
        )
        .unwrap();
    assert_eq!(reader.tail.missing(), []);
    assert_eq!(
        reader
            .auditor
            .page(&outcome.deliver, &reader.tail, &story.database),
        Err(Violation::Lost(story.database.rows(a1)[0]))
    );
}

/// Goal: with late rows over several pages, the forward row waits for the last of them (ARC-037).
#[test]
fn forward_row_waits_until_the_probe_is_exhausted() {
    let mut story = Story::new();
    let mut reader = Reader::of_primary(&story, 2);
    let late = story.open("AAAC");
    story.publish("B");
    assert_eq!(reader.poll(&story), "B5");
    story.commit(late);
    story.publish("A");
    assert_eq!(reader.poll(&story), "A1 A2 / A3 C4 / A6");
    reader.end(&story);
}

/// Goal: the ids of a killed session are retired, and the barrier is free at once (ARC-039).
#[test]
fn killed_publisher_leaves_a_gap_that_closes() {
    let mut story = Story::new();
    let mut reader = Reader::of_primary(&story, 50);
    let a1 = story.open("A");
    story.publish("B");
    assert_eq!(reader.poll(&story), "B2");
    story.database.rollback(a1);
    assert_eq!(story.boundary(), Some(2));
    assert_eq!(reader.poll(&story), "");
    reader.end(&story);
}

/// Goal: an instance that starts during an open publish is not ready until that has ended, and
/// then has it as history (ARC-041).
#[test]
fn start_during_an_open_publish_waits_for_it() {
    let mut story = Story::new();
    story.publish("B");
    let a2 = story.open("A");
    story.publish("B");
    assert_eq!((story.boundary(), story.boundary()), (None, None));
    story.commit(a2);
    let closed = story.boundary().unwrap();
    assert_eq!(closed, 3);
    let mut reader = Reader::start(&story, Server::Primary, closed, limits(50, 100)).unwrap();
    assert_eq!(reader.tail.cursor(), 3);
    assert_eq!(reader.poll(&story), "");
    let history = story
        .database
        .snapshot(Server::Primary)
        .rows(|id| id <= 3, 50);
    assert_eq!(
        history.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["B1", "A2", "B3"]
    );
    reader.end(&story);
}

/// Goal: a jump of the sequence delays nothing and costs one range, whatever its width (ARC-042).
/// Method: ten thousand million ids; the reader holds two numbers for them.
#[test]
fn sequence_jump_is_one_range() {
    const JUMP: i64 = 10_000_000_000;
    let mut story = Story::new();
    let mut reader = Reader::of_primary(&story, 50);
    if let Tail::Sound(state, _) = reader.tail {
        reader.tail = Tail::Alone(state);
    }
    story.publish("A");
    story.database.move_sequence(JUMP);
    story.publish("A");
    assert_eq!(reader.poll(&story), "A1 A10000000001");
    assert_eq!(reader.tail.missing(), [(2, JUMP)]);
    assert_eq!(reader.poll(&story), "");
    assert_eq!(reader.wanted, Some(JUMP));
    assert_eq!(story.boundary(), Some(JUMP + 1));
    assert_eq!(reader.poll(&story), "");
    reader.end(&story);
}

/// Goal: an id that was rolled back above the cursor never becomes a range once a boundary has
/// passed it: the cursor follows the boundary (ARC-038).
#[test]
fn cursor_follows_the_boundary_over_a_rolled_back_id() {
    let mut story = Story::new();
    let mut reader = Reader::of_primary(&story, 50);
    story.publish("A");
    assert_eq!(reader.poll(&story), "A1");
    let b2 = story.open("B");
    story.database.rollback(b2);
    assert_eq!(reader.poll(&story), "");
    assert_eq!(reader.tail.cursor(), 1);
    assert_eq!(story.boundary(), Some(2));
    assert_eq!(reader.poll(&story), "");
    assert_eq!(reader.tail.cursor(), 2);
    story.publish("B");
    assert_eq!(reader.poll(&story), "B3");
    assert_eq!(reader.tail.missing(), []);
    reader.end(&story);
}

/// Goal: a publish that comes after a waiting boundary run has no id when the boundary is read, so
/// its id is never inside the closed part (ARC-039).
#[test]
fn publish_behind_a_waiting_boundary_run_gets_a_later_id() {
    let mut story = Story::new();
    let a1 = story.open("A");
    let boundary = story.database.begin_boundary();
    assert_eq!(story.go_on(boundary), Step::Blocked);
    let b = story.open("B");
    assert_eq!(story.ids(b), "", "it waits behind the boundary run");
    story.commit(a1);
    assert_eq!(story.go_on(b), Step::Blocked);
    assert_eq!(story.go_on(boundary), Step::Ready);
    story.commit(boundary);
    assert_eq!(story.database.snapshot(Server::Primary).boundary(), 1);
    assert_eq!(story.go_on(b), Step::Ready);
    assert_eq!(story.ids(b), "B2");
}

/// Goal: six gaps are kept with room for six and refused with room for five; after the refusal a
/// new generation misses nothing (ARC-042).
#[test]
fn six_gaps_need_room_for_six() {
    for (ranges_max, fits) in [(5, false), (6, true)] {
        let mut story = Story::new();
        let mut reader = Reader::start(&story, Server::Primary, 0, limits(50, ranges_max)).unwrap();
        let mut open = Vec::new();
        for topic in ["A", "B", "C", "D", "E", "F"] {
            open.push(story.open(topic));
            story.publish("Z");
        }
        let delivered = reader.page(&story).map(|outcome| outcome.deliver.len());
        if fits {
            assert_eq!(delivered, Ok(6));
            assert_eq!(reader.tail.missing().len(), 6);
        } else {
            assert_eq!(
                delivered,
                Err(Error::Capacity {
                    ranges: 6,
                    ranges_max: 5
                })
            );
            assert_eq!(reader.auditor.delivered(), 0);
        }
        for tx in open {
            story.database.rollback(tx);
        }
        let closed = story.boundary().unwrap();
        if fits {
            assert_eq!(reader.poll(&story), "");
        } else {
            reader = Reader::start(&story, Server::Primary, closed, limits(50, 5)).unwrap();
        }
        reader.end(&story);
    }
}

/// Goal: one boundary row serves the readers of two instances (ARC-039).
#[test]
fn one_boundary_run_retires_the_gaps_of_two_readers() {
    let mut story = Story::new();
    let mut readers = [
        Reader::of_primary(&story, 1),
        Reader::of_primary(&story, 50),
    ];
    let a1 = story.open("A");
    story.publish("B");
    story.database.rollback(a1);
    for reader in &mut readers {
        reader.poll(&story);
        assert_eq!(reader.tail.missing(), [(1, 1)]);
    }
    assert_eq!(story.boundary(), Some(2));
    for reader in &mut readers {
        assert_eq!(reader.poll(&story), "");
        reader.end(&story);
    }
}
