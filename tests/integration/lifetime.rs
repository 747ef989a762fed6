//! How long a publish may live, and that nothing of it is left afterwards: no lock, no row, no
//! connection inside a transaction (ARC-051, ARC-060).

use std::time::Duration;

use envelope::Topic;
use harness::{AdvisoryLock, TestDatabase, TestServer, Transport, eventually};
use tonic::Code;
use xmtp_backend::db::{self, ErrorKind};

use crate::given::{code, group_topic, ids, message};
use crate::storage::{FOREIGN_ID, UncommittedRow, open, parsed, record};

const LEAKED: &str = "xmtp_db_released_open_transactions_total";

fn lock_of_group(group: u64) -> AdvisoryLock {
    AdvisoryLock::of_topic(group_topic(group).as_bytes())
}

/// Somebody keeps a topic longer than a statement may take. The publish ends with
/// `DEADLINE_EXCEEDED`, has stored nothing, and leaves neither locks nor a broken pool of its one
/// connection, while the topic is still kept (ARC-051).
#[tokio::test]
async fn a_lock_wait_beyond_the_statement_timeout_stores_nothing() {
    let server = TestServer::builder()
        .table(
            "database",
            "max_connections = 1\nmax_statement_timeout_ms = 200",
        )
        .start()
        .await;
    let database = server.database();
    let locks = database.advisory_locks().await;
    let held = locks.hold(lock_of_group(1)).await;
    for (failures, transport) in (1..).zip(Transport::ALL) {
        let request = vec![message(2, 1), message(1, 1)];
        let answer = server.begin_publish(transport, request).await.unwrap();
        assert_eq!(code(answer), Code::DeadlineExceeded, "{transport:?}");
        assert_eq!(database.count("envelopes").await, 0);
        let timeouts = server
            .metric("xmtp_db_errors_total{kind=\"timeout\"}")
            .await;
        assert_eq!(timeouts, failures);
    }
    eventually("only the test holds a lock", async || {
        locks.states().await.len() == 1
    })
    .await;
    ids(server.publish(vec![message(2, 2)]).await);

    held.release().await;
    ids(server.publish(vec![message(2, 1), message(1, 1)]).await);
    assert_eq!(server.metric(LEAKED).await, 0);
    server.stop().await;
}

/// Each statement of a publish is in time and together they are not: the lifetime ends it, here and
/// in PostgreSQL (ARC-051).
#[tokio::test]
async fn a_publish_beyond_its_lifetime_stores_nothing() {
    // A configuration keeps the statement timeout below the lifetime, and one statement that waits
    // is the only wait that can be arranged; so storage is asked, with the two the other way round.
    let database = TestDatabase::create().await;
    let (storage, _) = open(&database, |settings| {
        settings.max_publish_duration = Duration::from_millis(300);
    });
    let locks = database.advisory_locks().await;
    let row = UncommittedRow::insert(&database, message(1, 1), FOREIGN_ID).await;
    let parsed = parsed(message(1, 1));
    let topics = [parsed.topic];
    let answer = storage
        .within_publish_lifetime(async {
            let topics = topics.iter().map(Topic::as_bytes);
            let mut transaction = storage
                .publish_session()
                .await?
                .begin(false, topics)
                .await?;
            transaction.insert(&[record(&parsed, None)]).await?;
            transaction.commit().await
        })
        .await;
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::Timeout);
    locks.until_all_free().await;
    row.roll_back().await;
    assert_eq!(database.count("envelopes").await, 0);
    storage.clock_ns().await.unwrap();
    storage.close().await;
    database.drop().await;
}

/// A service that stops working in the middle of a publish, without closing its connection, cannot
/// keep the topics: PostgreSQL ends the session by itself (ARC-051). What the service tries later
/// fails, and can be repeated.
#[tokio::test]
async fn postgres_ends_a_publish_that_its_service_forgot() {
    let database = TestDatabase::create().await;
    let (storage, released) = open(&database, |settings| {
        settings.max_publish_duration = Duration::from_millis(300);
    });
    let locks = database.advisory_locks().await;
    let parsed = parsed(message(1, 1));
    let topics = [parsed.topic];
    let topics = topics.iter().map(Topic::as_bytes);
    let mut transaction = storage
        .publish_session()
        .await
        .unwrap()
        .begin(true, topics)
        .await
        .unwrap();
    transaction.insert(&[record(&parsed, None)]).await.unwrap();
    assert_eq!(locks.states().await.len(), 3);

    locks.until_all_free().await;
    let error = transaction.commit().await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Connection),
        "{error}"
    );
    assert_eq!(database.count("envelopes").await, 0);
    // The pool has one connection, and it is a working one.
    storage.clock_ns().await.unwrap();
    assert_eq!(released.count(), 0);
    storage.close().await;
    database.drop().await;
}

/// A client that goes away while its publish waits for a lock takes the publish with it, long before
/// any timeout: its session in PostgreSQL ends, the locks it had are free, nothing is stored later,
/// and the pool's one connection is there for the next (ARC-051, ARC-060).
#[tokio::test]
async fn a_client_that_hangs_up_takes_its_publish_along() {
    for transport in Transport::ALL {
        let server = TestServer::builder()
            .table(
                "database",
                "max_connections = 1\nmax_statement_timeout_ms = 600000",
            )
            .table("publishing", "max_publish_duration_ms = 600001")
            .start()
            .await;
        let database = server.database();
        let locks = database.advisory_locks().await;
        // Wait for the one that comes second, so that the publish holds the other.
        let mut groups = [1, 2].map(lock_of_group);
        groups.sort_unstable();
        let held = locks.hold(groups[1]).await;
        let publish = server.begin_publish(transport, vec![message(1, 1), message(2, 1)]);
        locks.until_waiting(groups[1], 1).await;
        assert!(locks.is_held(groups[0]).await);

        publish.abort();
        eventually("the publish is gone", async || {
            locks.states().await.len() == 1
        })
        .await;
        ids(server.publish(vec![message(3, 1)]).await);
        held.release().await;
        locks.until_all_free().await;
        assert_eq!(database.count("envelopes").await, 1, "{transport:?}");
        assert_eq!(server.metric(LEAKED).await, 0);
        server.stop().await;
    }
}

/// All connections are in use. The next operation waits as long as a statement may take, and is
/// told to come back later (ARC-051).
#[tokio::test]
async fn the_wait_for_a_connection_is_bounded() {
    let database = TestDatabase::create().await;
    let (storage, _) = open(&database, |settings| {
        settings.max_statement_timeout = Duration::from_millis(200);
    });
    let busy = storage.pools().primary().acquire().await.unwrap();
    let error = storage.clock_ns().await.unwrap_err();
    assert!(matches!(error, db::Error::Unavailable { .. }), "{error}");
    drop(busy);
    storage.clock_ns().await.unwrap();
    storage.close().await;
    database.drop().await;
}

/// A publish that ends by rolling back, because everything in it turned out to be stored, gives its
/// connection back without a transaction and without locks (ARC-060).
#[tokio::test]
async fn a_rolled_back_publish_returns_a_clean_connection() {
    let database = TestDatabase::create().await;
    let (storage, released) = open(&database, |_| {});
    let locks = database.advisory_locks().await;
    let topics = [group_topic(1)];
    for _ in 0..3 {
        let topics = topics.iter().map(Topic::as_bytes);
        let transaction = storage
            .publish_session()
            .await
            .unwrap()
            .begin(true, topics)
            .await
            .unwrap();
        transaction.rollback().await.unwrap();
        assert_eq!(locks.states().await, []);
    }
    storage.clock_ns().await.unwrap();
    assert_eq!(released.count(), 0);
    storage.close().await;
    database.drop().await;
}
