//! The missing ids, as ascending disjoint ranges.
//!
//! Never one entry per id: a sequence that jumps by ten thousand million is one range (ARC-042).
//! First and last ids are kept apart, as they are sent.

use std::ops::RangeInclusive;

use crate::{Id, Sequenced};

/// Ascending disjoint ranges of ids, none of them empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ranges {
    lows: Vec<Id>,
    highs: Vec<Id>,
}

impl Ranges {
    /// First ids, ascending.
    pub(crate) fn lows(&self) -> &[Id] {
        &self.lows
    }

    /// Last ids, in the order of [`Self::lows`].
    pub(crate) fn highs(&self) -> &[Id] {
        &self.highs
    }

    /// Number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.lows.len()
    }

    /// The ranges, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RangeInclusive<Id>> + '_ {
        self.lows
            .iter()
            .zip(&self.highs)
            .map(|(low, high)| *low..=*high)
    }

    /// Adds `low..=high`, which is not empty and lies above every other range.
    pub(crate) fn push(&mut self, low: Id, high: Id) {
        debug_assert!(low <= high && self.highs.last().is_none_or(|last| *last < low));
        self.lows.push(low);
        self.highs.push(high);
    }

    /// The greatest id in any range that is not above `ceiling`.
    pub(crate) fn greatest_through(&self, ceiling: Id) -> Option<Id> {
        let below = self.lows.partition_point(|low| *low <= ceiling);
        self.highs[..below].last().map(|high| ceiling.min(*high))
    }

    /// What is left without the ids of `found`, which ascend, and without ids up to `closed`.
    ///
    /// # Errors
    ///
    /// The first id of `found` that lies in no range.
    pub(crate) fn without<R: Sequenced>(&self, found: &[R], closed: Id) -> Result<Self, Id> {
        // Every found row splits at most one range.
        let most = self.len().saturating_add(found.len());
        let mut left = Self {
            lows: Vec::with_capacity(most),
            highs: Vec::with_capacity(most),
        };
        let mut found = found.iter().map(Sequenced::sequence_id).peekable();
        for (&low, &high) in self.lows.iter().zip(&self.highs) {
            let mut rest = Some(low);
            while let Some(from) = rest
                && let Some(id) = found.next_if(|id| *id <= high)
            {
                if id < from {
                    return Err(id);
                }
                if from < id {
                    left.push_above(closed, from, id - 1);
                }
                rest = (id < high).then(|| id + 1);
            }
            if let Some(from) = rest {
                left.push_above(closed, from, high);
            }
        }
        match found.next() {
            Some(id) => Err(id),
            None => Ok(left),
        }
    }

    /// Adds the part of `low..=high` above `closed`, if any.
    fn push_above(&mut self, closed: Id, low: Id, high: Id) {
        if closed < high {
            self.push(low.max(closed + 1), high);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(pairs: &[(Id, Id)]) -> Ranges {
        let mut ranges = Ranges::default();
        for &(low, high) in pairs {
            ranges.push(low, high);
        }
        ranges
    }

    /// Goal: found ids and the closed part leave their ranges at every edge (ARC-038).
    /// Method: one table; ranges, found ids, closed boundary, what must be left.
    #[test]
    fn found_and_closed_ids_leave_and_nothing_else_does() {
        type Pairs = &'static [(Id, Id)];
        let cases: &[(Pairs, &[Id], Id, Pairs)] = &[
            (&[], &[], 9, &[]),
            (&[(3, 5)], &[], 0, &[(3, 5)]),
            (&[(3, 5)], &[], 2, &[(3, 5)]),
            (&[(3, 5)], &[], 3, &[(4, 5)]),
            (&[(3, 5)], &[], 4, &[(5, 5)]),
            (&[(3, 5)], &[], 5, &[]),
            (&[(3, 5)], &[3], 0, &[(4, 5)]),
            (&[(3, 5)], &[4], 0, &[(3, 3), (5, 5)]),
            (&[(3, 5)], &[5], 0, &[(3, 4)]),
            (&[(3, 5)], &[3, 4, 5], 0, &[]),
            (&[(3, 5)], &[4], 3, &[(5, 5)]),
            (&[(3, 5)], &[4], 4, &[(5, 5)]),
            (&[(3, 5), (7, 7)], &[4, 7], 0, &[(3, 3), (5, 5)]),
            (&[(3, 5), (7, 9)], &[5, 7], 6, &[(8, 9)]),
            (&[(3, 5), (7, 9)], &[], 6, &[(7, 9)]),
            (
                &[(1, 10_000_000_000)],
                &[5_000_000_000],
                4,
                &[(5, 4_999_999_999), (5_000_000_001, 10_000_000_000)],
            ),
            (
                &[(Id::MAX - 1, Id::MAX)],
                &[Id::MAX],
                Id::MAX - 2,
                &[(Id::MAX - 1, Id::MAX - 1)],
            ),
            (&[(Id::MAX, Id::MAX)], &[], Id::MAX, &[]),
            (&[(Id::MIN, Id::MIN)], &[Id::MIN], Id::MIN, &[]),
        ];
        for (before, found, closed, after) in cases {
            assert_eq!(
                ranges(before).without(found, *closed),
                Ok(ranges(after)),
                "{before:?} without {found:?}, closed to {closed}"
            );
        }
    }

    /// Goal: a row that was never missing is named, whichever side of a range it lies on (ARC-037).
    #[test]
    fn found_id_outside_of_every_range_is_refused() {
        for id in [0, 2, 6, 7, 9, Id::MAX] {
            assert_eq!(ranges(&[(3, 5), (8, 8)]).without(&[id], 0), Err(id));
        }
        assert_eq!(ranges(&[]).without(&[1], 0), Err(1));
        assert_eq!(
            ranges(&[(3, 5)]).without(&[5, 5], 0),
            Err(5),
            "the same row twice"
        );
        assert_eq!(
            ranges(&[(3, 5)]).without(&[4, 4], 0),
            Err(4),
            "the same row twice"
        );
    }

    /// Goal: the greatest id under a ceiling is found at, below, inside and above each range.
    #[test]
    fn greatest_id_under_a_ceiling_respects_range_edges() {
        let missing = ranges(&[(3, 5), (8, 8)]);
        let cases = [
            (2, None),
            (3, Some(3)),
            (4, Some(4)),
            (5, Some(5)),
            (7, Some(5)),
            (8, Some(8)),
            (Id::MAX, Some(8)),
        ];
        for (ceiling, greatest) in cases {
            assert_eq!(
                missing.greatest_through(ceiling),
                greatest,
                "ceiling {ceiling}"
            );
        }
    }
}
