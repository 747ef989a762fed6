//! What happens when storage finds what cannot be: nothing is stored, it is counted, and the server
//! lives on (ARC-034, ARC-035, ARC-050).

use std::time::Duration;

use envelope::fixtures::{Wallet, update_envelope};
use harness::{TestDatabase, TestServer, Transport};
use tonic::Code;
use xmtp_backend::config;
use xmtp_backend::db::{self, Invariant};
use xmtp_backend::run;

use crate::given::{code, creation, group_topic, id_of, ids, message, metas};
use crate::storage::{FOREIGN_ID, UncommittedRow, open, parsed, record};

const INVARIANT_FAILURES: &str = "xmtp_db_errors_total{kind=\"invariant\"}";

/// Somebody who ignores the locks stores one of the envelopes between the recheck and the insert.
/// That is no ordinary duplicate: nothing of the request stays, ids included, and the projection is
/// untouched (ARC-050, ARC-111).
#[tokio::test]
async fn an_unexpected_duplicate_row_undoes_the_whole_publish() {
    for transport in Transport::ALL {
        let server = TestServer::start().await;
        let database = server.database();
        let row = UncommittedRow::insert(database, message(2, 1), FOREIGN_ID).await;
        let update = update_envelope(creation(&Wallet::numbered(1)));
        let request = vec![update, message(1, 1), message(2, 1)];
        let publish = server.begin_publish(transport, request.clone());
        UncommittedRow::until_waiting(database, 1).await;
        row.commit().await;

        let status = publish.await.unwrap().expect_err("it cannot be stored");
        assert_eq!(status.code(), Code::Internal, "{transport:?}: {status}");
        assert!(
            status.details().is_empty(),
            "no detail but with a rejection"
        );
        assert_eq!(database.count("envelopes").await, 1, "only the other row");
        assert_eq!(database.count("topic_watermark").await, 0);
        assert_eq!(database.count("identifier_association").await, 0);
        assert_eq!(server.metric(INVARIANT_FAILURES).await, 1);

        // The three ids are spent. What is stored by now is a plain duplicate.
        assert_eq!(database.last_allocated().await, 3);
        let [update, one, two] = ids(server.publish(request).await).try_into().unwrap();
        assert_eq!([update, one], [4, 5]);
        assert_eq!(i64::try_from(two).unwrap(), FOREIGN_ID);
        assert_eq!(server.metric(INVARIANT_FAILURES).await, 1);
        server.stop().await;
    }
}

/// A watermark only ever advances. One that somebody has set to the next id, or past it, makes the
/// publish fail as a whole; one just below it does not (ARC-034).
#[tokio::test]
async fn a_watermark_that_would_not_advance_undoes_the_whole_publish() {
    // How far ahead of the id that the topic's envelope will get; whether that can be stored.
    let cases = [(-1, true), (0, false), (1, false), (1_000_000_000, false)];
    for transport in Transport::ALL {
        let server = TestServer::start().await;
        let database = server.database();
        let mut session = database.connection().await;
        let mut failures = 0;
        for (number, (ahead, advances)) in (0..).zip(cases) {
            let (other, broken) = (100 + number, 200 + number);
            let next = database.last_allocated().await + 2;
            sqlx::query("INSERT INTO topic_watermark VALUES ($1, $2)")
                .bind(group_topic(broken).as_bytes())
                .bind(next + ahead)
                .execute(&mut session)
                .await
                .unwrap();
            let rows = database.count("envelopes").await;

            let request = vec![message(other, 1), message(broken, 1)];
            let answer = server.begin_publish(transport, request).await.unwrap();
            if advances {
                assert_eq!(i64::try_from(ids(answer)[1]).unwrap(), next);
                continue;
            }
            failures += 1;
            assert_eq!(code(answer), Code::Internal, "{transport:?}, {ahead}");
            assert_eq!(database.count("envelopes").await, rows);
            assert_eq!(server.metric(INVARIANT_FAILURES).await, failures);
            let kept: i64 =
                sqlx::query_scalar("SELECT last_sequence_id FROM topic_watermark WHERE topic = $1")
                    .bind(group_topic(broken).as_bytes())
                    .fetch_one(&mut session)
                    .await
                    .unwrap();
            assert_eq!(kept, next + ahead, "the guard does not repair");

            // The server lives on, with ids that were not used for anything else.
            let [id] = ids(server.publish(vec![message(other, 1)]).await)
                .try_into()
                .unwrap();
            assert!(i64::try_from(id).unwrap() > next);
        }
        server.stop().await;
    }
}

/// Expiry is computed by PostgreSQL, checked: the longest retention that fits is stored, one that
/// does not fit stores nothing (ARC-035, ARC-102).
#[tokio::test]
async fn an_expiry_that_does_not_fit_its_column_is_an_invariant_failure() {
    let database = TestDatabase::create().await;
    let (storage, _) = open(&database, |_| {});
    let hour_ns = i64::try_from(Duration::from_secs(3_600).as_nanos()).unwrap();
    let greatest = i64::MAX - storage.clock_ns().await.unwrap();
    for (number, retention_ns, fits) in [
        (1, greatest - hour_ns, true),
        (2, greatest + hour_ns, false),
        (3, i64::MAX, false),
    ] {
        let (plain, expiring) = (parsed(message(1, 100 + number)), parsed(message(1, number)));
        let records = [record(&plain, None), record(&expiring, Some(retention_ns))];
        let topics = [group_topic(1)];
        let topics = topics.iter().map(envelope::Topic::as_bytes);
        let mut transaction = storage
            .publish_session()
            .await
            .unwrap()
            .begin(false, topics)
            .await
            .unwrap();
        let inserted = transaction.insert(&records).await;
        if fits {
            let expiry_ns = inserted.unwrap()[1].expiry_ns.unwrap();
            assert!(expiry_ns > i64::MAX - 2 * hour_ns, "{expiry_ns}");
            transaction.commit().await.unwrap();
        } else {
            let overflow = db::Error::Invariant(Invariant::TimestampOverflow);
            assert_eq!(inserted.unwrap_err(), overflow);
            drop(transaction);
        }
        assert_eq!(database.count("envelopes").await, 2, "the first two");
    }
    storage.close().await;
    database.drop().await;
}

/// A retention that just fits when the server starts stops to fit a moment later. From then on its
/// publishes fail as a whole, and those of other kinds work (ARC-035, ARC-102).
#[tokio::test]
async fn a_retention_that_time_outgrows_fails_the_publish_and_not_the_server() {
    let server = start_near_overflow().await;
    let database = server.database();
    // Each round stores a row or fails; the clock of the database decides when the first one fails.
    let mut stored = 0;
    let failure = loop {
        let request = vec![message(1, stored), message(2, stored)];
        match server.publish(request).await {
            Ok(_) => stored += 1,
            Err(status) => break status,
        }
    };
    assert_eq!(failure.code(), Code::Internal, "{failure}");
    let rows = i64::try_from(2 * stored).unwrap();
    assert_eq!(database.count("envelopes").await, rows);
    assert_eq!(server.metric(INVARIANT_FAILURES).await, 1);

    let update = update_envelope(creation(&Wallet::numbered(1)));
    let [meta] = metas(server.publish(vec![update]).await)
        .try_into()
        .unwrap();
    assert_eq!(meta.expiry_ns, 0, "identity updates never expire");
    assert!(id_of(&meta) > 2 * stored);
    server.stop().await;
}

/// Starts a server whose retention of group messages ends as soon after the start as it can.
async fn start_near_overflow() -> TestServer {
    let database = TestDatabase::create().await;
    let (storage, _) = open(&database, |_| {});
    let mut margin_s = 1;
    loop {
        let now_ns = storage.clock_ns().await.unwrap();
        let seconds = (i64::MAX - now_ns) / 1_000_000_000 - margin_s;
        let started = TestServer::builder()
            .database(database.share())
            .table("retention", &format!("group_message_seconds = {seconds}"))
            .try_start()
            .await;
        match started {
            Ok(server) => {
                storage.close().await;
                return server;
            }
            // The start took longer than that.
            Err(run::Error::Config(config::Error::Expiry { key })) => {
                assert_eq!(key, "retention.group_message_seconds");
                margin_s *= 2;
            }
            Err(other) => panic!("{other}"),
        }
    }
}
