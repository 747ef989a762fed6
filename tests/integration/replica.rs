//! A primary with a real standby: which reads lag, and that nothing is served before the standby can
//! (ARC-005, ARC-033, ARC-060).

use std::net::TcpStream;

use envelope::wire::xmtp::backend::v1::{
    Cursor, QueryNewestRequest, QueryNewestResponse, QueryRequest, QueryResponse, Topic, TopicQuery,
};
use harness::{Replicated, TestDatabase, TestServer, TestServerBuilder, eventually};

use crate::given::{group_topic, id_of, ids, message};
use crate::process::{Process, document, free_address};

/// A server that has this standby.
fn on(replicated: &Replicated, database: &TestDatabase) -> TestServerBuilder {
    let url = replicated.standby_url(database);
    TestServer::builder()
        .database(database.share())
        .table("database", &format!("replica_url = \"{url}\""))
}

/// Returns when a process has migrated the primary and waits for the standby, which does not show
/// any table.
async fn until_waiting_for_replica(
    process: &Process,
    replicated: &Replicated,
    database: &TestDatabase,
) {
    process.until_logged("waiting for the replica").await;
    let mut primary = database.connection().await;
    let mut standby = replicated.standby_connection(database).await;
    for (connection, expected) in [(&mut primary, true), (&mut standby, false)] {
        let migrated = sqlx::query_scalar("SELECT to_regclass('allocation_boundary') IS NOT NULL");
        let migrated: bool = migrated.fetch_one(connection).await.unwrap();
        assert_eq!(migrated, expected);
    }
}

fn topics(groups: &[u64]) -> Vec<Topic> {
    let topic = |group: &u64| Topic {
        topic: group_topic(*group).as_bytes().to_vec().into(),
    };
    groups.iter().map(topic).collect()
}

/// The newest id of a topic, as `QueryNewest` answers.
async fn newest(server: &TestServer, group: u64) -> Option<u64> {
    let request = QueryNewestRequest {
        topics: topics(&[group]),
        include_full_envelope: false,
    };
    let answer = server.call("QueryService/QueryNewest", &request).await;
    let answer: QueryNewestResponse = answer.unwrap();
    Some(id_of(answer.results.first()?.meta.as_ref()?))
}

/// The ids of a topic, as `Query` answers.
async fn log(server: &TestServer, group: u64) -> Vec<u64> {
    let query = |topic| TopicQuery {
        topic: Some(topic),
        cursor: Some(Cursor { sequence_id: 0 }),
    };
    let request = QueryRequest {
        queries: topics(&[group]).into_iter().map(query).collect(),
        limit: 0,
    };
    let answer = server.call("QueryService/Query", &request).await;
    let answer: QueryResponse = answer.unwrap();
    let metas = answer.envelopes.iter().map(|stored| stored.meta.as_ref());
    metas.map(|meta| id_of(meta.unwrap())).collect()
}

/// A standby that does not replay keeps a starting server from serving: the primary is migrated, the
/// standby shows no table, the port is closed. A signal ends that wait with success; without one,
/// the server serves once replay has gone on (ARC-003, ARC-005).
#[tokio::test]
async fn nothing_is_served_before_the_standby_shows_the_schema() {
    let replicated = Replicated::start().await;
    let database = replicated.create_bare().await;
    replicated.pause_replay().await;

    let address = free_address();
    let replica = format!(
        "database.replica_url = \"{}\"",
        replicated.standby_url(&database)
    );
    let document = document(&database.url(), &replica).replace(
        "server.listen = \"127.0.0.1:0\"",
        &format!("server.listen = \"{address}\""),
    );
    let process = Process::with_document(&document);
    until_waiting_for_replica(&process, &replicated, &database).await;
    assert!(TcpStream::connect(address).is_err(), "the port is open");
    process.signal("TERM");
    process.end().await.check(0, "");

    let process = Process::with_document(&document);
    until_waiting_for_replica(&process, &replicated, &database).await;
    assert!(TcpStream::connect(address).is_err(), "the port is open");
    replicated.resume_replay().await;
    assert_eq!(process.until_serving().await, address);
    process.signal("TERM");
    process.end().await.check(0, "drained");
}

/// While the standby is behind, `Query` shows what was published and `QueryNewest` an older state;
/// both agree when it has caught up. Publishes do not wait for it (ARC-033, ARC-060, API-202).
#[tokio::test]
async fn reads_that_may_lag_come_from_the_standby() {
    let replicated = Replicated::start().await;
    let database = replicated.create_bare().await;
    let server = on(&replicated, &database).start().await;
    let first = ids(server.publish(vec![message(1, 1)]).await)[0];
    eventually("the standby has the first", async || {
        newest(&server, 1).await == Some(first)
    })
    .await;

    replicated.pause_replay().await;
    let second = ids(server.publish(vec![message(1, 2), message(2, 1)]).await)[0];
    assert_eq!(log(&server, 1).await, [first, second]);
    assert_eq!(newest(&server, 1).await, Some(first));
    assert_eq!(newest(&server, 2).await, None);

    replicated.resume_replay().await;
    eventually("the standby has the second", async || {
        newest(&server, 1).await == Some(second)
    })
    .await;
    assert!(
        newest(&server, 2).await.is_some(),
        "from the same transaction"
    );
    server.stop_keeping_database().await;
}
