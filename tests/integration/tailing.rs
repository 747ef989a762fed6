//! Publishes that a test holds open, a reader that it drives page by page, and the rule that says
//! whether what was read is right (ARC-112).
//!
//! Topics are letters here, and a row is written as its topic and its id: `B2`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU16;

use envelope::wire::xmtp::backend::v1::ClientEnvelope;
use envelope::{Parsed, Topic};
use gapless::{Id, Limits, Next, Outcome, Page, Sequenced as _, Start, State};
use harness::TestDatabase;
use sqlx::PgConnection;
use xmtp_backend::db::{
    Advance, Database, LogPage, LogRow, PublishTransaction, ServerIdentity, Settings, Tail,
};

use crate::given::{group_topic, message};
use crate::storage::{open, parsed, record};

/// A row of the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) topic: char,
    pub(crate) id: Id,
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.topic, self.id)
    }
}

impl From<&LogRow> for Row {
    fn from(row: &LogRow) -> Self {
        let topic = ('A'..='Z').find(|letter| topic(*letter).as_bytes() == row.topic);
        Self {
            topic: topic.expect("a topic of a publisher"),
            id: row.sequence_id(),
        }
    }
}

/// The topic of a letter.
pub(crate) fn topic(letter: char) -> Topic {
    group_topic(u64::from(letter))
}

/// Rows as text: `A1 B2`.
pub(crate) fn text<'r>(rows: impl IntoIterator<Item = &'r Row>) -> String {
    let rows: Vec<String> = rows.into_iter().map(|row| format!("{row:?}")).collect();
    rows.join(" ")
}

/// Storage that gives up on a barrier soon, with connections for everything that a test holds open.
pub(crate) fn open_storage(
    database: &TestDatabase,
    change: impl FnOnce(&mut Settings),
) -> Database {
    let (storage, _) = open(database, |settings| {
        settings.max_connections = 12;
        settings.max_barrier_wait = std::time::Duration::from_millis(20);
        change(settings);
    });
    storage
}

/// Publishers, on one storage of their own.
pub(crate) struct Publishers {
    storage: Database,
    published: u64,
}

/// A publish that was given its ids and has not ended. Dropping it closes its connection.
pub(crate) struct OpenPublish {
    transaction: PublishTransaction,
    rows: Vec<Row>,
}

impl OpenPublish {
    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    pub(crate) async fn commit(self) -> Vec<Row> {
        self.transaction.commit().await.unwrap();
        self.rows
    }

    pub(crate) async fn roll_back(self) {
        self.transaction.rollback().await.unwrap();
    }
}

impl Publishers {
    pub(crate) fn of(database: &TestDatabase) -> Self {
        Self {
            storage: open_storage(database, |_| {}),
            published: 0,
        }
    }

    /// A publish of one envelope per letter, in that order, up to its commit.
    pub(crate) async fn open(&mut self, letters: &str) -> OpenPublish {
        let envelopes: Vec<Parsed> = letters
            .chars()
            .map(|letter| self.envelope(letter))
            .collect();
        let records: Vec<_> = envelopes.iter().map(|one| record(one, None)).collect();
        let topics = records.iter().map(|record| record.key.topic);
        let session = self.storage.publish_session().await.unwrap();
        let mut transaction = session.begin(false, topics).await.unwrap();
        let stored = transaction.insert(&records).await.unwrap();
        let rows = letters.chars().zip(stored).map(|(topic, meta)| Row {
            topic,
            id: meta.sequence_id.to_wire().cast_signed(),
        });
        let rows = rows.collect();
        OpenPublish { transaction, rows }
    }

    /// A whole publish.
    pub(crate) async fn publish(&mut self, letters: &str) -> Vec<Row> {
        self.open(letters).await.commit().await
    }

    /// An envelope that nobody published before.
    pub(crate) fn envelope(&mut self, letter: char) -> Parsed {
        parsed(self.client_envelope(letter))
    }

    /// The same, before it is parsed.
    pub(crate) fn client_envelope(&mut self, letter: char) -> ClientEnvelope {
        self.published += 1;
        message(u64::from(letter), self.published)
    }
}

/// A publish of a wrong build: it takes the lock of its topic and not the barrier.
pub(crate) struct CarelessPublish {
    connection: PgConnection,
    row: Row,
}

impl CarelessPublish {
    pub(crate) async fn open(database: &TestDatabase, letter: char) -> Self {
        let mut connection = database.connection().await;
        sqlx::raw_sql("BEGIN")
            .execute(&mut connection)
            .await
            .unwrap();
        let topic = topic(letter);
        sqlx::query("SELECT pg_advisory_xact_lock($1)")
            .bind(xmtp_backend::db::topic_key(topic.as_bytes()))
            .execute(&mut connection)
            .await
            .unwrap();
        let id = sqlx::query_scalar(
            "INSERT INTO envelopes (sequence_id, topic, server_ns, message_hash,
                                    is_commit_or_proposal, payload)
             SELECT id, $1, 1, sha256(int8send(id)), false, int8send(id)
               FROM (SELECT nextval('envelope_sequence') AS id) AS given
             RETURNING sequence_id",
        )
        .bind(topic.as_bytes())
        .fetch_one(&mut connection)
        .await
        .unwrap();
        let row = Row { topic: letter, id };
        Self { connection, row }
    }

    pub(crate) fn row(&self) -> Row {
        self.row
    }

    pub(crate) async fn commit(mut self) {
        let commit = sqlx::raw_sql("COMMIT").execute(&mut self.connection);
        commit.await.unwrap();
    }
}

/// A boundary run that nobody is in the way of.
pub(crate) async fn close(storage: &Database) -> Id {
    match storage.advance_boundary().await.unwrap() {
        Advance::Closed(id) => id,
        other @ (Advance::LockTimeout { .. } | Advance::NoConnection) => {
            panic!("the barrier should be free: {other:?}")
        }
    }
}

/// A boundary run that a publish is in the way of.
pub(crate) async fn fail_to_close(storage: &Database) {
    let advance = storage.advance_boundary().await.unwrap();
    assert!(
        matches!(advance, Advance::LockTimeout { .. }),
        "{advance:?}"
    );
}

/// A tailer that polls when the test says so.
pub(crate) struct Reader {
    tail: Tail,
    server: ServerIdentity,
    state: State,
    /// Everything that it delivered.
    pub(crate) delivered: Vec<Row>,
    /// What the last page asked of the boundary task.
    pub(crate) wanted: Option<Id>,
}

impl Reader {
    /// A reader that begins at what its database shows now.
    pub(crate) async fn start(storage: &Database, page_rows: u16) -> Self {
        Self::start_after(storage, 0, page_rows).await.unwrap()
    }

    /// A reader that must not begin below a boundary; `None` when its database does not show that.
    pub(crate) async fn start_after(
        storage: &Database,
        required: Id,
        page_rows: u16,
    ) -> Option<Self> {
        let mut tail = storage.tail().await.unwrap();
        let visible = tail.visible_boundary().await.unwrap();
        let limits = Limits {
            page_rows: NonZeroU16::new(page_rows).unwrap(),
            ranges_max: 10_000,
        };
        Some(Self {
            tail,
            server: visible.server,
            state: Start::after(required).observe(visible.boundary, limits)?,
            delivered: Vec::new(),
            wanted: None,
        })
    }

    /// Reads a page that answers the plan of now, and does nothing with it.
    pub(crate) async fn read(&mut self) -> Page<LogRow> {
        let page = self.tail.page(self.state.plan()).await.unwrap();
        assert_eq!(page.server, self.server, "another server");
        page.page
    }

    /// Applies a page.
    pub(crate) fn apply(&mut self, page: Page<LogRow>) -> (String, Next) {
        let Outcome {
            deliver,
            next,
            want_boundary,
        } = self.state.apply(page).unwrap();
        let rows: Vec<Row> = deliver.iter().map(Row::from).collect();
        self.delivered.extend(&rows);
        self.wanted = want_boundary;
        (text(&rows), next)
    }

    /// One poll: the rows of each page that had any.
    pub(crate) async fn poll(&mut self) -> Vec<String> {
        let mut pages = Vec::new();
        loop {
            let page = self.read().await;
            let (rows, next) = self.apply(page);
            if !rows.is_empty() {
                pages.push(rows);
            }
            if next == Next::Wait {
                return pages;
            }
        }
    }

    /// First and last ids of the missing ranges.
    pub(crate) fn missing(&self) -> Vec<(Id, Id)> {
        let ranges = self.state.missing();
        ranges.map(|range| (*range.start(), *range.end())).collect()
    }

    pub(crate) fn cursor(&self) -> Id {
        self.state.cursor()
    }

    pub(crate) fn boundary(&self) -> Id {
        self.state.boundary()
    }

    /// Reads a page without rows and answers whose it is.
    pub(crate) async fn server_of_empty_page(&mut self) -> ServerIdentity {
        let LogPage { server, page } = self.tail.page(self.state.plan()).await.unwrap();
        assert_eq!((page.probe, page.forward), (vec![], vec![]));
        server
    }

    pub(crate) fn server(&self) -> ServerIdentity {
        self.server
    }
}

/// What is wrong with a delivery.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    Lost(Row),
    Twice(Row),
    NeverCommitted(Row),
    OutOfOrder(Row, Row),
}

/// Whether exactly the committed rows were delivered, each once, and in the order of their topics.
pub(crate) fn audit(committed: &[Row], delivered: &[Row]) -> Result<(), Violation> {
    let committed: BTreeSet<Row> = committed.iter().copied().collect();
    let mut last: BTreeMap<char, Row> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for &row in delivered {
        if !committed.contains(&row) {
            return Err(Violation::NeverCommitted(row));
        }
        if !seen.insert(row) {
            return Err(Violation::Twice(row));
        }
        if let Some(before) = last.insert(row.topic, row)
            && before.id > row.id
        {
            return Err(Violation::OutOfOrder(before, row));
        }
    }
    match committed.difference(&seen).next() {
        Some(&row) => Err(Violation::Lost(row)),
        None => Ok(()),
    }
}
