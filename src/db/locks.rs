//! The advisory locks and the one order in which they are taken (ARC-031, ARC-032, ARC-039).
//!
//! Two-integer keys are the global domain, one-bigint keys are topics; PostgreSQL keeps the two
//! apart, so a topic can never collide with a global lock. Every transaction takes them in this
//! order: identity, topics by ascending key, allocation barrier. Nothing else in the server takes
//! an advisory lock.

use std::fmt::Write as _;

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

/// How one entry of the lock statement's list is taken.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Mode {
    /// The global identity lock, exclusive.
    Identity = 0,
    /// A topic, exclusive.
    Topic = 1,
    /// The allocation barrier, shared.
    SharedBarrier = 2,
}

/// The statement that takes the locks of a publish, in order: the global identity lock if asked for
/// (ARC-032), each topic once by ascending key (ARC-031), and the allocation barrier, shared and
/// last, so that ids are allocated only under all of them (ARC-030, ARC-039).
///
/// `unnest` gives the entries in array order. The statement is text because it travels with the
/// begin of the transaction in one round trip; nothing but integers is put into it. It reads no
/// table: a snapshot taken here would be older than the waits.
pub(super) fn publish_locks<'a>(identity: bool, topics: impl Iterator<Item = &'a [u8]>) -> String {
    let mut keys: Vec<i64> = topics.map(topic_key).collect();
    keys.sort_unstable();
    keys.dedup();
    let identity = identity.then_some((Mode::Identity, 0));
    let topics = keys.into_iter().map(|key| (Mode::Topic, key));
    let list: Vec<(Mode, i64)> = identity
        .into_iter()
        .chain(topics)
        .chain([(Mode::SharedBarrier, 0)])
        .collect();

    format!(
        "SELECT CASE mode \
                WHEN {identity_mode} THEN pg_advisory_xact_lock({LOCK_CLASS}, {identity}) \
                WHEN {topic_mode} THEN pg_advisory_xact_lock(key) \
                ELSE pg_advisory_xact_lock_shared({LOCK_CLASS}, {barrier}) END \
           FROM unnest('{{{modes}}}'::int[], '{{{keys}}}'::bigint[]) AS list (mode, key)",
        identity_mode = Mode::Identity as u8,
        topic_mode = Mode::Topic as u8,
        identity = GlobalLock::Identity.number(),
        barrier = GlobalLock::Barrier.number(),
        modes = separated(list.iter().map(|(mode, _)| i64::from(*mode as u8))),
        keys = separated(list.iter().map(|(_, key)| *key)),
    )
}

/// The statement that takes the allocation barrier alone, for the boundary task (ARC-039).
pub(super) fn exclusive_barrier() -> String {
    let barrier = GlobalLock::Barrier.number();
    format!("SELECT pg_advisory_xact_lock({LOCK_CLASS}, {barrier})")
}

/// Integers with commas between them.
fn separated(integers: impl Iterator<Item = i64>) -> String {
    let mut text = String::new();
    for (index, integer) in integers.enumerate() {
        let comma = if index == 0 { "" } else { "," };
        write!(text, "{comma}{integer}").expect("a string takes any text");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list of a statement: modes, then keys.
    fn list(statement: &str) -> &str {
        statement.split_once("FROM unnest(").unwrap().1
    }

    /// The order of ARC-031: identity, topics ascending and once each, barrier.
    #[test]
    fn a_publish_locks_identity_then_sorted_topics_then_the_barrier() {
        let topics: [&[u8]; 4] = [b"b", b"a", b"c", b"a"];
        let mut keys = [topic_key(b"a"), topic_key(b"b"), topic_key(b"c")];
        keys.sort_unstable();
        let [low, middle, high] = keys;
        let statement = publish_locks(true, topics.into_iter());
        assert_eq!(
            list(&statement),
            format!(
                "'{{0,1,1,1,2}}'::int[], '{{0,{low},{middle},{high},0}}'::bigint[]) \
                 AS list (mode, key)"
            )
        );
    }

    /// Other topics must not wait for identity publishes (ARC-032).
    #[test]
    fn a_publish_without_identity_update_leaves_the_identity_lock_alone() {
        let statement = publish_locks(false, [b"a".as_slice()].into_iter());
        assert!(
            list(&statement).starts_with("'{1,2}'::int[]"),
            "{statement}"
        );
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
