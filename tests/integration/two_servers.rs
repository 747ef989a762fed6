//! Two servers on one database: what one does, the other knows (ARC-001, ARC-033).

use envelope::fixtures::{Wallet, update_envelope};
use harness::{AdvisoryLock, TestServer, Transport};
use tonic::Code;

use crate::given::{code, confirmation, creation, group_topic, ids, inbox_topic, message, metas};

async fn pair() -> [TestServer; 2] {
    let one = TestServer::start().await;
    let two = TestServer::builder()
        .database(one.database().share())
        .start()
        .await;
    [one, two]
}

async fn stop([one, two]: [TestServer; 2]) {
    two.stop_keeping_database().await;
    one.stop().await;
}

/// Publishes by turns on both servers get ascending ids, whatever the topic (ARC-033, API-289).
#[tokio::test]
async fn ids_ascend_across_servers() {
    let servers = pair().await;
    let mut last = 0;
    for number in 0..20 {
        let server = &servers[usize::from(number % 2 == 1)];
        let request = [1, 2, 3].map(|group| message(group, number)).to_vec();
        for id in ids(server.publish(request).await) {
            assert!(id > last, "{id} after {last}");
            last = id;
        }
    }
    stop(servers).await;
}

/// An envelope that one server has stored is a duplicate on the other, also when both are asked at
/// once (ARC-050, API-033).
#[tokio::test]
async fn duplicates_collapse_across_servers() {
    let servers = pair().await;
    let database = servers[0].database();
    let lock = AdvisoryLock::of_topic(group_topic(1).as_bytes());
    let locks = database.advisory_locks().await;
    let held = locks.hold(lock).await;
    let publishes: Vec<_> = servers
        .iter()
        .flat_map(|server| {
            Transport::ALL.map(|transport| server.begin_publish(transport, vec![message(1, 1)]))
        })
        .collect();
    locks.until_waiting(lock, publishes.len()).await;
    held.release().await;
    let stored = metas(servers[0].publish(vec![message(1, 1)]).await);
    for publish in publishes {
        assert_eq!(metas(publish.await.unwrap()), stored);
    }
    assert_eq!(metas(servers[1].publish(vec![message(1, 1)]).await), stored);
    assert_eq!(database.count("envelopes").await, 1);
    stop(servers).await;
}

/// Updates of one inbox on both servers, checked against the same history: one is stored, the other
/// aborted, and can be made again on what is there then (ARC-032, ARC-111).
#[tokio::test]
async fn histories_move_across_servers() {
    let servers = pair().await;
    let wallet = Wallet::numbered(1);
    let created = creation(&wallet);
    let inbox_id = created.inbox_id.clone();
    ids(servers[0].publish(vec![update_envelope(created)]).await);
    let update = |number| vec![confirmation(&wallet, &inbox_id, number)];

    let topic = AdvisoryLock::of_topic(inbox_topic(&inbox_id).as_bytes());
    let locks = servers[0].database().advisory_locks().await;
    let held = locks.hold(topic).await;
    let first = servers[0].begin_publish(Transport::Native, update(1));
    locks.until_waiting(topic, 1).await;
    let second = servers[1].begin_publish(Transport::Native, update(2));
    locks
        .until_waiting(xmtp_backend::db::GlobalLock::Identity.into(), 1)
        .await;
    held.release().await;

    ids(first.await.unwrap());
    assert_eq!(code(second.await.unwrap()), Code::Aborted);
    ids(servers[1].publish(update(2)).await);
    assert_eq!(servers[0].database().count("envelopes").await, 3);
    stop(servers).await;
}
