//! Where a reader may begin.
//!
//! Only a boundary that the server it reads from shows is a start: no time, no greatest row id, and
//! not the boundary of another server (ARC-041).

use crate::{Id, Limits, State};

/// Waits until the server that is read from shows a boundary that was closed elsewhere.
///
/// The boundary task closes the log up to `B`. Once a snapshot of the chosen server shows a boundary
/// `b >= B`, that snapshot shows every row up to `b` that will ever exist: rows up to `b` are
/// history, and the reader takes all rows above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Start {
    required: Id,
}

impl Start {
    /// A start not before `required`, the boundary `B` that a run of this instance closed.
    #[must_use]
    pub const fn after(required: Id) -> Self {
        Self { required }
    }

    /// The boundary that the server has to show, at least.
    #[must_use]
    pub const fn required(self) -> Id {
        self.required
    }

    /// The state to begin with, or `None` while the server does not show the boundary yet.
    ///
    /// `visible` is the boundary it shows, `None` if the row or its table is not there yet.
    #[must_use]
    pub fn observe(self, visible: Option<Id>, limits: Limits) -> Option<State> {
        visible
            .filter(|boundary| *boundary >= self.required)
            .map(|boundary| State::starting_at(boundary, limits))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    /// Goal: a server that lags does not start a reader; one that is ahead starts it where *it* is,
    /// since rows up to there are visible as history (ARC-041).
    #[test]
    fn start_waits_for_the_required_boundary_and_takes_the_visible_one() {
        let limits = Limits {
            page_rows: NonZeroU16::MIN,
            ranges_max: 1,
        };
        let cases = [
            (3, None, None),
            (3, Some(0), None),
            (3, Some(2), None),
            (3, Some(3), Some(3)),
            (3, Some(4), Some(4)),
            (0, None, None),
            (0, Some(0), Some(0)),
        ];
        for (required, visible, cursor) in cases {
            let state = Start::after(required).observe(visible, limits);
            assert_eq!(
                state.as_ref().map(State::cursor),
                cursor,
                "{required} {visible:?}"
            );
            assert_eq!(
                state.as_ref().map(State::boundary),
                cursor,
                "{required} {visible:?}"
            );
            assert!(state.is_none_or(|state| state.missing().next().is_none()));
        }
    }
}
