//! Random histories of publishers, boundary runs and replay, read page by page: every committed row
//! is delivered once, in the order of its topic, and no gap is left (ARC-038 to ARC-042, ARC-112).
//!
//! A run does one thing after the other, so its seed repeats it. `XMTP_TEST_SEED` does.

use std::collections::BTreeSet;

use harness::{Replicated, TestDatabase, eventually};
use xmtp_backend::db::{Advance, Database};

use crate::random::{Random, seeds};
use crate::tailing::{
    CarelessPublish, OpenPublish, Publishers, Reader, Row, Violation, audit, close, open_storage,
};

/// Rows of a page: fewer than there may be gaps, so that pages are cut.
const PAGE_ROWS: u16 = 7;

/// Topics of a run; a publish takes one or two of them that no other publish holds.
const LETTERS: [char; 8] = ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H'];

/// Publishes that are open at the same time, at most.
const OPEN: usize = 5;

/// One run.
struct History<'r> {
    random: Random,
    replicated: Option<&'r Replicated>,
    is_paused: bool,
    storage: Database,
    publishers: Publishers,
    open: Vec<OpenPublish>,
    reader: Reader,
    committed: Vec<Row>,
}

impl<'r> History<'r> {
    async fn new(
        seed: u64,
        database: &TestDatabase,
        storage: Database,
        replicated: Option<&'r Replicated>,
    ) -> Self {
        Self {
            random: Random::new(seed),
            replicated,
            is_paused: false,
            publishers: Publishers::of(database),
            open: Vec::new(),
            reader: Reader::start(&storage, PAGE_ROWS).await,
            committed: Vec::new(),
            storage,
        }
    }

    async fn step(&mut self) {
        match self.random.below(10) {
            0..=2 if self.open.len() < OPEN => self.begin().await,
            0..=4 => self.end().await,
            5 => self.run_boundary().await,
            6 => self.pause_or_resume().await,
            _ => drop(self.reader.poll().await),
        }
    }

    async fn begin(&mut self) {
        let held = self.open.iter().flat_map(OpenPublish::rows);
        let held: BTreeSet<char> = held.map(|row| row.topic).collect();
        let mut free: Vec<char> = LETTERS.to_vec();
        free.retain(|letter| !held.contains(letter));
        if free.is_empty() {
            return;
        }
        let rows = 1 + self.random.below(3);
        let letters = [*self.random.choose(&free), *self.random.choose(&free)];
        let letters: String = (0..rows).map(|_| *self.random.choose(&letters)).collect();
        self.open.push(self.publishers.open(&letters).await);
    }

    async fn end(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let index = self.random.below(self.open.len() as u64);
        let publish = self.open.swap_remove(usize::try_from(index).unwrap());
        if self.random.once_in(4) {
            publish.roll_back().await;
        } else {
            self.committed.extend(publish.commit().await);
        }
    }

    /// Succeeds exactly when no publish is open, which is seen to now and then.
    async fn run_boundary(&mut self) {
        while self.random.once_in(2) && !self.open.is_empty() {
            self.end().await;
        }
        let advance = self.storage.advance_boundary().await.unwrap();
        assert_eq!(
            matches!(advance, Advance::Closed(_)),
            self.open.is_empty(),
            "{advance:?} with {} open publishes",
            self.open.len()
        );
    }

    async fn pause_or_resume(&mut self) {
        if let Some(replicated) = self.replicated {
            if self.is_paused {
                replicated.resume_replay().await;
            } else {
                replicated.pause_replay().await;
            }
            self.is_paused = !self.is_paused;
        }
    }

    /// Ends everything that is open, and reads what is left.
    async fn finish(mut self) -> Vec<Row> {
        while !self.open.is_empty() {
            self.end().await;
        }
        close(&self.storage).await;
        if let Some(replicated) = self.replicated {
            if self.is_paused {
                replicated.resume_replay().await;
            }
            replicated.catch_up().await;
        }
        self.reader.poll().await;
        assert_eq!(self.reader.missing(), [], "gaps are left");
        assert_eq!(audit(&self.committed, &self.reader.delivered), Ok(()));
        self.committed
    }
}

/// Random histories on a primary.
#[tokio::test]
async fn random_histories_on_a_primary_are_delivered() {
    for seed in seeds(4) {
        let database = TestDatabase::create().await;
        let storage = open_storage(&database, |_| {});
        let mut history = History::new(seed, &database, storage, None).await;
        for _ in 0..400 {
            history.step().await;
        }
        let committed = history.finish().await;
        assert!(committed.len() > 50, "only {} rows", committed.len());
        database.drop().await;
    }
}

/// Random histories read on a standby whose replay is paused and resumed meanwhile.
#[tokio::test]
async fn random_histories_on_a_standby_are_delivered() {
    let replicated = Replicated::start().await;
    for seed in seeds(2) {
        let database = replicated.create_bare().await;
        Database::migrate(&database.options()).await.unwrap();
        replicated.catch_up().await;
        let standby = replicated.standby_url(&database).parse().unwrap();
        let storage = open_storage(&database, |settings| settings.replica = Some(standby));
        let mut history = History::new(seed, &database, storage, Some(&replicated)).await;
        for _ in 0..400 {
            history.step().await;
        }
        let committed = history.finish().await;
        assert!(committed.len() > 50, "only {} rows", committed.len());
    }
}

/// A publisher that does not take the barrier loses rows: the boundary closes over its id while it
/// is still open. The audit of these histories sees that.
#[tokio::test]
async fn publisher_without_the_barrier_is_caught() {
    for seed in 1..=3 {
        let database = TestDatabase::create().await;
        let storage = open_storage(&database, |_| {});
        let mut history = History::new(seed, &database, storage, None).await;
        // Topics of their own, as a sound publish would wait for theirs.
        let mut careless = ('P'..='Z').cycle();
        let mut open: Vec<CarelessPublish> = Vec::new();
        for step in 0..400 {
            history.step().await;
            // Each stays open for some time.
            if step % 20 == 0 {
                let letter = careless.next().unwrap();
                open.push(CarelessPublish::open(&database, letter).await);
            }
            if open.len() > 4 {
                let publish = open.remove(0);
                history.committed.push(publish.row());
                publish.commit().await;
            }
        }
        let lost = verdict(history).await;
        assert!(matches!(lost, Err(Violation::Lost(_))), "{lost:?}");
        drop(open);
        database.drop().await;
    }
}

/// What the audit says once the reader has read all that it will ever read.
async fn verdict(mut history: History<'_>) -> Result<(), Violation> {
    while !history.open.is_empty() {
        history.end().await;
    }
    close(&history.storage).await;
    eventually("the reader has no gap", async || {
        history.reader.poll().await;
        history.reader.missing().is_empty()
    })
    .await;
    audit(&history.committed, &history.reader.delivered)
}
