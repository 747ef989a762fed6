//! The advisory locks and the one order in which they are taken (ARC-031, ARC-032, ARC-039).
//!
//! Two-integer keys are the global domain, one-bigint keys are topics; PostgreSQL keeps the two
//! apart, so a topic can never collide with a global lock. Every transaction takes them in this
//! order: identity, topics by ascending key, allocation barrier. Nothing else in the server takes
//! an advisory lock.

use std::fmt::{self, Write as _};

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

/// The statements that take the locks of a publish, in order: the global identity lock if asked for
/// (ARC-032), each topic once by ascending key (ARC-031), and the allocation barrier, shared and
/// last, so that ids are allocated only under all of them (ARC-030, ARC-039).
///
/// They are text because they travel with the begin of the transaction in one round trip; nothing
/// but integers is put into it. They read no table: a snapshot taken here would be older than the
/// waits.
pub(super) fn publish_locks<'a>(identity: bool, topics: impl Iterator<Item = &'a [u8]>) -> String {
    let mut keys: Vec<i64> = topics.map(topic_key).collect();
    keys.sort_unstable();
    keys.dedup();

    let mut statements = String::with_capacity(256 + keys.len() * 21);
    if identity {
        let identity = GlobalLock::Identity.number();
        push(
            &mut statements,
            format_args!("SELECT pg_advisory_xact_lock({LOCK_CLASS}, {identity}); "),
        );
    }
    statements.push_str("SELECT pg_advisory_xact_lock(key) FROM unnest('{");
    for (index, key) in keys.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        push(&mut statements, format_args!("{comma}{key}"));
    }
    let barrier = GlobalLock::Barrier.number();
    push(
        &mut statements,
        format_args!(
            "}}'::bigint[]) AS topic (key); \
         SELECT pg_advisory_xact_lock_shared({LOCK_CLASS}, {barrier})"
        ),
    );
    statements
}

fn push(statements: &mut String, text: fmt::Arguments<'_>) {
    statements.write_fmt(text).expect("a string takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of ARC-031: identity, topics ascending and once each, barrier.
    #[test]
    fn a_publish_locks_identity_then_sorted_topics_then_the_barrier() {
        let topics: [&[u8]; 4] = [b"b", b"a", b"c", b"a"];
        let mut keys = [topic_key(b"a"), topic_key(b"b"), topic_key(b"c")];
        keys.sort_unstable();
        let [low, middle, high] = keys;
        assert_eq!(
            publish_locks(true, topics.into_iter()),
            format!(
                "SELECT pg_advisory_xact_lock(1481462864, 2); \
                 SELECT pg_advisory_xact_lock(key) \
                 FROM unnest('{{{low},{middle},{high}}}'::bigint[]) AS topic (key); \
                 SELECT pg_advisory_xact_lock_shared(1481462864, 3)"
            )
        );
    }

    /// Other topics must not wait for identity publishes (ARC-032).
    #[test]
    fn a_publish_without_identity_update_leaves_the_identity_lock_alone() {
        let statements = publish_locks(false, [b"a".as_slice()].into_iter());
        assert!(
            !statements.contains("pg_advisory_xact_lock(1481462864"),
            "{statements}"
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
