//! Judges what a reader delivers, from the log alone.
//!
//! Knows every commit, visible or not, and checks after each page that no committed row that the
//! cursor has passed is forgotten, that none comes twice, and that each topic comes in order. So a
//! wrong page is found at once and named, not at the end of the run.

use std::collections::BTreeSet;

use gapless::{Error, Id};

use crate::database::{Database, Row, Snapshot};
use crate::tail::Tail;

/// Why a build is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// A row was delivered that is not in the log, or that is history.
    Unexpected(Row),
    /// A row was delivered twice.
    Repeated(Row),
    /// A row was delivered before an earlier row of its topic.
    Overtaken { row: Row, earlier: Row },
    /// A committed row is neither delivered nor missing, and the cursor has passed it.
    Lost(Row),
    /// A row at or below the start was not visible at the start.
    MissingFromHistory(Row),
    /// A committed row is still not delivered after everything has come to rest.
    Undelivered(Row),
    /// Missing ranges are left after everything has come to rest.
    Unresolved(Vec<(Id, Id)>),
    /// A reader did not get to start.
    NeverStarted,
    /// The reader refused a page.
    Refused(Error),
}

/// The record of one generation of one reader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Auditor {
    start: Id,
    history: Vec<Row>,
    delivered: BTreeSet<Row>,
}

impl Auditor {
    /// Begins with a reader that starts at `start`, where `snapshot` shows its history.
    pub(crate) fn new(start: Id, snapshot: Snapshot<'_>) -> Self {
        let history = snapshot.rows(|id| id <= start, usize::MAX);
        Self {
            start,
            history,
            delivered: BTreeSet::new(),
        }
    }

    /// Number of rows delivered so far.
    pub(crate) fn delivered(&self) -> usize {
        self.delivered.len()
    }

    /// Records one page's deliveries, and looks at what the reader has left behind.
    pub(crate) fn page(
        &mut self,
        rows: &[Row],
        tail: &Tail,
        database: &Database,
    ) -> Result<(), Violation> {
        for &row in rows {
            self.deliver(row, database)?;
        }
        let (cursor, missing) = (tail.cursor(), tail.missing());
        let is_missing = |id| {
            missing
                .iter()
                .any(|(low, high)| (*low..=*high).contains(&id))
        };
        let mut passed = self.expected(database).filter(|row| row.id <= cursor);
        match passed.find(|row| !self.delivered.contains(row) && !is_missing(row.id)) {
            Some(row) => Err(Violation::Lost(row)),
            None => Ok(()),
        }
    }

    fn deliver(&mut self, row: Row, database: &Database) -> Result<(), Violation> {
        if !self.expected(database).any(|expected| expected == row) {
            return Err(Violation::Unexpected(row));
        }
        // Within a topic, ids are in commit order: what is earlier is in the log already.
        let is_skipped =
            |e: &Row| e.topic == row.topic && e.id < row.id && !self.delivered.contains(e);
        if let Some(earlier) = self.expected(database).find(is_skipped) {
            return Err(Violation::Overtaken { row, earlier });
        }
        if let Some(&later) = self
            .delivered
            .iter()
            .find(|d| d.topic == row.topic && d.id > row.id)
        {
            return Err(Violation::Overtaken {
                row: later,
                earlier: row,
            });
        }
        if self.delivered.insert(row) {
            Ok(())
        } else {
            Err(Violation::Repeated(row))
        }
    }

    /// The last judgement, when writers, standby and boundary have come to rest.
    pub(crate) fn end(&self, tail: &Tail, database: &Database) -> Result<(), Violation> {
        if let Some(row) = self
            .expected(database)
            .find(|row| !self.delivered.contains(row))
        {
            return Err(Violation::Undelivered(row));
        }
        let missing = tail.missing();
        if missing.is_empty() {
            self.end_early(database)
        } else {
            Err(Violation::Unresolved(missing))
        }
    }

    /// What can be said of a reader that ends while others go on: its history was complete.
    pub(crate) fn end_early(&self, database: &Database) -> Result<(), Violation> {
        let mut history = database.committed().filter(|row| row.id <= self.start);
        match history.find(|row| !self.history.contains(row)) {
            Some(row) => Err(Violation::MissingFromHistory(row)),
            None => Ok(()),
        }
    }

    fn expected<'a>(&'a self, database: &'a Database) -> impl Iterator<Item = Row> + 'a {
        database.committed().filter(|row| row.id > self.start)
    }
}
