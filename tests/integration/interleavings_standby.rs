//! The histories of [`interleavings`](crate::interleavings) on a real standby, whose replay stops when
//! the test says so: what it shows, and not what the primary knows, is evidence (ARC-041, ARC-112).

use harness::{Replicated, TestDatabase};
use xmtp_backend::db::Database;

use crate::tailing::{Publishers, Reader, close, open_storage};

/// A database on a primary and its standby, and the storage of a server that reads from the standby.
async fn on_a_standby(replicated: &Replicated) -> (TestDatabase, Database) {
    let database = replicated.create_bare().await;
    Database::migrate(&database.options()).await.unwrap();
    replicated.catch_up().await;
    let standby = replicated.standby_url(&database).parse().unwrap();
    let storage = open_storage(&database, |settings| settings.replica = Some(standby));
    (database, storage)
}

/// 12 and 13, on one standby. 12: a row that is committed and closed on the primary is missing on the
/// standby, whose own boundary keeps its gap; the primary's number would lose it. 13: a reader that
/// must begin at a boundary waits until the standby shows it.
#[tokio::test]
async fn standby_is_believed_only_what_it_shows_itself() {
    let replicated = Replicated::start().await;
    let (database, storage) = on_a_standby(&replicated).await;
    let mut publishers = Publishers::of(&database);
    let mut reader = Reader::start(&storage, 1024).await;
    let a1 = publishers.open("A").await;
    publishers.publish("B").await;
    replicated.catch_up().await;
    assert_eq!(reader.poll().await, ["B2"]);
    replicated.pause_replay().await;
    a1.commit().await;
    let closed = close(&storage).await;
    assert_eq!(closed, 2);
    for _ in 0..2 {
        assert!(reader.poll().await.is_empty());
        assert_eq!((reader.boundary(), reader.missing()), (0, vec![(1, 1)]));
    }
    // 13, while replay is paused.
    assert!(Reader::start_after(&storage, closed, 1024).await.is_none());
    replicated.resume_replay().await;
    replicated.catch_up().await;
    assert_eq!(reader.poll().await, ["A1"]);
    assert_eq!((reader.boundary(), reader.missing()), (2, vec![]));
    let mut next = Reader::start_after(&storage, closed, 1024).await.unwrap();
    assert_eq!(next.cursor(), 2);
    assert!(next.poll().await.is_empty());
}

/// 14. Readers on the primary and on a standby that is paused deliver the same in the end, each by
/// what its own server shows.
#[tokio::test]
async fn readers_of_primary_and_standby_agree_in_the_end() {
    let replicated = Replicated::start().await;
    let (database, standby_storage) = on_a_standby(&replicated).await;
    let storage = open_storage(&database, |_| {});
    let mut publishers = Publishers::of(&database);
    let mut primary = Reader::start(&storage, 1024).await;
    let mut standby = Reader::start(&standby_storage, 1024).await;
    let open = publishers.open("AB").await;
    publishers.publish("C").await;
    replicated.catch_up().await;
    for reader in [&mut primary, &mut standby] {
        assert_eq!(reader.poll().await, ["C3"]);
        assert_eq!(reader.missing(), [(1, 2)]);
    }
    replicated.pause_replay().await;
    open.commit().await;
    publishers.publish("A").await;
    assert_eq!(close(&storage).await, 4);
    assert_eq!(primary.poll().await, ["A1 B2 A4"]);
    assert!(standby.poll().await.is_empty());
    assert_eq!(standby.missing(), [(1, 2)]);
    replicated.resume_replay().await;
    replicated.catch_up().await;
    assert_eq!(standby.poll().await, ["A1 B2 A4"]);
    assert_eq!((standby.boundary(), standby.missing()), (4, vec![]));
}

/// 17. A standby that becomes a primary of its own keeps its connections, shows no new row, and
/// nothing of that is an error. Its identity is the one sign there is.
#[tokio::test]
async fn promotion_shows_in_the_identity_and_nowhere_else() {
    let replicated = Replicated::start().await;
    let (database, storage) = on_a_standby(&replicated).await;
    let mut publishers = Publishers::of(&database);
    let mut reader = Reader::start(&storage, 1024).await;
    publishers.publish("A").await;
    replicated.catch_up().await;
    assert_eq!(reader.poll().await, ["A1"]);
    assert_eq!(reader.server_of_empty_page().await, reader.server());
    replicated.promote().await;
    publishers.publish("A").await;
    assert_ne!(reader.server_of_empty_page().await, reader.server());
    database.drop().await;
}
