//! A history told step by step: the words in which the scripted cases are written.
//!
//! `open` is a publish that holds its ids, `boundary` a boundary run with a lock timeout, `poll` a
//! reader's pages until it waits. Every page also passes the auditor.

use std::num::NonZeroU16;

use gapless::{Error, Id, Limits, Next, Outcome, Page, Start};

use crate::auditor::Auditor;
use crate::database::{Database, Row, Server, Step, Topic, Tx};
use crate::tail::Tail;

pub(crate) fn limits(page_rows: u16, ranges_max: usize) -> Limits {
    Limits {
        page_rows: NonZeroU16::new(page_rows).unwrap(),
        ranges_max,
    }
}

/// A database that follows a script.
pub(crate) struct Story {
    pub(crate) database: Database,
}

impl Story {
    pub(crate) fn new() -> Self {
        Self {
            database: Database::new(None),
        }
    }

    /// A publish of one row for each letter, up to where it waits: for a lock or for its end.
    pub(crate) fn open(&mut self, topics: &str) -> Tx {
        let topics: Vec<Topic> = topics.chars().collect();
        let tx = self.database.begin_publish(&topics);
        self.go_on(tx);
        tx
    }

    /// Lets a transaction go on as far as it can.
    pub(crate) fn go_on(&mut self, tx: Tx) -> Step {
        loop {
            let step = self.database.advance(tx);
            if step != Step::Moved {
                return step;
            }
        }
    }

    pub(crate) fn commit(&mut self, tx: Tx) {
        self.database.commit(tx);
        assert_eq!(self.go_on(tx), Step::Ended);
    }

    pub(crate) fn publish(&mut self, topics: &str) {
        let tx = self.open(topics);
        self.commit(tx);
    }

    /// A boundary run: the boundary it closed, or `None` if the barrier was not free.
    pub(crate) fn boundary(&mut self) -> Option<Id> {
        let tx = self.database.begin_boundary();
        if self.go_on(tx) == Step::Blocked {
            self.database.rollback(tx);
            return None;
        }
        self.commit(tx);
        Some(self.database.snapshot(Server::Primary).boundary())
    }

    /// Lets the standby replay all there is.
    pub(crate) fn replay(&mut self) {
        while self.database.replay() {}
    }

    /// The ids a transaction holds, as `A1 B2`.
    pub(crate) fn ids(&self, tx: Tx) -> String {
        words(self.database.rows(tx))
    }
}

/// A reader of a story.
pub(crate) struct Reader {
    server: Server,
    pub(crate) tail: Tail,
    pub(crate) auditor: Auditor,
    /// What the last page asked of the boundary task.
    pub(crate) wanted: Option<Id>,
}

impl Reader {
    /// A reader that starts once `server` shows the boundary `required`; `None` until then.
    pub(crate) fn start(
        story: &Story,
        server: Server,
        required: Id,
        limits: Limits,
    ) -> Option<Self> {
        let snapshot = story.database.snapshot(server);
        let state = Start::after(required).observe(Some(snapshot.boundary()), limits)?;
        let auditor = Auditor::new(state.boundary(), snapshot);
        Some(Self {
            server,
            tail: Tail::new(state, limits, None),
            auditor,
            wanted: None,
        })
    }

    /// A reader of the primary from the very beginning.
    pub(crate) fn of_primary(story: &Story, page_rows: u16) -> Self {
        Self::start(story, Server::Primary, 0, limits(page_rows, 100)).unwrap()
    }

    /// One page, read in one snapshot.
    pub(crate) fn page(&mut self, story: &Story) -> Result<Outcome<Row>, Error> {
        let query = self.tail.query();
        let snapshot = story.database.snapshot(self.server);
        let page = Page {
            boundary: snapshot.boundary(),
            probe: query.probe(snapshot),
            forward: query.forward(snapshot),
        };
        self.apply(story, page)
    }

    /// Takes a page that may have been put together in other ways.
    pub(crate) fn apply(&mut self, story: &Story, page: Page<Row>) -> Result<Outcome<Row>, Error> {
        let outcome = self.tail.apply(page, story.database.sequence())?;
        self.wanted = outcome.want_boundary;
        self.auditor
            .page(&outcome.deliver, &self.tail, &story.database)
            .unwrap();
        Ok(outcome)
    }

    /// One poll: the deliveries of its pages, as `A1 B2 / C3`.
    pub(crate) fn poll(&mut self, story: &Story) -> String {
        let mut pages = Vec::new();
        loop {
            let outcome = self.page(story).unwrap();
            pages.push(words(&outcome.deliver));
            if outcome.next == Next::Wait {
                return pages.join(" / ");
            }
        }
    }

    /// Asserts that the reader has nothing left to find.
    pub(crate) fn end(&self, story: &Story) {
        self.auditor.end(&self.tail, &story.database).unwrap();
    }
}

fn words(rows: &[Row]) -> String {
    rows.iter()
        .map(Row::to_string)
        .collect::<Vec<_>>()
        .join(" ")
}
