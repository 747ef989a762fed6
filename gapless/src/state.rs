//! The rules: what a page does to the cursor and to the missing ranges.
//!
//! A range leaves only by evidence, never by time or for lack of room (ARC-038, ARC-042), and a
//! page that is refused changes nothing. Answers ARC-037, ARC-038, ARC-040 and ARC-042.

use std::num::NonZeroU16;
use std::ops::RangeInclusive;

use crate::ranges::Ranges;
use crate::{Contradiction, Error, Id, Next, Outcome, Page, Plan, Scan, Sequenced};

/// How much a reader takes at once, and how much it may remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Most rows of each scan of a page.
    pub page_rows: NonZeroU16,
    /// Most missing ranges between two pages; each takes 16 bytes. One page may add a range for
    /// each row it reads before they are counted.
    pub ranges_max: usize,
}

/// What a reader remembers between pages. Made by [`Start`](crate::Start).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    limits: Limits,
    /// Every id above is unread, every id up to here is delivered, missing or retired.
    cursor: Id,
    /// Ids below the cursor of which nothing is known yet.
    missing: Ranges,
    /// Boundary of the last page.
    boundary: Id,
    /// Every missing id up to here has been looked for by a probe since the page that found it.
    /// One number is enough: probes go upwards, and new ranges lie above all older ones.
    probed: Id,
}

impl State {
    pub(crate) fn starting_at(boundary: Id, limits: Limits) -> Self {
        Self {
            limits,
            cursor: boundary,
            missing: Ranges::default(),
            boundary,
            probed: boundary,
        }
    }

    /// What the next page has to contain.
    #[must_use]
    pub fn plan(&self) -> Plan<'_> {
        Plan {
            lows: self.missing.lows(),
            highs: self.missing.highs(),
            after: self.cursor,
            limit: self.limits.page_rows,
        }
    }

    /// Every id up to here is delivered, missing or known never to come.
    #[must_use]
    pub const fn cursor(&self) -> Id {
        self.cursor
    }

    /// The boundary of the last page, or of the start.
    #[must_use]
    pub const fn boundary(&self) -> Id {
        self.boundary
    }

    /// The missing ranges, ascending.
    pub fn missing(&self) -> impl Iterator<Item = RangeInclusive<Id>> + '_ {
        self.missing.iter()
    }

    /// Number of missing ranges, the figure that [`Limits::ranges_max`] bounds.
    #[must_use]
    pub fn missing_ranges(&self) -> usize {
        self.missing.len()
    }

    /// Takes the page that answers [`Self::plan`].
    ///
    /// # Errors
    ///
    /// [`Error::Contradiction`] if the page cannot be such an answer, [`Error::Capacity`] if it
    /// leaves more than [`Limits::ranges_max`] ranges missing. Either way the state is what it was
    /// before, and the rows of the page are not delivered.
    pub fn apply<R: Sequenced>(&mut self, page: Page<R>) -> Result<Outcome<R>, Error> {
        self.check(&page)?;
        let Page {
            boundary,
            probe,
            forward,
        } = page;
        let limit = usize::from(self.limits.page_rows.get());

        // A probe as long as the limit may have stopped at its last row. Above that row, absence
        // was not seen, so nothing there may be retired.
        let cut = probe
            .last()
            .map(Sequenced::sequence_id)
            .filter(|_| probe.len() == limit);
        let closed = cut.map_or(boundary, |last| boundary.min(last));
        let mut missing = self
            .missing
            .without(&probe, closed)
            .map_err(|id| Contradiction::NotMissing { id })?;
        let probed = cut.map_or(self.cursor, |last| self.probed.max(last));

        let mut deliver = probe;
        let mut cursor = self.cursor;
        let mut next = Next::Again;
        // After a cut, an earlier row of a forward row's key may be among those not probed. Forward
        // rows then stay unread; each cut page empties its part of the ranges, so they get their turn.
        if cut.is_none() {
            for row in &forward {
                let id = row.sequence_id();
                // Ids up to the boundary that are absent here never come.
                let settled = cursor.max(boundary);
                if settled < id - 1 {
                    missing.push(settled + 1, id - 1);
                }
                cursor = id;
            }
            if forward.len() < limit {
                // Nothing else is visible above the cursor, so the same holds up to the boundary.
                cursor = cursor.max(boundary);
                next = Next::Wait;
            }
            deliver.extend(forward);
        }

        let ranges_max = self.limits.ranges_max;
        if missing.len() > ranges_max {
            return Err(Error::Capacity {
                ranges: missing.len(),
                ranges_max,
            });
        }
        let want_boundary = missing.greatest_through(probed).filter(|id| *id > boundary);
        *self = Self {
            limits: self.limits,
            cursor,
            missing,
            boundary,
            probed,
        };
        Ok(Outcome {
            deliver,
            next,
            want_boundary,
        })
    }

    /// Refuses what can be seen to be wrong before the rules are applied.
    fn check<R: Sequenced>(&self, page: &Page<R>) -> Result<(), Contradiction> {
        let Page {
            boundary,
            probe,
            forward,
        } = page;
        if *boundary < self.boundary {
            return Err(Contradiction::BoundaryWentBack {
                previous: self.boundary,
                boundary: *boundary,
            });
        }
        self.check_scan(Scan::Probe, probe)?;
        self.check_scan(Scan::Forward, forward)?;
        match forward.first().map(Sequenced::sequence_id) {
            Some(id) if id <= self.cursor => Err(Contradiction::NotAboveCursor {
                id,
                cursor: self.cursor,
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Refuses a scan that is too long or does not ascend.
    fn check_scan<R: Sequenced>(&self, scan: Scan, rows: &[R]) -> Result<(), Contradiction> {
        let limit = usize::from(self.limits.page_rows.get());
        if rows.len() > limit {
            return Err(Contradiction::TooManyRows {
                scan,
                rows: rows.len(),
                limit,
            });
        }
        for pair in rows.windows(2) {
            let (previous, id) = (pair[0].sequence_id(), pair[1].sequence_id());
            if id <= previous {
                return Err(Contradiction::OutOfOrder { scan, previous, id });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
