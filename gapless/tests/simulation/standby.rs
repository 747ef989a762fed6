//! Interleavings on a standby whose replay pauses, one test each (ARC-041, ARC-112).
//!
//! A standby that a reader keeps is only a server further back in time; what must not happen is
//! that evidence of the primary is used on it.

use gapless::Page;

use crate::auditor::Violation;
use crate::database::Server;
use crate::story::{Reader, Story, limits};

fn reader_of_standby(story: &Story) -> Reader {
    Reader::start(story, Server::Standby, 0, limits(50, 100)).unwrap()
}

/// Goal: a gap outlives a boundary that the standby has not replayed, and its row comes with the
/// replay (ARC-038).
#[test]
fn paused_replay_keeps_the_gap_until_the_row_is_there() {
    let mut story = Story::new();
    let mut reader = reader_of_standby(&story);
    let a1 = story.open("A");
    story.publish("B");
    story.replay();
    assert_eq!(reader.poll(&story), "B2");
    story.commit(a1);
    assert_eq!(story.boundary(), Some(2));
    assert_eq!(reader.poll(&story), "");
    assert_eq!(reader.tail.missing(), [(1, 1)]);
    story.replay();
    assert_eq!(reader.poll(&story), "A1");
    reader.end(&story);
}

/// Goal: the auditor sees what goes wrong when rows of a standby meet the primary's boundary.
#[test]
fn boundary_of_the_primary_on_a_paused_standby_loses_a_row_and_is_caught() {
    let mut story = Story::new();
    let mut reader = reader_of_standby(&story);
    let a1 = story.open("A");
    story.publish("B");
    story.replay();
    assert_eq!(reader.poll(&story), "B2");
    story.commit(a1);
    assert_eq!(story.boundary(), Some(2));

    let query = reader.tail.query();
    let behind = story.database.snapshot(Server::Standby);
    let boundary = story.database.snapshot(Server::Primary).boundary();
    let page = Page {
        boundary,
        probe: query.probe(behind),
        forward: query.forward(behind),
    };
    let outcome = reader.tail.apply(page, 0).unwrap();
    assert_eq!(
        reader
            .auditor
            .page(&outcome.deliver, &reader.tail, &story.database),
        Err(Violation::Lost(story.database.rows(a1)[0]))
    );
}

/// Goal: a reader of a standby does not start before the standby shows the boundary that this
/// instance closed (ARC-041).
#[test]
fn start_waits_for_the_replay_of_the_boundary() {
    let mut story = Story::new();
    story.publish("A");
    story.publish("B");
    let closed = story.boundary().unwrap();
    assert_eq!(closed, 2);
    assert!(Reader::start(&story, Server::Standby, closed, limits(50, 100)).is_none());
    assert!(story.database.replay() && story.database.replay());
    assert!(
        Reader::start(&story, Server::Standby, closed, limits(50, 100)).is_none(),
        "both rows are there, the evidence is not"
    );
    story.replay();
    let reader = Reader::start(&story, Server::Standby, closed, limits(50, 100)).unwrap();
    assert_eq!(reader.tail.cursor(), 2);
    reader.end(&story);
}

/// Goal: readers of a primary and of a paused standby deliver the same rows, each in topic order,
/// each in its own time (ARC-037).
#[test]
fn primary_and_standby_deliver_the_same_rows_in_their_own_time() {
    let mut story = Story::new();
    let mut primary = Reader::of_primary(&story, 50);
    let mut standby = reader_of_standby(&story);
    let late = story.open("AB");
    story.publish("C");
    story.replay();
    assert_eq!(
        (primary.poll(&story), standby.poll(&story)),
        ("C3".into(), "C3".into())
    );
    story.commit(late);
    story.publish("A");
    assert_eq!(story.boundary(), Some(4));
    assert_eq!(primary.poll(&story), "A1 B2 A4");
    assert_eq!(standby.poll(&story), "");
    assert_eq!(standby.tail.missing(), [(1, 2)]);
    story.replay();
    assert_eq!(standby.poll(&story), "A1 B2 A4");
    primary.end(&story);
    standby.end(&story);
}
