//! The advisory locks and the one order in which they are taken (ARC-031, ARC-032, ARC-039).
//!
//! Two-integer keys are the global domain, one-bigint keys are topics; PostgreSQL keeps the two
//! apart, so a topic can never collide with a global lock. Every transaction takes them in this
//! order: identity, topics by ascending key, allocation barrier. Nothing else in the server takes
//! an advisory lock.

use sha2::{Digest as _, Sha256};

/// The first integer of every global lock: `XMTP` in ASCII.
pub const LOCK_CLASS: i32 = i32::from_be_bytes(*b"XMTP");

/// The second integer of a global lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum GlobalLock {
    /// Held by the session that migrates.
    Migration = 1,
    /// Held by publishes that carry an identity update (ARC-032).
    Identity = 2,
    /// Shared by publishers, exclusive for the boundary task (ARC-039).
    Barrier = 3,
    /// Held by the session that dispatches push notifications.
    PushDispatcher = 4,
}

impl GlobalLock {
    /// The number PostgreSQL sees.
    #[must_use]
    pub const fn number(self) -> i32 {
        self as i32
    }
}

/// The lock key of a topic: the first eight bytes of its SHA-256, big-endian.
///
/// A collision only makes two topics wait for each other; the order stays total.
#[must_use]
pub fn topic_key(topic: &[u8]) -> i64 {
    let digest: [u8; 32] = Sha256::digest(topic).into();
    let [a, b, c, d, e, f, g, h, ..] = digest;
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// How one entry of a lock list is taken; the numbers appear in the lock statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
enum Mode {
    /// The global identity lock, exclusive.
    Identity = 0,
    /// A topic, exclusive.
    Topic = 1,
    /// The allocation barrier, shared.
    SharedBarrier = 2,
}

/// The locks of one publish, in the order in which they are taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LockList {
    /// [`Mode`] numbers.
    pub(super) modes: Vec<i32>,
    /// Topic keys; 0 where the mode needs none.
    pub(super) keys: Vec<i64>,
}

impl LockList {
    /// Lists identity if asked for, each topic once by ascending key, and the barrier last, so
    /// that sequence ids are allocated only under all of them (ARC-030).
    pub(super) fn for_publish<'a>(identity: bool, topics: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut topic_keys: Vec<i64> = topics.map(topic_key).collect();
        topic_keys.sort_unstable();
        topic_keys.dedup();

        let mut list = Self {
            modes: Vec::with_capacity(topic_keys.len() + 2),
            keys: Vec::with_capacity(topic_keys.len() + 2),
        };
        if identity {
            list.push(Mode::Identity, 0);
        }
        for key in topic_keys {
            list.push(Mode::Topic, key);
        }
        list.push(Mode::SharedBarrier, 0);
        list
    }

    fn push(&mut self, mode: Mode, key: i64) {
        self.modes.push(mode as i32);
        self.keys.push(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of ARC-031: identity, topics ascending and once each, barrier.
    #[test]
    fn a_publish_locks_identity_then_sorted_topics_then_the_barrier() {
        let topics: [&[u8]; 4] = [b"b", b"a", b"c", b"a"];
        let list = LockList::for_publish(true, topics.into_iter());

        let mut expected = vec![topic_key(b"a"), topic_key(b"b"), topic_key(b"c")];
        expected.sort_unstable();
        assert_eq!(list.modes, [0, 1, 1, 1, 2]);
        assert_eq!(list.keys[1..4], expected[..]);
    }

    /// Other topics must not wait for identity publishes (ARC-032).
    #[test]
    fn a_publish_without_identity_update_leaves_the_identity_lock_alone() {
        let list = LockList::for_publish(false, [b"a".as_slice()].into_iter());
        assert_eq!(list.modes, [1, 2]);
    }

    /// Two servers of different versions must agree on the key of a topic.
    #[test]
    fn a_topic_key_is_the_head_of_its_sha_256() {
        // SHA-256 of the empty string starts e3b0c44298fc1c14.
        assert_eq!(
            topic_key(b"").to_be_bytes(),
            [0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14]
        );
    }
}
