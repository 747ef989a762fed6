//! Readers: the crate beside a second implementation of the same rules, or a faulty one alone.
//!
//! The second implementation keeps one entry per missing id and follows the rules word by word. It
//! is no use in production and easy to believe. A [`Fault`] breaks one of its rules.

use std::collections::BTreeMap;

use gapless::{Contradiction, Error, Id, Limits, Next, Outcome, Page, Plan, State};

use crate::database::{Row, Snapshot};

/// A rule of the state machine that a wrong build breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// Forward rows are delivered although the probe was cut.
    ForwardNotWithheld,
    /// A cut probe retires up to the boundary, not only up to the cut.
    RetirePastCut,
    /// A missing id is given up after two probes.
    RetireByTime,
    /// Ids that a forward row jumps over are forgotten.
    GapsNotRecorded,
    /// The cursor moves to the sequence value when a poll ends, not to the boundary.
    CursorToSequence,
    /// The cursor moves to the boundary although the forward page was full.
    CursorPastFullPage,
    /// The lowest missing range is forgotten when there are more than the limit.
    RangeDroppedAtCapacity,
}

/// What to read, with ranges by first and last id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Query {
    ranges: Vec<(Id, Id)>,
    after: Id,
    limit: usize,
}

impl Query {
    fn of_plan(plan: Plan<'_>) -> Self {
        let ranges = plan
            .lows
            .iter()
            .copied()
            .zip(plan.highs.iter().copied())
            .collect();
        Self {
            ranges,
            after: plan.after,
            limit: usize::from(plan.limit.get()),
        }
    }

    pub(crate) fn probe(&self, snapshot: Snapshot<'_>) -> Vec<Row> {
        let missing = |id| {
            self.ranges
                .iter()
                .any(|(low, high)| (*low..=*high).contains(&id))
        };
        snapshot.rows(missing, self.limit)
    }

    pub(crate) fn forward(&self, snapshot: Snapshot<'_>) -> Vec<Row> {
        snapshot.rows(|id| id > self.after, self.limit)
    }
}

/// A reader of one generation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Tail {
    /// The crate; the reference goes with it and must agree on everything.
    Sound(State, Reference),
    /// The crate alone, for gaps too wide for a reference that counts ids.
    Alone(State),
    Faulty(Reference),
}

impl Tail {
    /// Goes on from `state`, which [`gapless::Start`] made.
    pub(crate) fn new(state: State, limits: Limits, fault: Option<Fault>) -> Self {
        let reference = Reference::new(state.boundary(), limits, fault);
        match fault {
            None => Self::Sound(state, reference),
            Some(_) => Self::Faulty(reference),
        }
    }

    pub(crate) fn query(&self) -> Query {
        match self {
            Self::Sound(state, reference) => {
                let query = Query::of_plan(state.plan());
                assert_eq!(query, reference.query());
                query
            }
            Self::Alone(state) => Query::of_plan(state.plan()),
            Self::Faulty(reference) => reference.query(),
        }
    }

    /// The missing ranges.
    pub(crate) fn missing(&self) -> Vec<(Id, Id)> {
        self.query().ranges
    }

    pub(crate) fn cursor(&self) -> Id {
        self.query().after
    }

    /// Applies a page; `sequence` is there for the build that misuses it.
    pub(crate) fn apply(&mut self, page: Page<Row>, sequence: Id) -> Result<Outcome<Row>, Error> {
        match self {
            Self::Sound(state, reference) => {
                let expected = reference.apply(page.clone(), sequence);
                let outcome = state.apply(page);
                assert_eq!(outcome, expected, "the crate and the reference differ");
                let lows = state.plan().lows;
                let highs = state.plan().highs;
                assert!(lows.iter().zip(highs).all(|(low, high)| low <= high));
                assert!(
                    highs
                        .iter()
                        .zip(&lows[lows.len().min(1)..])
                        .all(|(high, low)| high < low)
                );
                assert!(highs.last().is_none_or(|high| *high < state.cursor()));
                outcome
            }
            Self::Alone(state) => state.apply(page),
            Self::Faulty(reference) => reference.apply(page, sequence),
        }
    }
}

/// What the reference knows of a missing id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Search {
    /// Probes that looked for it since the page that found it missing, counted as far as needed.
    probes: u8,
}

/// The rules, one id at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reference {
    fault: Option<Fault>,
    limits: Limits,
    cursor: Id,
    boundary: Id,
    missing: BTreeMap<Id, Search>,
}

impl Reference {
    fn new(start: Id, limits: Limits, fault: Option<Fault>) -> Self {
        Self {
            fault,
            limits,
            cursor: start,
            boundary: start,
            missing: BTreeMap::new(),
        }
    }

    fn ranges(&self) -> Vec<(Id, Id)> {
        let mut ranges: Vec<(Id, Id)> = Vec::new();
        for &id in self.missing.keys() {
            match ranges.last_mut() {
                Some((_, high)) if *high == id - 1 => *high = id,
                Some(_) | None => ranges.push((id, id)),
            }
        }
        ranges
    }

    fn query(&self) -> Query {
        let limit = usize::from(self.limits.page_rows.get());
        Query {
            ranges: self.ranges(),
            after: self.cursor,
            limit,
        }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn apply(&mut self, page: Page<Row>, sequence: Id) -> Result<Outcome<Row>, Error> {
        let before = self.clone();
        let Page {
            boundary,
            probe,
            forward,
        } = page;
        if boundary < self.boundary {
            let previous = self.boundary;
            return Err(Contradiction::BoundaryWentBack { previous, boundary }.into());
        }
        self.boundary = boundary;
        let limit = usize::from(self.limits.page_rows.get());
        for Row { id, .. } in &probe {
            if self.missing.remove(id).is_none() {
                *self = before;
                return Err(Contradiction::NotMissing { id: *id }.into());
            }
        }
        let is_cut = probe.len() == limit;
        let seen_to = if is_cut {
            probe[limit - 1].id
        } else {
            self.cursor
        };
        let enough = if self.has(Fault::RetireByTime) { 2 } else { 1 };
        for (_, search) in self.missing.range_mut(..=seen_to) {
            search.probes = enough.min(search.probes + 1);
        }
        let closed = if self.has(Fault::RetirePastCut) {
            boundary
        } else {
            boundary.min(seen_to)
        };
        self.missing
            .retain(|id, search| *id > closed && search.probes < 2);

        let mut deliver = probe;
        let is_full = forward.len() == limit;
        if !is_cut || self.has(Fault::ForwardNotWithheld) {
            self.go_forward(boundary, &forward, is_full, sequence);
            deliver.extend(forward);
        }
        let ranges = self.ranges();
        if ranges.len() > self.limits.ranges_max {
            if !self.has(Fault::RangeDroppedAtCapacity) {
                *self = before;
                let ranges_max = self.limits.ranges_max;
                return Err(Error::Capacity {
                    ranges: ranges.len(),
                    ranges_max,
                });
            }
            let (low, high) = ranges[0];
            self.missing.retain(|id, _| !(low..=high).contains(id));
        }
        let searched = self
            .missing
            .iter()
            .filter(|(id, search)| search.probes > 0 && **id > boundary);
        let want_boundary = searched.map(|(id, _)| *id).max();
        let next = if is_cut || is_full {
            Next::Again
        } else {
            Next::Wait
        };
        Ok(Outcome {
            deliver,
            next,
            want_boundary,
        })
    }

    fn go_forward(&mut self, boundary: Id, rows: &[Row], is_full: bool, sequence: Id) {
        for row in rows {
            if !self.has(Fault::GapsNotRecorded) {
                for id in self.cursor.max(boundary) + 1..row.id {
                    self.missing.insert(id, Search::default());
                }
            }
            self.cursor = row.id;
        }
        if !is_full || self.has(Fault::CursorPastFullPage) {
            self.cursor = self.cursor.max(boundary);
            if self.has(Fault::CursorToSequence) {
                self.cursor = self.cursor.max(sequence);
            }
        }
    }
}
