//! Each rule at its edges. Whole histories, with a model of the database, are in `tests/`.

use super::*;
use crate::Start;

/// Ids of one scan.
type Ids = &'static [Id];
/// Ranges by first and last id.
type Pairs = &'static [(Id, Id)];

fn state(start: Id, page_rows: u16, ranges_max: usize) -> State {
    let limits = Limits {
        page_rows: NonZeroU16::new(page_rows).unwrap(),
        ranges_max,
    };
    Start::after(start).observe(Some(start), limits).unwrap()
}

fn page(boundary: Id, probe: &[Id], forward: &[Id]) -> Page<Id> {
    Page {
        boundary,
        probe: probe.to_vec(),
        forward: forward.to_vec(),
    }
}

fn missing(state: &State) -> Vec<(Id, Id)> {
    state.missing().map(|range| range.into_inner()).collect()
}

/// A state with the given ids delivered and nothing else, so that the rest is missing.
fn state_after(delivered: &[Id], page_rows: u16) -> State {
    let mut state = state(0, page_rows, 100);
    let rows = usize::from(page_rows);
    for chunk in delivered.chunks(rows) {
        // No boundary and nothing found: the probes of these pages come up empty.
        let outcome = state.apply(page(0, &[], chunk)).unwrap();
        assert_eq!(outcome.deliver, chunk);
    }
    state
}

/// Goal: the ids that a forward row jumps over become missing, except those that the boundary of
/// the same page covers; the cursor ends at the last row or, in a page that is not full, at the
/// boundary if that is higher (ARC-037, ARC-040).
/// Method: one page on a fresh state that starts at 10 and takes 3 rows a page.
#[test]
fn forward_rows_record_what_they_jump_over() {
    let cases: &[(Id, Ids, Pairs, Id, Next)] = &[
        // boundary, forward rows, missing, cursor, next
        (10, &[], &[], 10, Next::Wait),
        (15, &[], &[], 15, Next::Wait),
        (10, &[11], &[], 11, Next::Wait),
        (10, &[12], &[(11, 11)], 12, Next::Wait),
        (11, &[12], &[], 12, Next::Wait),
        (10, &[13], &[(11, 12)], 13, Next::Wait),
        (11, &[13], &[(12, 12)], 13, Next::Wait),
        (12, &[13], &[], 13, Next::Wait),
        (13, &[13], &[], 13, Next::Wait),
        (14, &[13], &[], 14, Next::Wait),
        (10, &[11, 12], &[], 12, Next::Wait),
        (10, &[12, 14], &[(11, 11), (13, 13)], 14, Next::Wait),
        (12, &[12, 15], &[(13, 14)], 15, Next::Wait),
        (13, &[12, 15], &[(14, 14)], 15, Next::Wait),
        (14, &[12, 15], &[], 15, Next::Wait),
        // Full: more rows may follow at once, also below the boundary.
        (10, &[11, 12, 13], &[], 13, Next::Again),
        (20, &[11, 12, 13], &[], 13, Next::Again),
        (12, &[11, 13, 16], &[(14, 15)], 16, Next::Again),
        (
            10,
            &[10_000_000_011],
            &[(11, 10_000_000_010)],
            10_000_000_011,
            Next::Wait,
        ),
        (10, &[Id::MAX], &[(11, Id::MAX - 1)], Id::MAX, Next::Wait),
        (Id::MAX, &[Id::MAX], &[], Id::MAX, Next::Wait),
    ];
    for (boundary, forward, gaps, cursor, next) in cases {
        let mut state = state(10, 3, 100);
        let outcome = state.apply(page(*boundary, &[], forward)).unwrap();
        let case = format!("boundary {boundary}, rows {forward:?}");
        assert_eq!(
            outcome,
            Outcome {
                deliver: forward.to_vec(),
                next: *next,
                want_boundary: None
            },
            "{case}"
        );
        assert_eq!(missing(&state), *gaps, "{case}");
        assert_eq!(
            (state.cursor(), state.boundary()),
            (*cursor, *boundary),
            "{case}"
        );
        assert_eq!(state.plan().after, *cursor, "{case}");
    }
}

/// Goal: found rows are delivered before forward rows, leave their ranges, and the rest of the
/// ranges goes exactly up to the boundary (ARC-037, ARC-038).
/// Method: ids 3 and 7 delivered, so 1..=2 and 4..=6 are missing; one page of at most 9 rows.
#[test]
fn uncut_probe_delivers_first_and_retires_up_to_the_boundary() {
    let cases: &[(Id, Ids, Ids, Pairs)] = &[
        (0, &[], &[], &[(1, 2), (4, 6)]),
        (0, &[1], &[], &[(2, 2), (4, 6)]),
        (0, &[5], &[8], &[(1, 2), (4, 4), (6, 6)]),
        (0, &[1, 2, 4, 5, 6], &[8], &[]),
        (1, &[], &[], &[(2, 2), (4, 6)]),
        (2, &[], &[], &[(4, 6)]),
        (3, &[], &[], &[(4, 6)]),
        (5, &[], &[], &[(6, 6)]),
        (6, &[], &[], &[]),
        // The row is found although the boundary passed it: the probe comes first.
        (6, &[2, 5], &[], &[]),
        (7, &[1], &[9], &[(8, 8)]),
        (8, &[1], &[9], &[]),
    ];
    for (boundary, probe, forward, left) in cases {
        let mut state = state_after(&[3, 7], 9);
        let outcome = state.apply(page(*boundary, probe, forward)).unwrap();
        let case = format!("boundary {boundary}, probe {probe:?}, forward {forward:?}");
        assert_eq!(outcome.deliver, [*probe, *forward].concat(), "{case}");
        assert_eq!(outcome.next, Next::Wait, "{case}");
        assert_eq!(missing(&state), *left, "{case}");
    }
}

/// Goal: a probe that reaches the limit holds back every forward row, retires nothing above its
/// last row, leaves the cursor alone and asks for the next page at once (ARC-037, ARC-038).
/// Method: 1..=2 and 4..=6 missing, two rows a page; every boundary around the cut.
#[test]
fn cut_probe_withholds_forward_rows_and_retires_only_up_to_the_cut() {
    let cases: &[(Id, Ids, Pairs)] = &[
        (0, &[1, 2], &[(4, 6)]),
        (0, &[1, 4], &[(2, 2), (5, 6)]),
        (1, &[1, 4], &[(2, 2), (5, 6)]),
        (2, &[1, 4], &[(5, 6)]),
        (9, &[1, 4], &[(5, 6)]),
        (9, &[1, 2], &[(4, 6)]),
        (9, &[2, 5], &[(6, 6)]),
        (4, &[2, 6], &[(5, 5)]),
        (9, &[4, 6], &[]),
    ];
    for (boundary, probe, left) in cases {
        let mut state = state_after(&[3, 7], 2);
        let outcome = state.apply(page(*boundary, probe, &[8, 10])).unwrap();
        let case = format!("boundary {boundary}, probe {probe:?}");
        assert_eq!(outcome.deliver, *probe, "{case}");
        assert_eq!(outcome.next, Next::Again, "{case}");
        assert_eq!(missing(&state), *left, "{case}");
        assert_eq!(state.cursor(), 7, "{case}");
        // The withheld rows are read again.
        let outcome = state.apply(page(9.max(*boundary), &[], &[8, 10])).unwrap();
        assert_eq!(outcome.deliver, [8, 10], "{case}");
        assert_eq!(missing(&state), [], "{case}");
    }
}

/// Goal: one row below the limit is not a cut, the limit is one, for both scans (ARC-037).
#[test]
fn scan_counts_as_cut_exactly_at_the_limit() {
    let cases: &[(Ids, Ids, Ids, Next)] = &[
        (&[1], &[8], &[1, 8], Next::Wait),
        (&[1, 2], &[8], &[1, 2, 8], Next::Wait),
        (&[1, 2, 4], &[8], &[1, 2, 4], Next::Again),
        (&[], &[8, 9], &[8, 9], Next::Wait),
        (&[], &[8, 9, 10], &[8, 9, 10], Next::Again),
        (&[1, 2], &[8, 9, 10], &[1, 2, 8, 9, 10], Next::Again),
        (&[1, 2, 4], &[8, 9, 10], &[1, 2, 4], Next::Again),
    ];
    for (probe, forward, deliver, next) in cases {
        let mut state = state_after(&[3, 7], 3);
        let outcome = state.apply(page(0, probe, forward)).unwrap();
        assert_eq!(
            (outcome.deliver.as_slice(), outcome.next),
            (*deliver, *next),
            "{probe:?} {forward:?}"
        );
    }
}

/// Goal: a boundary is asked for only for an id above the boundary that a probe looked for after
/// the page that found it missing, and for the greatest such id (ARC-040).
/// Method: one history of pages with two rows each, checked after every page.
#[test]
fn boundary_is_wanted_once_a_probe_has_come_up_empty() {
    let mut state = state(0, 2, 100);
    let steps: &[(Id, Ids, Ids, Option<Id>)] = &[
        // boundary, probe, forward, wanted
        (0, &[], &[2], None),         // finds 1 missing
        (0, &[], &[], Some(1)),       // probed once
        (0, &[], &[6, 8], Some(1)),   // finds 3..=5 and 7; those are new
        (0, &[3, 4], &[10], Some(1)), // cut at 4: probed up to 4, where only 1 is missing
        (0, &[], &[10], Some(7)),     // 5 and 7 probed; finds 9
        (1, &[], &[], Some(9)),
        (8, &[], &[], Some(9)),
        (9, &[], &[], None),
        (9, &[], &[13], None),    // finds 11..=12; 10 was delivered
        (11, &[], &[], Some(12)), // the boundary takes part of the range
        (12, &[], &[], None),
    ];
    for (step, (boundary, probe, forward, wanted)) in steps.iter().enumerate() {
        let outcome = state.apply(page(*boundary, probe, forward)).unwrap();
        assert_eq!(outcome.want_boundary, *wanted, "step {step}");
    }
    assert_eq!(missing(&state), []);
}

/// Goal: a range that a cut probe did not reach does not ask for a boundary, and one that was
/// probed before keeps asking (ARC-040).
#[test]
fn cut_probe_neither_advances_nor_forgets_what_was_probed() {
    let mut state = state(0, 2, 100);
    assert_eq!(state.apply(page(0, &[], &[4])).unwrap().want_boundary, None);
    // 1..=3 probed through 4; 5 and 7 found.
    assert_eq!(
        state.apply(page(0, &[], &[6, 8])).unwrap().want_boundary,
        Some(3)
    );
    // Cut at 2, below what was probed before: 3 goes on asking, 5 and 7 are still new.
    assert_eq!(
        state.apply(page(0, &[1, 2], &[])).unwrap().want_boundary,
        Some(3)
    );
    // Cut at 5: everything up to there is probed, 7 is not.
    assert_eq!(
        state.apply(page(0, &[3, 5], &[])).unwrap().want_boundary,
        None
    );
    assert_eq!(
        state.apply(page(0, &[], &[])).unwrap().want_boundary,
        Some(7)
    );
}

/// Goal: a cut probe counts for the ids below its last row, new ones among them (ARC-040).
#[test]
fn cut_probe_counts_up_to_its_last_row() {
    let mut state = state(0, 2, 100);
    // 1..=3 are found missing, then probed; 5..=6 are found missing.
    assert_eq!(state.apply(page(0, &[], &[4])).unwrap().want_boundary, None);
    assert_eq!(
        state.apply(page(0, &[], &[7])).unwrap().want_boundary,
        Some(3)
    );
    // Cut at 6: 5 has been looked for.
    assert_eq!(
        state.apply(page(0, &[1, 6], &[])).unwrap().want_boundary,
        Some(5)
    );
}

/// Goal: ids that the boundary covers but a cut kept missing do not ask for a boundary.
/// Method: the greatest missing id is 6 and was probed; boundaries one below, at and above it.
#[test]
fn boundary_that_covers_every_probed_gap_is_not_asked_for_again() {
    for (boundary, wanted) in [(5, Some(6)), (6, None), (7, None)] {
        let mut state = state_after(&[3, 7], 1);
        assert_eq!(
            state.apply(page(0, &[], &[])).unwrap().want_boundary,
            Some(6)
        );
        let outcome = state.apply(page(boundary, &[1], &[])).unwrap();
        assert_eq!(missing(&state), [(2, 2), (4, 6)]);
        assert_eq!(
            (outcome.next, outcome.want_boundary),
            (Next::Again, wanted),
            "{boundary}"
        );
    }
}

/// Goal: the number of ranges may reach the limit and not pass it; beyond it the page is refused
/// as a whole, and a later page that fits is taken (ARC-042).
/// Method: gaps by forward rows and by a probe row that splits a range, at and above the limit.
#[test]
fn capacity_is_refused_one_above_the_limit_and_nothing_is_dropped() {
    let forward = [2, 4, 6];
    for ranges_max in [3, 4] {
        let mut state = state(0, 10, ranges_max);
        assert_eq!(
            state.apply(page(0, &[], &forward)).unwrap().deliver,
            forward
        );
        assert_eq!(state.missing_ranges(), 3);
    }

    let mut gaps = state(0, 10, 2);
    let before = gaps.clone();
    let refused = gaps.apply(page(0, &[], &forward));
    assert_eq!(
        refused,
        Err(Error::Capacity {
            ranges: 3,
            ranges_max: 2
        })
    );
    assert_eq!(gaps, before, "a refused page changes nothing");
    assert_eq!(gaps.apply(page(1, &[], &forward)).unwrap().deliver, forward);
    assert_eq!(missing(&gaps), [(3, 3), (5, 5)]);

    let mut split = state(0, 10, 1);
    assert_eq!(split.apply(page(0, &[], &[4])).unwrap().deliver, [4]);
    let before = split.clone();
    assert_eq!(
        split.apply(page(0, &[2], &[])),
        Err(Error::Capacity {
            ranges: 2,
            ranges_max: 1
        })
    );
    assert_eq!(split, before);
    // What the page retires makes room for what it adds.
    assert_eq!(split.apply(page(3, &[2], &[6])).unwrap().deliver, [2, 6]);
    assert_eq!(missing(&split), [(5, 5)]);

    let mut none = state(0, 10, 0);
    assert_eq!(none.apply(page(0, &[], &[1, 2])).unwrap().deliver, [1, 2]);
    assert_eq!(
        none.apply(page(0, &[], &[4])),
        Err(Error::Capacity {
            ranges: 1,
            ranges_max: 0
        })
    );
}

/// Goal: a page that no snapshot of a sound log can give is refused by name, and changes nothing.
/// Method: 1..=2 and 4..=6 missing, cursor 7, boundary 0, three rows a page.
#[test]
fn contradictory_page_is_refused_and_changes_nothing() {
    use Contradiction::{BoundaryWentBack, NotMissing};
    use Scan::{Forward, Probe};
    let many = |scan| Contradiction::TooManyRows {
        scan,
        rows: 4,
        limit: 3,
    };
    let order = |scan, previous, id| Contradiction::OutOfOrder { scan, previous, id };
    let below = |id| Contradiction::NotAboveCursor { id, cursor: 7 };
    let cases: &[(Page<Id>, Contradiction)] = &[
        (
            page(-1, &[], &[]),
            BoundaryWentBack {
                previous: 0,
                boundary: -1,
            },
        ),
        (page(0, &[1, 2, 4, 5], &[]), many(Probe)),
        (page(0, &[], &[8, 9, 10, 11]), many(Forward)),
        (page(0, &[2, 1], &[]), order(Probe, 2, 1)),
        (page(0, &[2, 2], &[]), order(Probe, 2, 2)),
        (page(0, &[], &[9, 8]), order(Forward, 9, 8)),
        (page(0, &[], &[9, 9]), order(Forward, 9, 9)),
        (page(0, &[0], &[]), NotMissing { id: 0 }),
        (page(0, &[3], &[]), NotMissing { id: 3 }),
        (page(0, &[2, 3, 4], &[]), NotMissing { id: 3 }),
        (page(0, &[7], &[]), NotMissing { id: 7 }),
        (page(0, &[8], &[]), NotMissing { id: 8 }),
        (page(0, &[], &[7]), below(7)),
        (page(0, &[], &[6, 8]), below(6)),
        // Also where a cut leaves the forward rows unread.
        (page(0, &[1, 2, 4], &[7]), below(7)),
    ];
    for (page, contradiction) in cases {
        let mut state = state_after(&[3, 7], 3);
        let before = state.clone();
        let refused = state.apply(page.clone());
        assert_eq!(
            refused,
            Err(Error::Contradiction(*contradiction)),
            "{page:?}"
        );
        assert_eq!(state, before, "{page:?}");
    }
}

/// Goal: a row that was retired is refused if it appears after all, so a broken barrier does not
/// pass in silence where it can be seen (ARC-038).
#[test]
fn row_inside_a_retired_range_is_a_contradiction() {
    let mut state = state_after(&[3], 9);
    assert!(state.apply(page(1, &[], &[])).unwrap().deliver.is_empty());
    let refused = state.apply(page(1, &[1], &[]));
    assert_eq!(
        refused,
        Err(Error::Contradiction(Contradiction::NotMissing { id: 1 }))
    );
}

/// Goal: a boundary of an earlier page is refused, the same one is not (ARC-039).
#[test]
fn boundary_may_stand_still_but_not_go_back() {
    let mut state = state(5, 1, 1);
    for (boundary, went_back) in [(5, false), (4, true), (9, false), (8, true), (9, false)] {
        let refused = state.apply(page(boundary, &[], &[])).is_err();
        assert_eq!(refused, went_back, "{boundary}");
    }
    assert_eq!((state.cursor(), state.boundary()), (9, 9));
}

/// Goal: a plan holds the same ranges as the state, in the two lists that are sent (ARC-042).
#[test]
fn plan_lists_the_missing_ranges_without_copying_them() {
    let state = state_after(&[3, 7, 8, 10], 4);
    let plan = state.plan();
    assert_eq!((plan.lows, plan.highs), (&[1, 4, 9][..], &[2, 6, 9][..]));
    assert_eq!((plan.after, plan.limit.get()), (10, 4));
    assert_eq!(plan.lows.as_ptr(), state.plan().lows.as_ptr());
}

/// Goal: error texts name numbers and scans, nothing else.
#[test]
fn errors_read_as_sentences_without_payload() {
    let capacity = Error::Capacity {
        ranges: 3,
        ranges_max: 2,
    };
    assert_eq!(
        capacity.to_string(),
        "3 missing ranges exceed the limit of 2"
    );
    let order = Contradiction::OutOfOrder {
        scan: Scan::Forward,
        previous: 9,
        id: 8,
    };
    assert_eq!(
        order.to_string(),
        "the forward scan returned id 8 after id 9"
    );
    assert_eq!(
        Error::from(order).to_string(),
        "the page contradicts the state"
    );
}
