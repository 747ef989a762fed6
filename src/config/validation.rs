//! The `[validation]` table: verification of smart contract wallet signatures (SEC-042).

use super::key::{UNBOUNDED, defaults, integer, section};

section! {
    /// Verification of smart contract wallet signatures.
    pub struct Validation {
        /// Most verdicts that one server process remembers; the least recently used one makes room
        /// (SEC-042).
        "max_scw_cache_entries" => max_scw_cache_entries: u64 = integer(1, UNBOUNDED).or(10_000);
    }
}

impl Default for Validation {
    fn default() -> Self {
        defaults()
    }
}
