//! Twenty histories in which a reader of the log could lose, repeat or reorder a row, on real
//! transactions, snapshots and replay (ARC-037 to ARC-042, ARC-112).
//!
//! Nothing here races: a publish stays open until the test ends it, and the reader polls when it is
//! told to. `A1+` is a publish on topic A that holds id 1, `c` and `r` are its commit and rollback,
//! `p` is a poll, `bd` a boundary run. Those that need a standby or a whole server stand with their
//! subject:
//!
//! | | history | where |
//! | --- | --- | --- |
//! | 12, 13, 14, 17 | on a standby | `interleavings_standby` |
//! | 9 | an instance starts while a publish is open; its port | `recovery::the_port_stays_closed_while_a_publish_is_open` |
//! | 16 | as many gaps as may be tracked, and one more | `recovery::one_gap_more_than_may_be_tracked_ends_every_stream` |
//! | 17 | a promotion; its streams | `standby::a_promotion_ends_every_stream` |
//! | 18 | a connection that goes between a page and its dispatch | `recovery::a_page_that_was_not_dispatched_is_not_lost` |
//! | 19 | a frozen holder of the barrier | `boundary::a_frozen_holder_of_the_barrier_is_ended_by_the_database` |
//! | 20 | two instances and one boundary | `boundary::instances_share_one_boundary` |
//!
//! Every rule was broken once, by hand, to see that a test notices. Rules of the reader's state are
//! broken for good in the simulations of `gapless`; this table has what only a database shows.
//!
//! | rule | broken by | noticed by |
//! | --- | --- | --- |
//! | a page is one snapshot | the boundary in a statement of its own | `page_is_one_statement` |
//! | a probe looks at whole ranges | a range without its first id | `late_commit_is_found_without_a_boundary` |
//! | a probe has the lowest rows | the highest ones under the limit | `cut_probe_has_the_lowest_rows_of_all_gaps` |
//! | a cut probe retires up to its last row | up to the boundary | `probe_that_was_cut_gives_up_nothing_above_the_cut` |
//! | forward rows wait for a cut probe | delivered at once | `forward_rows_wait_for_a_probe_that_was_cut` |
//! | ids that were jumped over are missing | forgotten | `late_commit_is_found_without_a_boundary` |
//! | only the boundary retires | up to the cursor | `rolled_back_id_is_missing_until_the_boundary_passes_it` |
//! | the cursor follows the boundary | it does not | `boundary_moves_the_cursor_where_no_row_does` |
//! | a fresh gap asks for nothing | asks at once | `rolled_back_id_is_missing_until_the_boundary_passes_it` |
//! | a forward scan begins after the cursor | one id later | `boundary_moves_the_cursor_where_no_row_does` |
//! | gaps have a bound | none | `recovery::one_gap_more_than_may_be_tracked_ends_every_stream` |
//! | publishers hold the barrier | they do not | `start_waits_for_every_open_publish`, `histories` |
//! | a boundary run waits for the barrier | takes another lock | `start_waits_for_every_open_publish` |
//! | it holds the barrier to its end | lets go at once | `barrier_is_held_until_the_boundary_is_stored` |
//! | the boundary is the sequence's | the greatest row's | `boundary_moves_the_cursor_where_no_row_does` |
//! | an unused sequence gave no id | it gave 1 | `boundary::open_publish_delays_the_boundary_and_ends_no_stream` |
//! | the boundary never goes back | set to whatever is read | `boundary::sequence_that_was_set_back_is_an_invariant_failure` |
//! | a cancelled wait is a timeout | 57014 is a failure | `boundary::either_timeout_of_the_barrier_leaves_the_connection_usable` |
//! | after a timeout an attempt keeps its distance | the interval will do | `boundary::attempt_after_a_timeout_keeps_its_distance` |
//! | a stored boundary saves the run | it is not read | `boundary::stored_boundary_that_covers_the_request_saves_the_run` |
//! | a cancelled poll is repeated twice | once, or three times | `recovery::polls_that_time_out_are_repeated_twice` |
//! | a start waits for the boundary | begins at what it sees | `standby::the_port_stays_closed_until_the_standby_shows_the_boundary` |
//! | heads are read after registration | before | `row_between_the_head_and_its_answer_is_delivered` |
//! | pages are of one server | not compared | `standby::a_promotion_ends_every_stream` |
//! | heads are of that server | not compared | `standby::sessions_and_tailer_must_read_from_one_server` |
//! | history is of that server | not compared | `standby::history_and_tailer_must_be_read_from_one_server` |
//!
//! One could not be seen to be broken: the interval between two boundary runs, which the polls that
//! ask for them keep by themselves.

use std::time::Duration;

use envelope::wire::xmtp::backend::v1::subscribe_static_response::Response as StaticFrame;
use gapless::{Id, Next, Page};
use harness::{AdvisoryLock, Relay, Sessions, StaticSubscription, TestDatabase, Transport};
use xmtp_backend::db::{Database, GlobalLock};

use crate::following::{POLLS, behind_a_relay, delivered, follow, until_at_least};
use crate::reading::after;
use crate::storage::open;
use crate::tailing::{
    OpenPublish, Publishers, Reader, Violation, audit, close, fail_to_close, open_storage, text,
    topic,
};

const BARRIER: AdvisoryLock = AdvisoryLock::Global(GlobalLock::Barrier.number());

/// A migrated database, its storage, publishers, and a reader that began on the empty log.
struct Log {
    database: TestDatabase,
    storage: Database,
    publishers: Publishers,
    reader: Reader,
}

impl Log {
    async fn with_pages_of(rows: u16) -> Self {
        let database = TestDatabase::create().await;
        let storage = open_storage(&database, |_| {});
        Self {
            publishers: Publishers::of(&database),
            reader: Reader::start(&storage, rows).await,
            storage,
            database,
        }
    }

    async fn empty() -> Self {
        Self::with_pages_of(1024).await
    }

    /// `A1+, B2 c, p`: the beginning of many of the histories.
    async fn with_a_gap() -> (Self, OpenPublish) {
        let mut log = Self::empty().await;
        let open = log.publishers.open("A").await;
        assert_eq!(text(open.rows()), "A1");
        log.publishers.publish("B").await;
        assert_eq!(log.reader.poll().await, ["B2"]);
        assert_eq!(log.reader.missing(), [(1, 1)]);
        (log, open)
    }
}

/// 1. A late commit comes out of its gap, and no boundary is needed for that.
#[tokio::test]
async fn late_commit_is_found_without_a_boundary() {
    let (mut log, a1) = Log::with_a_gap().await;
    a1.commit().await;
    assert_eq!(log.reader.poll().await, ["A1"]);
    assert_eq!(log.reader.missing(), []);
    assert_eq!(log.reader.boundary(), 0);
    log.database.drop().await;
}

/// 2. A rollback leaves its gap until a boundary closes it. It is asked for by the second poll that
/// does not find the row, not by the one that found the gap.
#[tokio::test]
async fn rolled_back_id_is_missing_until_the_boundary_passes_it() {
    let (mut log, a1) = Log::with_a_gap().await;
    assert_eq!(log.reader.wanted, None);
    a1.roll_back().await;
    assert!(log.reader.poll().await.is_empty());
    assert_eq!(log.reader.missing(), [(1, 1)]);
    assert_eq!(log.reader.wanted, Some(1));
    assert_eq!(close(&log.storage).await, 2);
    assert!(log.reader.poll().await.is_empty());
    assert_eq!(log.reader.missing(), []);
    assert_eq!(log.reader.wanted, None);
    log.database.drop().await;
}

/// 3. A boundary cannot be closed over an open publish. Once it is closed over the commit, the page
/// that shows it shows the row too, and delivers it first.
#[tokio::test]
async fn row_that_a_boundary_closed_is_delivered_before_its_gap_is_given_up() {
    let (mut log, a1) = Log::with_a_gap().await;
    fail_to_close(&log.storage).await;
    assert!(log.reader.poll().await.is_empty());
    assert_eq!(log.reader.missing(), [(1, 1)]);
    a1.commit().await;
    assert_eq!(close(&log.storage).await, 2);
    assert_eq!(log.reader.poll().await, ["A1"]);
    assert_eq!(log.reader.boundary(), 2);
    assert_eq!(log.reader.missing(), []);
    log.database.drop().await;
}

/// 4. A late row and the next one of its topic become visible together: one page, in order.
#[tokio::test]
async fn late_row_comes_before_the_next_one_of_its_topic() {
    let (mut log, a1) = Log::with_a_gap().await;
    a1.commit().await;
    log.publishers.publish("A").await;
    assert_eq!(log.reader.poll().await, ["A1 A3"]);
    log.database.drop().await;
}

/// 5. The same history in a build whose forward scan has a later snapshot than its probe: two
/// statements instead of one. The topic's second row comes without its first, and the audit says so.
#[tokio::test]
async fn forward_scan_of_a_later_snapshot_breaks_the_order() {
    let (mut log, a1) = Log::with_a_gap().await;
    let early = log.reader.read().await;
    let mut committed = a1.commit().await;
    committed.extend(log.publishers.publish("A").await);
    let late = log.reader.read().await;
    let page = Page {
        forward: late.forward,
        ..early
    };
    assert_eq!(log.reader.apply(page), ("A3".to_owned(), Next::Wait));
    assert_eq!(log.reader.poll().await, ["A1"]);
    let of_topic = &log.reader.delivered[1..];
    let (a1, a3) = (committed[0], committed[1]);
    assert_eq!(
        audit(&committed, of_topic),
        Err(Violation::OutOfOrder(a3, a1))
    );
    log.database.drop().await;
}

/// 6. The same in a build that reads the boundary after the probe: it gives up the gap of a row that
/// is there, which no later poll finds.
#[tokio::test]
async fn boundary_of_a_later_snapshot_loses_a_row() {
    let (mut log, a1) = Log::with_a_gap().await;
    let early = log.reader.read().await;
    let committed = a1.commit().await;
    assert_eq!(close(&log.storage).await, 2);
    let late = log.reader.read().await;
    let page = Page {
        boundary: late.boundary,
        ..early
    };
    assert_eq!(log.reader.apply(page), (String::new(), Next::Wait));
    assert_eq!(log.reader.missing(), []);
    assert!(log.reader.poll().await.is_empty());
    let lost = Violation::Lost(committed[0]);
    assert_eq!(audit(&committed, &log.reader.delivered[1..]), Err(lost));
    log.database.drop().await;
}

/// 5 and 6 cannot happen as long as a page is one statement, which has one snapshot. Every page here is
/// one request to the database; the histories before it have prepared it.
#[tokio::test]
async fn page_is_one_statement() {
    let database = TestDatabase::create().await;
    let relay = Relay::to(&database.url()).await;
    let url = relay.url(&database.url()).parse().unwrap();
    let storage = open_storage(&database, |settings| settings.primary = url);
    let mut publishers = Publishers::of(&database);
    let mut reader = Reader::start(&storage, 1024).await;
    let a1 = publishers.open("A").await;
    publishers.publish("B").await;
    assert_eq!(reader.poll().await, ["B2"]);
    a1.commit().await;
    publishers.publish("A").await;
    let before = relay.requests();
    assert_eq!(reader.poll().await, ["A1 A3"]);
    assert_eq!(relay.requests(), before + 1);
    database.drop().await;
}

/// The same by what it brings about: a row commits and is closed while a page waits for the table of
/// the boundary. A page that had looked for rows before would now give the row's gap up.
#[tokio::test]
async fn page_that_waits_for_the_boundary_looks_for_rows_after_that() {
    let (mut log, a1) = Log::with_a_gap().await;
    let mut boundary = log
        .database
        .within_transaction("LOCK TABLE allocation_boundary IN ACCESS EXCLUSIVE MODE")
        .await;
    let tailers = Sessions::of_tailers(&log.database).await;
    let (page, ()) = tokio::join!(log.reader.read(), async {
        tailers.until_waited("relation", 1).await;
        a1.commit().await;
        let close = "UPDATE allocation_boundary SET closed_sequence_id = 2; COMMIT";
        sqlx::raw_sql(close).execute(&mut boundary).await.unwrap();
    });
    assert_eq!(page.boundary, 2);
    assert_eq!(log.reader.apply(page), ("A1".to_owned(), Next::Wait));
    assert_eq!(log.reader.missing(), []);
    log.database.drop().await;
}

/// 7. A probe that its page limit cuts keeps the forward rows back until it has found everything.
#[tokio::test]
async fn forward_rows_wait_for_a_probe_that_was_cut() {
    let mut log = Log::with_pages_of(2).await;
    let open = log.publishers.open("AAAC").await;
    assert_eq!(text(open.rows()), "A1 A2 A3 C4");
    log.publishers.publish("B").await;
    assert_eq!(log.reader.poll().await, ["B5"]);
    open.commit().await;
    log.publishers.publish("A").await;
    assert_eq!(log.reader.poll().await, ["A1 A2", "A3 C4", "A6"]);
    assert_eq!(log.reader.missing(), []);
    log.database.drop().await;
}

/// A page that cannot hold every late row has the lowest, whichever gaps they are in.
#[tokio::test]
async fn cut_probe_has_the_lowest_rows_of_all_gaps() {
    let mut log = Log::with_pages_of(2).await;
    let mut open = Vec::new();
    for letter in ["A", "C", "D"] {
        open.push(log.publishers.open(letter).await);
        log.publishers.publish("B").await;
    }
    assert_eq!(log.reader.poll().await, ["B2 B4", "B6"]);
    assert_eq!(log.reader.missing(), [(1, 1), (3, 3), (5, 5)]);
    for publish in open {
        publish.commit().await;
    }
    assert_eq!(log.reader.poll().await, ["A1 C3", "D5"]);
    log.database.drop().await;
}

/// 7 again, with a boundary over everything: what a cut probe did not come to is not given up, although
/// the page shows a boundary above it.
#[tokio::test]
async fn probe_that_was_cut_gives_up_nothing_above_the_cut() {
    let mut log = Log::with_pages_of(2).await;
    let open = log.publishers.open("AAAC").await;
    log.publishers.publish("B").await;
    assert_eq!(log.reader.poll().await, ["B5"]);
    open.commit().await;
    assert_eq!(close(&log.storage).await, 5);
    assert_eq!(log.reader.poll().await, ["A1 A2", "A3 C4"]);
    assert_eq!(log.reader.missing(), []);
    log.database.drop().await;
}

/// 8. A publisher that dies leaves nothing behind: no lock, no row, and soon no gap.
#[tokio::test]
async fn publisher_that_dies_leaves_neither_lock_nor_gap() {
    let (mut log, a1) = Log::with_a_gap().await;
    drop(a1);
    log.database.advisory_locks().await.until_all_free().await;
    assert_eq!(close(&log.storage).await, 2);
    assert!(log.reader.poll().await.is_empty());
    assert_eq!(log.reader.missing(), []);
    log.database.drop().await;
}

/// 9. A reader that begins while a publish is open has to wait for it: its row is history then, and
/// is not the reader's.
#[tokio::test]
async fn start_waits_for_every_open_publish() {
    let database = TestDatabase::create().await;
    let storage = open_storage(&database, |_| {});
    let mut publishers = Publishers::of(&database);
    publishers.publish("B").await;
    let a2 = publishers.open("A").await;
    publishers.publish("B").await;
    fail_to_close(&storage).await;
    fail_to_close(&storage).await;
    a2.commit().await;
    let closed = close(&storage).await;
    assert_eq!(closed, 3);
    let mut reader = Reader::start_after(&storage, closed, 1024).await.unwrap();
    assert_eq!(reader.cursor(), 3);
    assert!(reader.poll().await.is_empty());
    assert_eq!(reader.missing(), []);
    database.drop().await;
}

/// 10. A sequence that jumps leaves one range, however wide.
#[tokio::test]
async fn jump_of_the_sequence_is_one_range() {
    const FAR: Id = 10_000_000;
    let mut log = Log::empty().await;
    log.publishers.publish("A").await;
    let mut connection = log.database.connection().await;
    sqlx::query("SELECT setval('envelope_sequence', $1)")
        .bind(FAR)
        .execute(&mut connection)
        .await
        .unwrap();
    log.publishers.publish("A").await;
    assert_eq!(log.reader.poll().await, [format!("A1 A{}", FAR + 1)]);
    assert_eq!(log.reader.missing(), [(2, FAR)]);
    assert_eq!(close(&log.storage).await, FAR + 1);
    assert!(log.reader.poll().await.is_empty());
    assert_eq!(log.reader.missing(), []);
    log.database.drop().await;
}

/// 11. What was rolled back above every row is no gap, and the boundary moves the cursor past it.
#[tokio::test]
async fn boundary_moves_the_cursor_where_no_row_does() {
    let mut log = Log::empty().await;
    log.publishers.publish("A").await;
    assert_eq!(log.reader.poll().await, ["A1"]);
    log.publishers.open("B").await.roll_back().await;
    assert!(log.reader.poll().await.is_empty());
    assert_eq!(log.reader.cursor(), 1);
    assert_eq!(close(&log.storage).await, 2);
    assert!(log.reader.poll().await.is_empty());
    assert_eq!(log.reader.cursor(), 2);
    log.publishers.publish("B").await;
    assert_eq!(log.reader.poll().await, ["B3"]);
    assert_eq!(log.reader.missing(), []);
    log.database.drop().await;
}

/// A row is committed, and handed to everybody who follows its topic, between the head that a stream
/// reads and its answer. The stream has registered before it read the head, so the row is neither
/// history nor lost (ARC-076).
#[tokio::test]
async fn row_between_the_head_and_its_answer_is_delivered() {
    let (server, relay) = behind_a_relay("").await;
    let mut publishers = Publishers::of(server.database());
    publishers.publish("A").await;
    let meanwhile = async |publishers: &mut Publishers| {
        relay.until_held().await;
        let rows = publishers.publish("A").await;
        let polls = server.metric(POLLS).await;
        until_at_least(&server, POLLS, polls + 3).await;
        relay.release();
        text(&rows)
    };

    // The topic travels as a parameter. Nothing is owed from before, so no turn of history finds the
    // row by chance.
    relay.hold_answer_to(topic('A').as_bytes());
    let ((mut stream, targets), row) =
        tokio::join!(follow(server.address(), "A", 1), meanwhile(&mut publishers));
    assert_eq!(targets, [1], "the head was read before");
    assert_eq!(delivered(&stream.envelopes(1).await), row);

    relay.hold_answer_to(topic('A').as_bytes());
    let topics = vec![after(topic('A').as_bytes(), 2)];
    let (stream, row) = tokio::join!(
        StaticSubscription::open(Transport::WebHttp1, server.address(), topics),
        meanwhile(&mut publishers)
    );
    let mut stream = stream.unwrap();
    let StaticFrame::Started(started) = stream.next().await.unwrap() else {
        panic!("the first frame is Started");
    };
    assert_eq!(started.targets[0].through_sequence_id, 2);
    assert_eq!(delivered(&stream.envelopes(1).await), row);
    server.stop().await;
}

/// 15. A publish that comes behind a boundary run is given no id before that has ended, and so never
/// one inside the closed part.
#[tokio::test]
async fn publish_behind_a_boundary_run_gets_an_id_above_it() {
    let database = TestDatabase::create().await;
    let (storage, _) = open(&database, |settings| {
        settings.max_barrier_wait = Duration::from_secs(30);
    });
    let mut publishers = Publishers::of(&database);
    let locks = database.advisory_locks().await;
    let a1 = publishers.open("A").await;
    let (closed, b, ()) = tokio::join!(
        close(&storage),
        async {
            locks.until_waiting(BARRIER, 1).await;
            publishers.publish("B").await
        },
        async {
            locks.until_waiting(BARRIER, 2).await;
            assert_eq!(database.last_allocated().await, 1, "B has an id already");
            a1.commit().await;
        }
    );
    assert_eq!(closed, 1);
    assert_eq!(text(&b), "B2");
    database.drop().await;
}

/// The barrier stays with a boundary run until its boundary is stored: a publish that was let in after
/// the sequence was read, or before, could be given an id inside the closed part.
#[tokio::test]
async fn barrier_is_held_until_the_boundary_is_stored() {
    let database = TestDatabase::create().await;
    let (storage, _) = open(&database, |settings| {
        settings.max_barrier_wait = Duration::from_secs(30);
    });
    let locks = database.advisory_locks().await;
    let table = database
        .within_transaction("LOCK TABLE allocation_boundary IN ACCESS EXCLUSIVE MODE")
        .await;
    let mut publishers = Publishers::of(&database);
    publishers.publish("A").await;
    let (closed, ()) = tokio::join!(close(&storage), async {
        let pools = Sessions::of_pools(&database).await;
        pools.until_waited("relation", 1).await;
        let states = locks.states().await;
        let held = states.iter().filter(|state| state.granted && !state.shared);
        assert_eq!(held.map(|state| state.lock).collect::<Vec<_>>(), [BARRIER]);
        drop(table);
    });
    assert_eq!(closed, 1);
    database.drop().await;
}
