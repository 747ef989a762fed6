//! What a connection may bring back to its pool, and how it is set up (ARC-051, ARC-060).

use std::time::Duration;

use harness::TestDatabase;
use sqlx::PgConnection;
use xmtp_backend::db::{Database, Operation};

use crate::storage::open;

async fn pid(connection: &mut PgConnection) -> i32 {
    sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(connection)
        .await
        .unwrap()
}

/// Runs statements on the pool's one connection, gives it back, and answers its backend and the one
/// of the connection that the pool hands out next.
async fn backends_around(storage: &Database, statements: &[&'static str]) -> [i32; 2] {
    let pool = storage.pools().route(Operation::Publish);
    let mut connection = pool.acquire().await.unwrap();
    let before = pid(&mut connection).await;
    for statement in statements {
        // The failing ones are meant to fail.
        let _ = sqlx::raw_sql(*statement).execute(&mut *connection).await;
    }
    drop(connection);
    let mut next = pool.acquire().await.unwrap();
    [before, pid(&mut next).await]
}

/// An open transaction is rolled back and its connection kept; an aborted one costs the connection;
/// both are counted. A connection outside a transaction is neither touched nor counted, whatever
/// happened on it. The driver knows of none of these transactions (ARC-060).
#[tokio::test]
async fn connections_come_back_outside_a_transaction() {
    const INSERT: &str = "INSERT INTO topic_watermark VALUES ('x', 1)";
    const FAIL: &str = "SELECT 1 / 0";
    // Statements; is the connection kept; is it counted; does the row stay.
    let cases: [(&[&str], bool, usize, i64); 7] = [
        (&[], true, 0, 0),
        (&[FAIL], true, 0, 0),
        (&["BEGIN", INSERT, "ROLLBACK"], true, 0, 0),
        (&["BEGIN", INSERT], true, 1, 0),
        (
            &["BEGIN", "SELECT pg_advisory_xact_lock(7)", INSERT],
            true,
            1,
            0,
        ),
        (&["BEGIN", INSERT, FAIL], false, 1, 0),
        (&["BEGIN", INSERT, "COMMIT"], true, 0, 1),
    ];
    for (statements, kept, counted, rows) in cases {
        let database = TestDatabase::create().await;
        let (storage, released) = open(&database, |_| {});
        let [before, after] = backends_around(&storage, statements).await;
        assert_eq!(before == after, kept, "{statements:?}");
        assert_eq!(released.count(), counted, "{statements:?}");
        assert_eq!(database.count("topic_watermark").await, rows);
        let locks = database.advisory_locks().await;
        locks.until_all_free().await;
        storage.close().await;
        database.drop().await;
    }
}

/// Every connection bounds its statements, notices that its service is gone, says who it is, and
/// keeps UTC (ARC-051).
#[tokio::test]
async fn sessions_are_set_up_for_the_service() {
    let database = TestDatabase::create().await;
    let (storage, _) = open(&database, |settings| {
        settings.max_statement_timeout = Duration::from_millis(4_321);
        settings.replica = Some(database.options());
    });
    for operation in [Operation::Publish, Operation::QueryNewest] {
        let mut connection = storage.pools().route(operation).acquire().await.unwrap();
        for (setting, expected) in [
            ("statement_timeout", "4321ms"),
            ("client_connection_check_interval", "1s"),
            ("application_name", "xmtp-backend pool"),
            ("TimeZone", "UTC"),
            ("transaction_isolation", "read committed"),
        ] {
            let value: String = sqlx::query_scalar("SELECT current_setting($1)")
                .bind(setting)
                .fetch_one(&mut *connection)
                .await
                .unwrap();
            assert_eq!(value, expected, "{setting}");
        }
    }
    storage.close().await;
    database.drop().await;
}

/// Without a replica every operation uses the one pool; with one, only those that may lag leave the
/// primary (ARC-060).
#[tokio::test]
async fn operations_are_routed_by_what_they_may_miss() {
    let (primary, standby) = (TestDatabase::create().await, TestDatabase::create().await);
    for with_replica in [false, true] {
        let (storage, _) = open(&primary, |settings| {
            settings.replica = with_replica.then(|| standby.options());
        });
        for (operation, may_lag) in [
            (Operation::Publish, false),
            (Operation::Query, false),
            (Operation::QueryNewest, true),
            (Operation::InboxIds, true),
        ] {
            let found: String = sqlx::query_scalar("SELECT current_database()::text")
                .fetch_one(storage.pools().route(operation))
                .await
                .unwrap();
            let expected = if may_lag && with_replica {
                &standby
            } else {
                &primary
            };
            let expected = expected.options();
            assert_eq!(
                Some(found.as_str()),
                expected.get_database(),
                "{operation:?}"
            );
        }
        storage.close().await;
    }
    primary.drop().await;
    standby.drop().await;
}
