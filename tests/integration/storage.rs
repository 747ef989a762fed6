//! The storage room without a server around it, for what the wire cannot bring about.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use envelope::fixtures::{Wallet, update_envelope};
use envelope::wire::xmtp::backend::v1::ClientEnvelope;
use envelope::{Limits, Parsed, canonical};
use harness::{TestDatabase, eventually};
use sqlx::PgConnection;
use xmtp_backend::db::{
    Association, AssociationChange, Database, EnvelopeKey, Lookup, NewEnvelope, Observer,
    SequenceId, Settings, TopicCursor, TurnLimits,
};

use crate::given::{confirmation, creation, group_topic, inbox_topic, message};

/// Counts the connections that came back inside a transaction.
#[derive(Debug, Default)]
pub(crate) struct Released(AtomicUsize);

impl Released {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Observer for Released {
    fn released_open_transaction(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Storage with one connection and long timeouts, unless changed.
pub(crate) fn open(
    database: &TestDatabase,
    change: impl FnOnce(&mut Settings),
) -> (Database, Arc<Released>) {
    let mut settings = Settings {
        primary: database.options(),
        replica: None,
        max_connections: 1,
        max_statement_timeout: Duration::from_secs(30),
        max_publish_duration: Duration::from_secs(60),
        max_barrier_wait: Duration::from_secs(1),
    };
    change(&mut settings);
    let released = Arc::new(Released::default());
    let storage = Database::open(&settings, Arc::clone(&released) as Arc<dyn Observer>);
    (storage, released)
}

/// An envelope as the publish room hands it to storage.
pub(crate) fn parsed(envelope: ClientEnvelope) -> Parsed {
    let bounds = Limits {
        envelope_bytes_max: usize::MAX,
        contract_signatures_max: usize::MAX,
    };
    envelope::parse(envelope, bounds).unwrap()
}

/// The record of an envelope.
pub(crate) fn record(parsed: &Parsed, retention_ns: Option<i64>) -> NewEnvelope<'_> {
    NewEnvelope {
        key: EnvelopeKey {
            topic: parsed.topic.as_bytes(),
            hash: parsed.hash.as_bytes(),
        },
        retention_ns,
        is_commit_or_proposal: parsed.is_commit_or_proposal,
        payload: &parsed.canonical,
    }
}

/// Stores envelopes as a publish would, without its checks.
pub(crate) async fn store_unchecked(database: &TestDatabase, envelopes: Vec<ClientEnvelope>) {
    let (storage, _) = open(database, |_| {});
    let parsed: Vec<Parsed> = envelopes.into_iter().map(parsed).collect();
    let records: Vec<_> = parsed.iter().map(|parsed| record(parsed, None)).collect();
    let topics: Vec<&[u8]> = records.iter().map(|record| record.key.topic).collect();
    let session = storage.publish_session().await.unwrap();
    let mut transaction = session.begin(true, topics.into_iter()).await.unwrap();
    transaction.insert(&records).await.unwrap();
    transaction.commit().await.unwrap();
    storage.close().await;
}

/// The id of a row that a test stores by itself, far from those that the sequence gives.
pub(crate) const FOREIGN_ID: i64 = 1_000_000;

/// A row that a session of the test has inserted and not committed. A publish of the same envelope
/// cannot see it and runs into it only when it inserts, after it has allocated its ids.
#[derive(Debug)]
pub(crate) struct UncommittedRow {
    session: PgConnection,
}

impl UncommittedRow {
    pub(crate) async fn insert(database: &TestDatabase, envelope: ClientEnvelope, id: i64) -> Self {
        let parsed = parsed(envelope);
        let mut session = database.connection().await;
        sqlx::raw_sql("BEGIN").execute(&mut session).await.unwrap();
        sqlx::query(
            "INSERT INTO envelopes (sequence_id, topic, server_ns, message_hash,
                                    is_commit_or_proposal, payload)
             VALUES ($1, $2, 1, $3, false, $4)",
        )
        .bind(id)
        .bind(parsed.topic.as_bytes())
        .bind(parsed.hash.as_bytes().as_slice())
        .bind(parsed.canonical.as_ref())
        .execute(&mut session)
        .await
        .unwrap();
        Self { session }
    }

    /// Returns when so many sessions have run into uncommitted rows.
    pub(crate) async fn until_waiting(database: &TestDatabase, sessions: i64) {
        let pool = database.pool().await;
        eventually("the sessions wait for the row", async || {
            let waiting: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM pg_stat_activity
                  WHERE datname = current_database() AND wait_event = 'transactionid'",
            )
            .fetch_one(&pool)
            .await
            .unwrap();
            waiting == sessions
        })
        .await;
    }

    /// Makes the row stay: whoever waits for it breaks a unique constraint.
    pub(crate) async fn commit(mut self) {
        sqlx::raw_sql("COMMIT")
            .execute(&mut self.session)
            .await
            .unwrap();
    }

    /// Takes the row back: whoever waits for it goes on.
    pub(crate) async fn roll_back(mut self) {
        sqlx::raw_sql("ROLLBACK")
            .execute(&mut self.session)
            .await
            .unwrap();
    }
}

/// Whether each change adds, and at which id.
type Changes<'c> = &'c [(bool, u64)];

/// Goal: an older update never replaces newer state in the projection. Method: changes in every order,
/// applied one after the other; the identity lock keeps publishes from doing so (ARC-022, case 137).
#[tokio::test]
async fn an_older_change_of_the_projection_has_no_effect() {
    let database = TestDatabase::create().await;
    let (storage, _) = open(&database, |_| {});
    let inbox_id = [7; 32];
    // What happens, and whether the identifier is in the inbox then.
    let cases: [(&str, Changes<'_>, bool); 6] = [
        ("added at 9, removed at 7", &[(true, 9), (false, 7)], true),
        ("added at 9, removed at 9", &[(true, 9), (false, 9)], true),
        (
            "added at 9, removed at 10",
            &[(true, 9), (false, 10)],
            false,
        ),
        (
            "and added at 8",
            &[(true, 9), (false, 10), (true, 8)],
            false,
        ),
        (
            "and added at 10",
            &[(true, 9), (false, 10), (true, 10)],
            false,
        ),
        (
            "and added at 11",
            &[(true, 9), (false, 10), (true, 11)],
            true,
        ),
    ];
    for (claim, changes, expected) in cases {
        for (is_added, sequence_id) in changes {
            let change = AssociationChange {
                association: Association {
                    identifier: claim,
                    kind: 1,
                    inbox_id: &inbox_id,
                },
                sequence_id: SequenceId::from_wire(*sequence_id).unwrap(),
            };
            let session = storage.publish_session().await.unwrap();
            let topics = [&b"inbox"[..]];
            let mut transaction = session.begin(true, topics.into_iter()).await.unwrap();
            if *is_added {
                transaction.associate(&[change]).await.unwrap();
            } else {
                transaction.dissociate(&[change]).await.unwrap();
            }
            transaction.commit().await.unwrap();
        }
        let lookup = Lookup {
            identifier: claim,
            kind: 1,
        };
        let found = storage.inbox_ids(&[lookup]).await.unwrap();
        assert_eq!(found, [expected.then_some(inbox_id)], "{claim}");
    }
    storage.close().await;
    database.drop().await;
}

/// Goal: the room that a history takes is known before it is loaded. Method: envelopes of different
/// lengths on one topic, beside another topic and an empty one.
#[tokio::test]
async fn the_length_of_a_history_is_known_before_it_is_read() {
    let database = TestDatabase::create().await;
    let wallet = Wallet::numbered(1);
    let create = creation(&wallet);
    let inbox = create.inbox_id.clone();
    let mine: Vec<_> = std::iter::once(update_envelope(create))
        .chain((1..=3).map(|number| confirmation(&wallet, &inbox, number)))
        .collect();
    let others = vec![update_envelope(creation(&Wallet::numbered(2)))];
    store_unchecked(&database, [mine.clone(), others].concat()).await;
    let (storage, _) = open(&database, |_| {});
    let expected: usize = mine.iter().map(canonical::encoded_len).sum();
    for (topic, expected) in [
        (inbox_topic(&inbox), expected as u64),
        (inbox_topic(&"0".repeat(64)), 0),
    ] {
        let bytes = storage.history_bytes(topic.as_bytes()).await.unwrap();
        assert_eq!(bytes, expected);
        let history = storage.history(topic.as_bytes()).await.unwrap();
        let loaded: usize = history.iter().map(|entry| entry.payload.len()).sum();
        assert_eq!(loaded as u64, expected);
    }
    storage.close().await;
    database.drop().await;
}

/// A turn of history loads each topic's first envelopes up to its share, and what exceeds the share of one
/// topic takes no room from the next (ARC-087). Method: three envelopes of one topic and one of
/// another, all of one length, with limits at and below what they need.
#[tokio::test]
async fn a_turn_loads_the_share_of_each_topic() {
    let database = TestDatabase::create().await;
    let envelopes = vec![message(1, 1), message(1, 2), message(1, 3), message(2, 1)];
    let payload_bytes = parsed(message(1, 1)).canonical.len() as u64;
    store_unchecked(&database, envelopes).await;
    let (storage, _) = open(&database, |_| {});
    let topics = [group_topic(1), group_topic(2)];
    let cursors: Vec<_> = topics
        .iter()
        .map(|topic| TopicCursor {
            topic: topic.as_bytes(),
            after: SequenceId::START,
        })
        .collect();
    let one = payload_bytes + 10;
    // Bytes of a topic, bytes of the turn, the envelopes that are loaded.
    let cases: [(u64, u64, &[u64]); 6] = [
        (3 * one, 4 * one, &[1, 2, 3, 4]),
        (3 * one, 4 * one - 1, &[1, 2, 3]),
        (2 * one, 3 * one, &[1, 2, 4]),
        (one, 2 * one, &[1, 4]),
        (one, 2 * one - 1, &[1]),
        (one - 1, 4 * one, &[]),
    ];
    for (topic_bytes, turn_bytes, expected) in cases {
        let limits = TurnLimits {
            rows_per_topic: 64,
            allowance_bytes: 10,
            topic_bytes,
            turn_bytes,
        };
        let turn = storage.turn(&cursors, limits).await.unwrap();
        let found: Vec<_> = turn
            .candidates
            .iter()
            .map(|row| row.sequence_id.to_wire())
            .collect();
        assert_eq!(found, [1, 2, 3, 4], "every candidate is measured");
        let mut loaded: Vec<_> = turn.envelopes.keys().map(|id| id.to_wire()).collect();
        loaded.sort_unstable();
        assert_eq!(
            loaded, expected,
            "{topic_bytes} of a topic, {turn_bytes} of a turn"
        );
    }
    storage.close().await;
    database.drop().await;
}
