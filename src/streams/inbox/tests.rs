//! What an inbox keeps, and what it only remembers.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use tokio::time::timeout;

use super::*;
use crate::db::StoredMeta;
use crate::streams::frame::delivered_bytes;

fn delivery(id: u64, payload_bytes: u64) -> Arc<Delivery> {
    Arc::new(Delivery {
        topic: Bytes::new(),
        hash: Bytes::new(),
        meta: StoredMeta {
            sequence_id: SequenceId::from_wire(id).unwrap(),
            server_ns: 0,
            expiry_ns: None,
            is_commit_or_proposal: false,
        },
        payload: vec![0; usize::try_from(payload_bytes).unwrap()].into(),
    })
}

fn ids(notices: &Notices) -> Vec<(u64, u64)> {
    let rows = notices.rows.iter();
    rows.map(|(r, row)| (r.0, row.id().to_wire())).collect()
}

/// Rows are kept in their order, and taking them empties the inbox.
#[test]
fn rows_are_kept_in_order() {
    let inbox = Inbox::default();
    for (registration, id) in [(1, 3), (2, 3), (1, 5), (2, 9)] {
        inbox.put(Registration(registration), &delivery(id, 10));
    }
    let notices = inbox.take();
    assert_eq!(ids(&notices), [(1, 3), (2, 3), (1, 5), (2, 9)]);
    assert!(notices.behind.is_empty());
    let notices = inbox.take();
    assert!(notices.rows.is_empty() && notices.behind.is_empty());
}

/// Rows are kept to the byte; after that only how far each topic goes, and a topic that is behind stays
/// so although a small row would fit: its order must not change (ARC-077, ARC-078).
#[test]
fn what_does_not_fit_is_remembered_by_its_id() {
    let inbox = Inbox::default();
    let rest = 1_000;
    let first = LIVE_BYTES - delivered_bytes(0) - delivered_bytes(rest);
    inbox.put(Registration(1), &delivery(1, first));
    inbox.put(Registration(2), &delivery(2, rest + 1));
    inbox.put(Registration(2), &delivery(3, 0));
    inbox.put(Registration(2), &delivery(7, 0));
    inbox.put(Registration(1), &delivery(8, rest));
    inbox.put(Registration(3), &delivery(9, 0));
    let notices = inbox.take();
    assert_eq!(ids(&notices), [(1, 1), (1, 8)]);
    assert_eq!(notices.bytes, LIVE_BYTES);
    let behind = [(2, 7), (3, 9)];
    let behind = behind.map(|(r, id)| (Registration(r), SequenceId::from_wire(id).unwrap()));
    assert_eq!(notices.behind, HashMap::from(behind));
    // Everything fits again.
    inbox.put(Registration(2), &delivery(10, 0));
    assert_eq!(ids(&inbox.take()), [(2, 10)]);
}

/// A wake before the wait is not lost, and one wake is one return.
#[tokio::test]
async fn a_wake_is_not_lost() {
    let inbox = Inbox::default();
    assert!(inbox.filled().now_or_never().is_none());
    inbox.wake();
    inbox.wake();
    timeout(Duration::from_secs(10), inbox.filled())
        .await
        .unwrap();
    assert!(inbox.filled().now_or_never().is_none());
}
