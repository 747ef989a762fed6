//! How PostgreSQL reads: every statement of the read and publish paths by an index (ARC-020,
//! ARC-061).
//!
//! The statements are those of the committed query cache, which a build of the server is checked
//! against: what is explained here is what runs.

use std::path::Path;

use harness::TestDatabase;
use sqlx::{AssertSqlSafe, PgConnection};

/// Rows of the log under test: far more than a planner would rather scan.
const ROWS: u32 = 40_000;
const TOPICS: u32 = 20_000;

/// A statement of the server, found by what only it contains.
struct Statement {
    name: &'static str,
    contains: &'static [&'static str],
    lacks: &'static [&'static str],
    /// Values for its parameters, as SQL.
    arguments: &'static str,
    /// Types of its parameters.
    types: &'static str,
    /// Indexes that it must use.
    indexes: &'static [&'static str],
}

/// Three topics that exist and one that does not.
macro_rules! topics {
    () => {
        "ARRAY[pg_temp.topic_of(1), pg_temp.topic_of(1000), pg_temp.topic_of(1999), pg_temp.topic_of(123456)]"
    };
}

const STATEMENTS: [Statement; 11] = [
    Statement {
        name: "query",
        contains: &["WITH candidate AS MATERIALIZED"],
        lacks: &[],
        arguments: concat!(
            topics!(),
            ", ARRAY[0, 15000, 0, 5]::bigint[], 100, 26214400"
        ),
        types: "bytea[], bigint[], bigint, bigint",
        indexes: &["envelopes_topic_sequence_id_idx", "envelopes_pkey"],
    },
    Statement {
        name: "newest",
        contains: &["JOIN topic_watermark w", "JOIN envelopes e", "e.payload"],
        lacks: &[],
        arguments: concat!(topics!(), ", 26214400"),
        types: "bytea[], bigint",
        indexes: &["topic_watermark_pkey", "envelopes_pkey"],
    },
    Statement {
        name: "newest metadata",
        contains: &["JOIN topic_watermark w", "JOIN envelopes e"],
        lacks: &["e.payload"],
        arguments: topics!(),
        types: "bytea[]",
        indexes: &["topic_watermark_pkey", "envelopes_pkey"],
    },
    Statement {
        name: "inbox ids",
        contains: &["FROM identifier_association"],
        lacks: &[],
        arguments: "ARRAY['identifier 1', 'identifier 19999', 'none'], ARRAY[1, 1, 2]::smallint[]",
        types: "text[], smallint[]",
        indexes: &["identifier_association_active_idx"],
    },
    Statement {
        name: "duplicates",
        contains: &["JOIN envelopes e ON e.topic = wanted.topic AND e.message_hash"],
        lacks: &[],
        arguments: concat!(
            topics!(),
            ", ARRAY[pg_temp.hash_of(1), pg_temp.hash_of(2), pg_temp.hash_of(3), pg_temp.hash_of(4)]"
        ),
        types: "bytea[], bytea[]",
        indexes: &["envelopes_topic_message_hash_key"],
    },
    Statement {
        name: "history",
        contains: &["SELECT sequence_id, payload FROM envelopes WHERE topic = $1"],
        lacks: &[],
        arguments: "pg_temp.topic_of(7)",
        types: "bytea",
        indexes: &["envelopes_topic_sequence_id_idx"],
    },
    Statement {
        name: "heads of a publish",
        contains: &["w.last_sequence_id", "JOIN topic_watermark w"],
        lacks: &["JOIN envelopes", "LEFT JOIN"],
        arguments: topics!(),
        types: "bytea[]",
        indexes: &["topic_watermark_pkey"],
    },
    Statement {
        name: "heads of a stream",
        contains: &["LEFT JOIN topic_watermark w"],
        lacks: &[],
        arguments: topics!(),
        types: "bytea[]",
        indexes: &["topic_watermark_pkey"],
    },
    Statement {
        name: "turn of history",
        contains: &["AS candidate ON true"],
        lacks: &[],
        arguments: concat!(
            topics!(),
            ", ARRAY[0, 15000, 0, 5]::bigint[], 64, 256, 2097152, 16777216"
        ),
        types: "bytea[], bigint[], bigint, bigint, bigint, bigint",
        indexes: &["envelopes_topic_sequence_id_idx", "envelopes_pkey"],
    },
    Statement {
        name: "envelopes by id",
        contains: &["AS wanted (id, index)", "JOIN envelopes e"],
        lacks: &[],
        arguments: "ARRAY[1, 20000, 39999]::bigint[]",
        types: "bigint[]",
        indexes: &["envelopes_pkey"],
    },
    Statement {
        name: "page of the log",
        contains: &["WITH probe AS"],
        lacks: &[],
        arguments: "ARRAY[5, 100]::bigint[], ARRAY[7, 20000]::bigint[], 39000, 1024",
        types: "bigint[], bigint[], bigint, bigint",
        indexes: &["envelopes_pkey"],
    },
];

/// Each statement, planned for its values and planned once for any values, goes by its indexes and
/// scans no table.
#[tokio::test]
async fn every_read_goes_by_an_index() {
    let database = TestDatabase::create().await;
    let mut connection = database.connection().await;
    fill(&mut connection).await;
    let cache = query_cache();
    for statement in STATEMENTS {
        let query = statement.find(&cache);
        for mode in ["force_custom_plan", "force_generic_plan"] {
            let plan = statement.explain(&mut connection, query, mode).await;
            let case = format!("{}, {mode}\n{plan}", statement.name);
            assert!(!plan.contains("Seq Scan on"), "{case}");
            for index in statement.indexes {
                assert!(plan.contains(index), "{index} is not used: {case}");
            }
        }
    }
    database.drop().await;
}

impl Statement {
    /// The one statement of the cache that this is.
    fn find<'c>(&self, cache: &'c [String]) -> &'c str {
        let found: Vec<_> = cache
            .iter()
            .filter(|query| self.contains.iter().all(|text| query.contains(text)))
            .filter(|query| !self.lacks.iter().any(|text| query.contains(text)))
            .collect();
        let [query] = found.as_slice() else {
            panic!("{}: {} statements match", self.name, found.len());
        };
        query
    }

    async fn explain(&self, connection: &mut PgConnection, query: &str, mode: &str) -> String {
        let prepare = format!(
            "SET plan_cache_mode = {mode}; PREPARE explained ({}) AS {query}",
            self.types
        );
        run(connection, prepare).await;
        let explain = format!("EXPLAIN EXECUTE explained ({})", self.arguments);
        let lines: Vec<String> = sqlx::query_scalar(AssertSqlSafe(explain))
            .fetch_all(&mut *connection)
            .await
            .unwrap();
        run(connection, "DEALLOCATE explained".to_owned()).await;
        lines.join("\n")
    }
}

/// Every statement that the server was compiled with.
fn query_cache() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(".sqlx");
    let files = std::fs::read_dir(directory).expect("the committed query cache");
    files
        .map(|file| {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let entry: serde_json::Value = serde_json::from_str(&text).unwrap();
            entry["query"].as_str().expect("a cached query").to_owned()
        })
        .collect()
}

/// Stores logs of two envelopes each, interleaved, and as many associations.
async fn fill(connection: &mut PgConnection) {
    let statements = format!(
        "CREATE FUNCTION pg_temp.topic_of(n int) RETURNS bytea IMMUTABLE LANGUAGE sql
             AS $$ SELECT '\\x00'::bytea || decode(md5(n::text), 'hex') $$;
         CREATE FUNCTION pg_temp.hash_of(n int) RETURNS bytea IMMUTABLE LANGUAGE sql
             AS $$ SELECT sha256(n::text::bytea) $$;
         INSERT INTO envelopes
         SELECT n, pg_temp.topic_of(n % {TOPICS}), n, NULL, pg_temp.hash_of(n), false,
                decode(repeat('01', 500), 'hex')
           FROM generate_series(1, {ROWS}) AS n;
         INSERT INTO topic_watermark SELECT topic, max(sequence_id) FROM envelopes GROUP BY topic;
         INSERT INTO identifier_association
         SELECT 'identifier ' || n, 1, sha256(n::text::bytea), n, CASE WHEN n % 3 = 0 THEN n + 1 END
           FROM generate_series(1, {ROWS}) AS n;
         ANALYZE envelopes, topic_watermark, identifier_association;"
    );
    run(connection, statements).await;
}

async fn run(connection: &mut PgConnection, statements: String) {
    sqlx::raw_sql(AssertSqlSafe(statements))
        .execute(connection)
        .await
        .unwrap();
}
