//! What must hold before a server serves: migrations, one at a time and of this build, and a
//! retention that fits (ARC-005 to ARC-007, ARC-102).

use std::time::Duration;

use harness::{AdvisoryLock, TestDatabase, TestServer, TestServerBuilder, eventually};
use sqlx::PgPool;
use xmtp_backend::config;
use xmtp_backend::db::{Database, GlobalLock, MigrateError};
use xmtp_backend::run::Error;

use crate::given::{ids, message};

const MIGRATION: AdvisoryLock = AdvisoryLock::Global(GlobalLock::Migration.number());

/// A minimal server on a database that exists.
fn on(database: &TestDatabase) -> TestServerBuilder {
    TestServer::builder().database(database.share())
}

/// Returns when so many instances want to migrate, for at least so long.
async fn until_migrating(pool: &PgPool, instances: i64, at_least: Duration) {
    eventually("the instances wait for the migration lock", async || {
        let found: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
              WHERE datname = current_database() AND application_name = 'xmtp-backend migrate'
                AND clock_timestamp() - backend_start >= make_interval(secs => $1)",
        )
        .bind(at_least.as_secs_f64())
        .fetch_one(pool)
        .await
        .unwrap();
        found == instances
    })
    .await;
}

/// Two instances start at once on a database without tables, and both come to the migrations before
/// either is let in. Both serve, and the migration was applied once (ARC-005).
#[tokio::test]
async fn two_instances_can_start_on_an_empty_database() {
    let database = TestDatabase::create_bare().await;
    let pool = database.pool().await;
    let locks = database.advisory_locks().await;
    let held = locks.hold(MIGRATION).await;
    let (one, two, ()) = tokio::join!(on(&database).start(), on(&database).start(), async {
        until_migrating(&pool, 2, Duration::ZERO).await;
        held.release().await;
    });
    assert_eq!(database.count("_sqlx_migrations").await, 1);
    assert_eq!(ids(one.publish(vec![message(1, 1)]).await), [1]);
    assert_eq!(ids(two.publish(vec![message(1, 2)]).await), [2]);
    locks.until_all_free().await;
    two.stop_keeping_database().await;
    one.stop().await;
}

/// Somebody else migrates for longer than a statement may take. The server waits for that, without
/// having changed anything, and then starts (ARC-005).
#[tokio::test]
async fn the_wait_for_the_migration_lock_is_no_statement() {
    let database = TestDatabase::create_bare().await;
    let pool = database.pool().await;
    let locks = database.advisory_locks().await;
    let held = locks.hold(MIGRATION).await;
    let start = on(&database)
        .table("database", "max_statement_timeout_ms = 500")
        .start();
    let (server, ()) = tokio::join!(start, async {
        until_migrating(&pool, 1, Duration::from_millis(1_500)).await;
        let tables: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace",
        )
        .fetch_one(&pool)
        .await
        .unwrap();
        assert_eq!(tables, 0);
        held.release().await;
    });
    assert_eq!(ids(server.publish(vec![message(1, 1)]).await), [1]);
    server.stop().await;
}

/// A database whose migration was another one, or that knows more than this build, is refused, and
/// left as it is; the lock is free for the next (ARC-006).
#[tokio::test]
async fn a_database_of_another_schema_is_refused_and_left_alone() {
    for (change, expected) in [
        (
            "UPDATE _sqlx_migrations SET checksum = sha256('edited')",
            MigrateError::Changed { version: 1 },
        ),
        (
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (2, 'later', true, '', 1)",
            MigrateError::Unknown { version: 2 },
        ),
    ] {
        let database = TestDatabase::create().await;
        let server = on(&database).start().await;
        ids(server.publish(vec![message(1, 1)]).await);
        server.stop_keeping_database().await;
        let mut connection = database.connection().await;
        sqlx::raw_sql(change)
            .execute(&mut connection)
            .await
            .unwrap();
        let before = contents(&database).await;

        let refused = on(&database).try_start().await.unwrap_err();
        let Error::Migration(error) = refused else {
            panic!("{refused}");
        };
        assert_eq!(error, expected);
        assert_eq!(contents(&database).await, before);
        let locks = database.advisory_locks().await;
        locks.until_all_free().await;
        database.drop().await;
    }
}

/// All rows and all columns, as text.
async fn contents(database: &TestDatabase) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT e::text FROM envelopes e UNION ALL SELECT w::text FROM topic_watermark w
         UNION ALL SELECT b::text FROM allocation_boundary b
         UNION ALL SELECT m::text FROM _sqlx_migrations m
         UNION ALL SELECT 'sequence ' || last_value FROM envelope_sequence
         UNION ALL SELECT table_name || column_name || data_type FROM information_schema.columns
                    WHERE table_schema = 'public'
         ORDER BY 1",
    )
    .fetch_all(&mut database.connection().await)
    .await
    .unwrap()
}

/// Migrating again changes nothing (ARC-005).
#[tokio::test]
async fn a_migrated_database_is_left_as_it_is() {
    let database = TestDatabase::create().await;
    let before = contents(&database).await;
    Database::migrate(&database.options()).await.unwrap();
    assert_eq!(contents(&database).await, before);
    database.drop().await;
}

/// A retention is in range by itself and yet ends after the last timestamp that can be stored. The
/// database's clock decides, the key is named, and nothing is left connected (ARC-102).
#[tokio::test]
async fn a_retention_that_overflows_the_database_clock_is_refused_by_name() {
    let greatest = i64::MAX / 1_000_000_000;
    for key in [
        "group_message_seconds",
        "welcome_seconds",
        "key_package_seconds",
    ] {
        for (seconds, fits) in [(greatest, false), (greatest / 2, true)] {
            let database = TestDatabase::create().await;
            let started = on(&database)
                .table("retention", &format!("{key} = {seconds}"))
                .try_start()
                .await;
            match started {
                Ok(server) => {
                    assert!(fits, "{key} = {seconds}");
                    server.stop_keeping_database().await;
                }
                Err(Error::Config(config::Error::Expiry { key: named })) => {
                    assert!(!fits, "{key} = {seconds}");
                    assert_eq!(named, format!("retention.{key}"));
                }
                Err(other) => panic!("{other}"),
            }
            database.drop().await;
        }
    }
}
