//! Every history of a few transactions: all orders of all steps, not a sample.
//!
//! A step is one thing that others can notice: a lock asked for, an id allocated, a commit logged,
//! shown, its locks released, a rollback, a boundary run that gives up, one replayed commit, one
//! page. Histories that meet in the same state go on together, which keeps the search small; the
//! number of histories is counted all the same.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use gapless::{Id, Next, Page, Start};

use crate::auditor::{Auditor, Violation};
use crate::builds::{Build, Reading};
use crate::database::{Database, Row, Server, Step, Topic, Tx};
use crate::story::limits;
use crate::tail::Tail;

/// Three publishes and one boundary run.
#[derive(Debug)]
pub(crate) struct Case {
    server: Server,
    page_rows: u16,
    /// The topics of each publish, a letter for each row.
    publishes: [&'static str; 3],
}

/// The cases: one row each, topics crosswise, a publish of two rows on one topic; both servers;
/// pages of one and of two rows.
pub(crate) const CASES: [Case; 10] = [
    case(Server::Primary, 1, ["A", "A", "B"]),
    case(Server::Primary, 2, ["A", "A", "B"]),
    case(Server::Primary, 1, ["AB", "A", "B"]),
    case(Server::Primary, 2, ["AB", "A", "B"]),
    case(Server::Primary, 1, ["AA", "B", "A"]),
    case(Server::Primary, 2, ["AA", "B", "A"]),
    case(Server::Standby, 1, ["A", "A", "B"]),
    case(Server::Standby, 2, ["A", "A", "B"]),
    case(Server::Standby, 1, ["AA", "B", "A"]),
    case(Server::Standby, 2, ["AA", "B", "A"]),
];

const fn case(server: Server, page_rows: u16, publishes: [&'static str; 3]) -> Case {
    Case {
        server,
        page_rows,
        publishes,
    }
}

/// What a search went through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) states: usize,
    pub(crate) histories: u128,
}

/// Everything that decides what can happen next.
#[derive(Clone, Hash)]
struct Node {
    database: Database,
    reader: Rc<(Tail, Auditor)>,
    /// A page whose first snapshot has been taken, in builds that take two.
    half: Option<(Id, Vec<Row>, Vec<Row>)>,
}

struct Search<'a> {
    build: &'a Build,
    server: Server,
    publishes: Vec<Tx>,
    boundary: Tx,
    /// Histories from a state to the end, by the state's fingerprint. With under 2^22 states, two
    /// of them share 64 bits once in some million searches.
    seen: HashMap<u64, u128>,
}

/// Goes through all histories of `case`.
pub(crate) fn search(build: &Build, case: &Case) -> Result<Extent, Violation> {
    let mut database = Database::new(build.flaw);
    let publishes = case.publishes.map(|topics| {
        let topics: Vec<Topic> = topics.chars().collect();
        database.begin_publish(&topics)
    });
    let boundary = database.begin_boundary();
    let limits = limits(case.page_rows, 100);
    let state = Start::after(0).observe(Some(0), limits).unwrap();
    let auditor = Auditor::new(0, database.snapshot(case.server));
    let tail = Tail::new(state, limits, build.fault);
    let mut search = Search {
        build,
        server: case.server,
        publishes: publishes.to_vec(),
        boundary,
        seen: HashMap::new(),
    };
    let reader = Rc::new((tail, auditor));
    let histories = search.histories(&Node {
        database,
        reader,
        half: None,
    })?;
    Ok(Extent {
        states: search.seen.len(),
        histories,
    })
}

impl Search<'_> {
    /// Number of histories from `node` on.
    fn histories(&mut self, node: &Node) -> Result<u128, Violation> {
        let mut hasher = DefaultHasher::new();
        node.hash(&mut hasher);
        let key = hasher.finish();
        if let Some(histories) = self.seen.get(&key) {
            return Ok(*histories);
        }
        let mut histories: u128 = 0;
        for next in self.writes(node).into_iter().chain(self.reads(node)?) {
            histories = histories.saturating_add(self.histories(&next)?);
        }
        if histories == 0 {
            self.come_to_rest(node.clone())?;
            histories = 1;
        }
        self.seen.insert(key, histories);
        Ok(histories)
    }

    /// All that a writer, the boundary run or the standby can do next.
    fn writes(&self, node: &Node) -> Vec<Node> {
        let mut nexts = Vec::new();
        let mut add = |database| {
            let (reader, half) = (Rc::clone(&node.reader), node.half.clone());
            nexts.push(Node {
                database,
                reader,
                half,
            });
        };
        for &tx in self.publishes.iter().chain([&self.boundary]) {
            let is_boundary = tx == self.boundary;
            let mut database = node.database.clone();
            match database.advance(tx) {
                Step::Moved => add(database),
                // A blocked publish may only wait here; the boundary run may also give up.
                Step::Blocked if is_boundary => {
                    database.rollback(tx);
                    add(database);
                }
                Step::Ready => {
                    if !is_boundary {
                        let mut rolled_back = database.clone();
                        rolled_back.rollback(tx);
                        add(rolled_back);
                    }
                    database.commit(tx);
                    add(database);
                }
                Step::Blocked | Step::Ended => {}
            }
        }
        let mut database = node.database.clone();
        if self.server == Server::Standby && database.replay() {
            add(database);
        }
        nexts
    }

    /// The next page, or half of it, unless it would change nothing.
    fn reads(&self, node: &Node) -> Result<Option<Node>, Violation> {
        let mut next = node.clone();
        let query = node.reader.0.query();
        let snapshot = node.database.snapshot(self.server);
        let is_split = self.build.reading != Reading::OneSnapshot;
        let mut page = match next.half.take() {
            Some((boundary, probe, forward)) => Page {
                boundary,
                probe,
                forward,
            },
            None => Page {
                boundary: snapshot.boundary(),
                probe: query.probe(snapshot),
                forward: query.forward(snapshot),
            },
        };
        if is_split && node.half.is_none() {
            next.half = Some((page.boundary, page.probe, page.forward));
            return Ok(Some(next));
        }
        self.build
            .reading
            .reread(&mut page, &query, &node.database, self.server);
        self.take(&mut next, page)?;
        let is_idle = next.reader == node.reader;
        Ok((!is_idle).then_some(next))
    }

    fn take(&self, node: &mut Node, page: Page<Row>) -> Result<Next, Violation> {
        let Node {
            database, reader, ..
        } = node;
        let (tail, auditor) = Rc::make_mut(reader);
        let outcome = tail
            .apply(page, database.sequence())
            .map_err(Violation::Refused)?;
        auditor.page(&outcome.deliver, tail, database)?;
        Ok(outcome.next)
    }

    /// The writers have ended: one more boundary run, and pages until nothing is left to read.
    fn come_to_rest(&self, mut node: Node) -> Result<(), Violation> {
        let tx = node.database.begin_boundary();
        while node.database.advance(tx) == Step::Moved {}
        node.database.commit(tx);
        while node.database.advance(tx) == Step::Moved {}
        while node.database.replay() {}
        loop {
            let query = node.reader.0.query();
            let snapshot = node.database.snapshot(self.server);
            let page = Page {
                boundary: snapshot.boundary(),
                probe: query.probe(snapshot),
                forward: query.forward(snapshot),
            };
            if self.take(&mut node, page)? == Next::Wait {
                let (tail, auditor) = &*node.reader;
                return auditor.end(tail, &node.database);
            }
        }
    }
}

/// Goal: no order of the steps of three publishes, one boundary run, a standby and a reader loses,
/// repeats or reorders a row (ARC-037, ARC-038, ARC-112).
/// Method: every order, every choice of commit or rollback; the extent of the search is printed.
#[test]
fn every_small_history_delivers_every_row_once_and_in_order() {
    for case in &CASES {
        let extent = search(&Build::SOUND, case).unwrap_or_else(|v| panic!("{case:?}: {v:?}"));
        println!("{case:?}: {extent:?}");
        assert!(
            extent.states > 1_000 && extent.histories > 1_000_000,
            "{extent:?}"
        );
    }
}
