//! The schema as the catalogue of PostgreSQL shows it (ARC-006, ARC-020 to ARC-025, ARC-039).

use harness::TestDatabase;
use sqlx::AssertSqlSafe;

/// The one text column of a query's rows, in order.
async fn texts(database: &TestDatabase, query: &'static str) -> Vec<String> {
    let mut connection = database.connection().await;
    let texts = sqlx::query_scalar(query).fetch_all(&mut connection);
    texts.await.unwrap()
}

/// Three domain tables, the boundary, and the bookkeeping of the migrations; one sequence, and
/// nothing else of any kind: no view, no trigger, no function (ARC-052).
#[tokio::test]
async fn the_schema_has_four_tables_and_one_sequence_and_no_code() {
    let database = TestDatabase::create().await;
    let relations = texts(
        &database,
        "SELECT relkind::text || ' ' || relname FROM pg_class
          WHERE relnamespace = 'public'::regnamespace AND relkind <> 'i' ORDER BY 1",
    );
    assert_eq!(
        relations.await,
        [
            "S envelope_sequence",
            "r _sqlx_migrations",
            "r allocation_boundary",
            "r envelopes",
            "r identifier_association",
            "r topic_watermark",
        ]
    );
    let code = texts(
        &database,
        "SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
         UNION ALL SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal
         UNION ALL SELECT evtname::text FROM pg_event_trigger
         UNION ALL SELECT rulename::text FROM pg_rules WHERE schemaname = 'public'",
    );
    assert_eq!(code.await, [""; 0]);
    database.drop().await;
}

/// Every column with its type and whether it may be null, and that no table has another.
#[tokio::test]
async fn columns_have_the_documented_types() {
    let database = TestDatabase::create().await;
    let columns = texts(
        &database,
        "SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
                || CASE WHEN a.attnotnull THEN '' ELSE ' null' END
           FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
          WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
            AND a.attnum > 0 AND NOT a.attisdropped AND c.relname <> '_sqlx_migrations'
          ORDER BY c.relname, a.attnum",
    );
    assert_eq!(
        columns.await,
        [
            "allocation_boundary.singleton boolean",
            "allocation_boundary.closed_sequence_id bigint",
            "envelopes.sequence_id bigint",
            "envelopes.topic bytea",
            "envelopes.server_ns bigint",
            "envelopes.expiry_ns bigint null",
            "envelopes.message_hash bytea",
            "envelopes.is_commit_or_proposal boolean",
            "envelopes.payload bytea",
            "identifier_association.identifier text",
            "identifier_association.identifier_kind smallint",
            "identifier_association.inbox_id bytea",
            "identifier_association.association_sequence_id bigint",
            "identifier_association.revocation_sequence_id bigint null",
            "topic_watermark.topic bytea",
            "topic_watermark.last_sequence_id bigint",
        ]
    );
    database.drop().await;
}

/// Every key and index; none on expiry before rows are pruned, and no foreign key (ARC-020,
/// ARC-023).
#[tokio::test]
async fn keys_and_indexes_are_those_that_reads_need() {
    let database = TestDatabase::create().await;
    let indexes = texts(
        &database,
        "SELECT CASE WHEN i.indisprimary THEN 'primary ' WHEN i.indisunique THEN 'unique ' ELSE '' END
                || regexp_replace(pg_get_indexdef(i.indexrelid), '^.* ON public\\.', '')
           FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
          WHERE c.relnamespace = 'public'::regnamespace AND c.relname <> '_sqlx_migrations'
          ORDER BY c.relname, 1",
    );
    assert_eq!(
        indexes.await,
        [
            "primary allocation_boundary USING btree (singleton)",
            "envelopes USING btree (topic, sequence_id)",
            "primary envelopes USING btree (sequence_id)",
            "unique envelopes USING btree (topic, message_hash)",
            "identifier_association USING btree (identifier, identifier_kind, \
             association_sequence_id DESC) WHERE (revocation_sequence_id IS NULL)",
            "primary identifier_association USING btree (identifier, identifier_kind, inbox_id)",
            "primary topic_watermark USING btree (topic)",
        ]
    );
    let foreign = texts(
        &database,
        "SELECT conname::text FROM pg_constraint WHERE contype = 'f'",
    );
    assert_eq!(foreign.await, [""; 0]);
    database.drop().await;
}

/// Ids start at 1, are handed out one by one, and never wrap around (ARC-039, ARC-040).
#[tokio::test]
async fn the_sequence_neither_caches_nor_cycles() {
    let database = TestDatabase::create().await;
    let mut connection = database.connection().await;
    let options: (String, i64, i64, i64, i64, i64, bool) = sqlx::query_as(
        "SELECT format_type(seqtypid, NULL), seqstart, seqincrement, seqmin, seqmax, seqcache,
                seqcycle
           FROM pg_sequence WHERE seqrelid = 'envelope_sequence'::regclass",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    assert_eq!(options, ("bigint".to_owned(), 1, 1, 1, i64::MAX, 1, false));
    assert_eq!(database.last_allocated().await, 0, "unused");
    database.drop().await;
}

/// There is one boundary row, it starts at zero, and no second and no negative one is possible
/// (ARC-039, ARC-040).
#[tokio::test]
async fn the_boundary_is_one_row_that_starts_at_zero() {
    let database = TestDatabase::create().await;
    let mut connection = database.connection().await;
    let rows: Vec<(bool, i64)> =
        sqlx::query_as("SELECT singleton, closed_sequence_id FROM allocation_boundary")
            .fetch_all(&mut connection)
            .await
            .unwrap();
    assert_eq!(rows, [(true, 0)]);
    for statement in [
        "INSERT INTO allocation_boundary DEFAULT VALUES",
        "INSERT INTO allocation_boundary VALUES (false, 0)",
        "INSERT INTO allocation_boundary VALUES (NULL, 0)",
        "UPDATE allocation_boundary SET closed_sequence_id = -1",
        "UPDATE allocation_boundary SET singleton = false",
    ] {
        let refused = sqlx::raw_sql(statement).execute(&mut connection).await;
        let error = refused.expect_err(statement);
        let code = error
            .as_database_error()
            .unwrap()
            .code()
            .unwrap()
            .into_owned();
        assert!(code.starts_with("23"), "{statement}: {code}");
    }
    database.drop().await;
}

/// Storage takes topics of up to 128 bytes, hashes of exactly 32, and payloads of any length: the
/// length of payloads is the configuration's to limit (ARC-024).
#[tokio::test]
async fn storage_bounds_topics_and_hashes_and_not_payloads() {
    let database = TestDatabase::create().await;
    let mut connection = database.connection().await;
    let mut id = 0;
    for (topic_bytes, hash_bytes, payload_bytes, taken) in [
        (1, 32, 0, true),
        (17, 32, 1, true),
        (127, 32, 1, true),
        (128, 32, 1, true),
        (129, 32, 1, false),
        (0, 32, 1, false),
        (17, 31, 1, false),
        (17, 33, 1, false),
        // More than the transport takes.
        (17, 32, 26 * 1024 * 1024, true),
    ] {
        id += 1;
        let statement = format!(
            "INSERT INTO envelopes VALUES ({id}, decode(repeat('01', {topic_bytes}), 'hex'), 1,
                 NULL, decode(repeat('{id:02}', {hash_bytes}), 'hex'), false,
                 decode(repeat('02', {payload_bytes}), 'hex'))"
        );
        let answer = sqlx::raw_sql(AssertSqlSafe(statement))
            .execute(&mut connection)
            .await;
        let case = format!("{topic_bytes}, {hash_bytes}, {payload_bytes}");
        match answer {
            Ok(_) => assert!(taken, "{case}"),
            Err(error) => {
                assert!(!taken, "{case}: {error}");
                let code = error.as_database_error().unwrap().code();
                assert_eq!(code.as_deref(), Some("23514"), "a check constraint");
            }
        }
    }
    database.drop().await;
}

/// Tables are vacuumed as PostgreSQL does by default (ARC-023).
#[tokio::test]
async fn no_table_has_storage_options() {
    let database = TestDatabase::create().await;
    let options = texts(
        &database,
        "SELECT relname::text FROM pg_class
          WHERE relnamespace = 'public'::regnamespace AND reloptions IS NOT NULL",
    );
    assert_eq!(options.await, [""; 0]);
    database.drop().await;
}
