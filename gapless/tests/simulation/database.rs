//! The parts of PostgreSQL that decide what a reader can see.
//!
//! One sequence that ignores transactions; first come, first served locks, shared and exclusive;
//! commits that are first in the log, then visible, and only then release their locks; a standby
//! that replays the log in order, as far as it likes. A snapshot is a prefix of the commits of a
//! server. Writers follow ARC-030, ARC-031 and ARC-039, unless the model is given a [`Flaw`].

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use gapless::{Id, Sequenced};

/// A topic, named by a letter.
pub(crate) type Topic = char;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Row {
    pub(crate) topic: Topic,
    pub(crate) id: Id,
}

impl Sequenced for Row {
    fn sequence_id(&self) -> Id {
        self.id
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.topic, self.id)
    }
}

/// A fault of the writers, for the builds that must be caught.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Flaw {
    /// Publishers allocate without the shared barrier.
    NoBarrier,
    /// Publishers allocate without the locks of their topics.
    NoTopicLock,
    /// The boundary run lets the barrier go before it reads the sequence.
    BarrierReleasedEarly,
}

/// The server that a reader has chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Server {
    Primary,
    Standby,
}

/// A transaction, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tx(usize);

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Moved,
    /// It waits for a lock.
    Blocked,
    /// It has done its work and waits for `commit` or `rollback`.
    Ready,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Lock {
    Topic(Topic),
    Barrier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mode {
    Shared,
    Exclusive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// So many locks asked for, the last one perhaps not granted.
    Locking(usize),
    Working,
    Ready,
    /// In the log, invisible on the primary, locks held.
    Logged,
    /// Visible, locks held.
    Shown,
    Ended,
}

/// What a transaction sets out to do; it never changes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Intent {
    /// Topics of the rows of a publish; `None` is a boundary run.
    topics: Option<Vec<Topic>>,
    locks: Vec<(Lock, Mode)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Transaction {
    intent: Rc<Intent>,
    stage: Stage,
    /// Ids it has been given.
    rows: Vec<Row>,
    /// The boundary it has read.
    boundary: Option<Id>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Database {
    flaw: Option<Flaw>,
    sequence: Id,
    transactions: Vec<Transaction>,
    queues: BTreeMap<Lock, Vec<(usize, Mode)>>,
    /// Transactions in the order in which their commits entered the log.
    log: Vec<usize>,
    /// Transactions in the order in which they became visible on the primary.
    shown: Vec<usize>,
    /// So many commits of the log are visible on the standby.
    replayed: usize,
}

impl Database {
    pub(crate) fn new(flaw: Option<Flaw>) -> Self {
        Self {
            flaw,
            sequence: 0,
            transactions: Vec::new(),
            queues: BTreeMap::new(),
            log: Vec::new(),
            shown: Vec::new(),
            replayed: 0,
        }
    }

    /// A publish of one row for each of `topics`, in that order.
    pub(crate) fn begin_publish(&mut self, topics: &[Topic]) -> Tx {
        let mut keys = topics.to_vec();
        keys.sort_unstable();
        keys.dedup();
        let mut locks = Vec::new();
        if self.flaw != Some(Flaw::NoTopicLock) {
            locks.extend(
                keys.into_iter()
                    .map(|topic| (Lock::Topic(topic), Mode::Exclusive)),
            );
        }
        if self.flaw != Some(Flaw::NoBarrier) {
            locks.push((Lock::Barrier, Mode::Shared));
        }
        self.begin(Some(topics.to_vec()), locks)
    }

    /// A boundary run.
    pub(crate) fn begin_boundary(&mut self) -> Tx {
        self.begin(None, vec![(Lock::Barrier, Mode::Exclusive)])
    }

    fn begin(&mut self, topics: Option<Vec<Topic>>, locks: Vec<(Lock, Mode)>) -> Tx {
        let stage = Stage::Locking(0);
        let intent = Rc::new(Intent { topics, locks });
        self.transactions.push(Transaction {
            intent,
            stage,
            rows: Vec::new(),
            boundary: None,
        });
        Tx(self.transactions.len() - 1)
    }

    /// Lets a transaction do the next thing that others can notice.
    pub(crate) fn advance(&mut self, tx: Tx) -> Step {
        let transaction = &self.transactions[tx.0];
        match transaction.stage {
            Stage::Locking(asked) => {
                let intent = Rc::clone(&transaction.intent);
                if asked > 0 && !self.granted(tx, intent.locks[asked - 1].0) {
                    return Step::Blocked;
                }
                if let Some(&(lock, mode)) = intent.locks.get(asked) {
                    self.queues.entry(lock).or_default().push((tx.0, mode));
                    self.transactions[tx.0].stage = Stage::Locking(asked + 1);
                } else {
                    self.transactions[tx.0].stage = Stage::Working;
                    let is_run = intent.topics.is_none();
                    if is_run && self.flaw == Some(Flaw::BarrierReleasedEarly) {
                        self.release(tx);
                    } else {
                        self.work(tx);
                    }
                }
                Step::Moved
            }
            Stage::Working => {
                self.work(tx);
                Step::Moved
            }
            Stage::Ready => Step::Ready,
            Stage::Logged => {
                self.shown.push(tx.0);
                self.transactions[tx.0].stage = Stage::Shown;
                Step::Moved
            }
            Stage::Shown => {
                self.release(tx);
                self.transactions[tx.0].stage = Stage::Ended;
                Step::Moved
            }
            Stage::Ended => Step::Ended,
        }
    }

    /// One `nextval`, or the boundary run's look at the sequence.
    fn work(&mut self, tx: Tx) {
        let transaction = &mut self.transactions[tx.0];
        let Some(topics) = &transaction.intent.topics else {
            transaction.boundary = Some(self.sequence);
            transaction.stage = Stage::Ready;
            return;
        };
        let rows = &mut transaction.rows;
        self.sequence += 1;
        rows.push(Row {
            topic: topics[rows.len()],
            id: self.sequence,
        });
        if rows.len() == topics.len() {
            transaction.stage = Stage::Ready;
        }
    }

    /// Writes a ready transaction to the log; two more steps make it visible and free its locks.
    pub(crate) fn commit(&mut self, tx: Tx) {
        assert_eq!(self.transactions[tx.0].stage, Stage::Ready);
        self.log.push(tx.0);
        self.transactions[tx.0].stage = Stage::Logged;
    }

    /// Ends a transaction that is not in the log: a rollback, a timeout, a killed session.
    pub(crate) fn rollback(&mut self, tx: Tx) {
        assert!(!matches!(
            self.transactions[tx.0].stage,
            Stage::Logged | Stage::Shown
        ));
        self.release(tx);
        self.transactions[tx.0].stage = Stage::Ended;
    }

    /// Moves the sequence forward, as an operator may.
    pub(crate) fn move_sequence(&mut self, to: Id) {
        assert!(to >= self.sequence);
        self.sequence = to;
    }

    pub(crate) fn sequence(&self) -> Id {
        self.sequence
    }

    /// The ids a transaction has been given.
    pub(crate) fn rows(&self, tx: Tx) -> &[Row] {
        &self.transactions[tx.0].rows
    }

    /// The boundary that a boundary run has read.
    pub(crate) fn boundary(&self, tx: Tx) -> Option<Id> {
        self.transactions[tx.0].boundary
    }

    /// Lets the standby replay one more commit; false if there is none.
    pub(crate) fn replay(&mut self) -> bool {
        let more = self.replayed < self.log.len();
        self.replayed += usize::from(more);
        more
    }

    /// What a statement that starts now sees.
    pub(crate) fn snapshot(&self, server: Server) -> Snapshot<'_> {
        let order = match server {
            Server::Primary => &self.shown,
            Server::Standby => &self.log[..self.replayed],
        };
        Snapshot {
            transactions: &self.transactions,
            order,
        }
    }

    /// Every row that has committed, visible or not, in the order of the log.
    pub(crate) fn committed(&self) -> impl Iterator<Item = Row> + '_ {
        self.log
            .iter()
            .flat_map(|tx| self.transactions[*tx].rows.iter().copied())
    }

    /// A request is granted once it conflicts with nothing before it in the queue, so a waiting
    /// exclusive request holds back the shared ones behind it.
    fn granted(&self, tx: Tx, lock: Lock) -> bool {
        let queue = &self.queues[&lock];
        let place = queue
            .iter()
            .position(|(holder, _)| *holder == tx.0)
            .unwrap();
        match queue[place].1 {
            Mode::Exclusive => place == 0,
            Mode::Shared => queue[..place].iter().all(|(_, mode)| *mode == Mode::Shared),
        }
    }

    fn release(&mut self, tx: Tx) {
        for queue in self.queues.values_mut() {
            queue.retain(|(holder, _)| *holder != tx.0);
        }
    }
}

/// The commits that a statement sees.
#[derive(Clone, Copy)]
pub(crate) struct Snapshot<'a> {
    transactions: &'a [Transaction],
    order: &'a [usize],
}

impl Snapshot<'_> {
    /// The boundary row.
    pub(crate) fn boundary(self) -> Id {
        self.order
            .iter()
            .rev()
            .find_map(|tx| self.transactions[*tx].boundary)
            .unwrap_or(0)
    }

    /// The first `limit` rows, by id, whose id `wanted` accepts.
    pub(crate) fn rows(self, wanted: impl Fn(Id) -> bool, limit: usize) -> Vec<Row> {
        let rows = self
            .order
            .iter()
            .flat_map(|tx| &self.transactions[*tx].rows);
        let mut rows: Vec<Row> = rows.copied().filter(|row| wanted(row.id)).collect();
        rows.sort_unstable_by_key(|row| row.id);
        rows.truncate(limit);
        rows
    }
}
