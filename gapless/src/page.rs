//! What is asked of the database, what it answers, and what follows from the answer.
//!
//! Data only: the rules stand beside [`State`](crate::State). Answers ARC-037 (one page is one
//! snapshot).

use std::num::NonZeroU16;

use crate::Id;

/// A row that has an id from the sequence. Whatever else it carries is the caller's.
pub trait Sequenced {
    /// The id that the sequence gave this row.
    fn sequence_id(&self) -> Id;
}

impl Sequenced for Id {
    fn sequence_id(&self) -> Id {
        *self
    }
}

impl<T> Sequenced for (Id, T) {
    fn sequence_id(&self) -> Id {
        self.0
    }
}

/// What the next page has to contain. Borrowed from the state; making one costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan<'a> {
    /// First ids of the missing ranges, ascending.
    pub lows: &'a [Id],
    /// Last ids of the missing ranges, inclusive: `highs[i]` belongs to `lows[i]`.
    pub highs: &'a [Id],
    /// The cursor: the forward scan takes rows with a greater id.
    pub after: Id,
    /// Most rows of the whole probe, and of the forward scan; each takes the lowest ids first.
    pub limit: NonZeroU16,
}

/// The answer to one [`Plan`]: one snapshot of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<R> {
    /// The closed boundary that this snapshot shows.
    pub boundary: Id,
    /// Rows inside the missing ranges, by ascending id. As many rows as the limit count as a cut.
    pub probe: Vec<R>,
    /// Rows above the cursor, by ascending id. As many rows as the limit count as a cut.
    pub forward: Vec<R>,
}

/// What follows from a page.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "rows that are not delivered are lost"]
pub struct Outcome<R> {
    /// Rows to deliver, in this order. They count as delivered from here on: a caller that cannot
    /// deliver one of them must give up the state and [start](crate::Start) again.
    pub deliver: Vec<R>,
    /// When to read the next page.
    pub next: Next,
    /// The greatest missing id that lies above the boundary and that a probe has looked for since
    /// the page that found it missing. A boundary at or above it is worth asking for (ARC-040).
    ///
    /// A hole that this very page found is left out: nearly always it is a writer on the point of
    /// committing, which the next probe finds, whereas a boundary run makes every writer wait.
    pub want_boundary: Option<Id>,
}

/// When to read the next page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// At once: the page was cut, more rows are known to wait or likely to.
    Again,
    /// After the poll interval: this poll is over.
    Wait,
}
