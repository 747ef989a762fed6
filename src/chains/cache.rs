//! Verdicts at numbered blocks, remembered until others need their room (SEC-042).
//!
//! A verdict at a block does not change, unless the chain reorganizes; that is not watched for, so a
//! verdict of an orphaned block can stay until it is evicted or the process ends.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use envelope::scw::Address;
use sha2::{Digest as _, Sha256};

/// What a question hashes to.
pub(super) type Key = [u8; 32];

/// The key of a question at a numbered block. No two questions share one: every part of variable
/// length carries its length, and a tag says that a block number follows.
pub(super) fn key(
    chain: &str,
    account: &Address,
    hash: &[u8; 32],
    signature: &[u8],
    block: u64,
) -> Key {
    // Neither part is near 32 bits: the transport bounds the request that brought them.
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes();
    Sha256::new()
        .chain_update(length(chain.as_bytes()))
        .chain_update(chain)
        .chain_update(account)
        .chain_update(hash)
        .chain_update(length(signature))
        .chain_update(signature)
        .chain_update([1])
        .chain_update(block.to_be_bytes())
        .finalize()
        .into()
}

/// A bounded map that forgets what was not asked for the longest.
pub(super) struct Cache {
    entries_max: usize,
    entries: HashMap<Key, Entry>,
    /// Keys by their last use.
    by_use: BTreeMap<u64, Key>,
    /// Counts uses. At one per nanosecond it lasts for centuries.
    uses: u64,
}

struct Entry {
    is_valid: bool,
    last_use: u64,
}

impl Cache {
    /// An empty cache of at least one entry.
    pub(super) fn new(entries_max: usize) -> Self {
        Self {
            entries_max: entries_max.max(1),
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
        }
    }

    /// The verdict, if it is remembered; remembering it makes it the last to be forgotten.
    pub(super) fn recall(&mut self, key: &Key) -> Option<bool> {
        let is_valid = self.entries.get(key)?.is_valid;
        self.remember(*key, is_valid);
        Some(is_valid)
    }

    /// Remembers a verdict, and forgets the one that was not used for the longest when there is no
    /// room.
    pub(super) fn remember(&mut self, key: Key, is_valid: bool) {
        self.uses = self.uses.saturating_add(1);
        let entry = Entry {
            is_valid,
            last_use: self.uses,
        };
        if let Some(earlier) = self.entries.insert(key, entry) {
            self.by_use.remove(&earlier.last_use);
        }
        self.by_use.insert(self.uses, key);
        if self.entries.len() > self.entries_max
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("entries", &self.entries.len())
            .field("entries_max", &self.entries_max)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known keys: chain, account and block each change it (case 123).
    #[test]
    fn keys_are_known_bytes() {
        let signature = [&[1][..], &[0xaa; 64]].concat();
        let cases = [
            (
                ("eip155:1", 0x11, 100),
                "31fd3e9eb43297ff4b382a7aea2bfcf59054be6184899156febc2196d95f75d2",
            ),
            (
                ("eip155:137", 0x11, 100),
                "7d31bb8fb60a9f65be02c538befbc9eafb3ba0fc2e8500cd5ee7024489de9c66",
            ),
            (
                ("eip155:1", 0x12, 100),
                "34be457cf500e2c4ffe017b286c73f365a4004e4ab250293c4968f8fb3bb895a",
            ),
            (
                ("eip155:1", 0x11, 0),
                "355939eaa09ad6b64f3d21841841560b5dc160b38ca5142b3975be01721a2161",
            ),
        ];
        for ((chain, account, block), expected) in cases {
            let key = key(chain, &[account; 20], &[0x42; 32], &signature, block);
            assert_eq!(hex::encode(key), expected);
        }
    }

    /// Case 125: of two entries the one that was asked for stays; a repeated verdict takes no room.
    #[test]
    fn the_least_recently_used_verdict_is_forgotten() {
        let mut cache = Cache::new(2);
        cache.remember([1; 32], true);
        cache.remember([2; 32], false);
        cache.remember([2; 32], false);
        assert_eq!(cache.recall(&[1; 32]), Some(true));
        cache.remember([3; 32], true);
        assert_eq!(cache.recall(&[2; 32]), None);
        assert_eq!(cache.recall(&[1; 32]), Some(true));
        assert_eq!(cache.recall(&[3; 32]), Some(true));
        assert_eq!((cache.entries.len(), cache.by_use.len()), (2, 2));
    }

    /// The bound holds however many verdicts come, also at its least.
    #[test]
    fn the_number_of_verdicts_is_bounded() {
        for (asked, kept) in [(0, 1), (1, 1), (10, 10)] {
            let mut cache = Cache::new(asked);
            for number in 0..100_u8 {
                cache.remember([number; 32], true);
            }
            assert_eq!((cache.entries.len(), cache.by_use.len()), (kept, kept));
        }
    }
}
