//! The `[mls]` table: advice to clients, published and never enforced.

use super::key::{defaults, integer, section, switch};

/// Most members and installations that can be advised.
const ADVICE_MAX: i64 = 65_535;

section! {
    /// Advice to clients, published and never enforced.
    pub struct Mls {
        /// Group members that a client admits.
        "max_group_members" => max_group_members: u32 = integer(1, ADVICE_MAX).or(250);
        /// Installations per inbox that a client admits.
        "max_installations_per_inbox" => max_installations_per_inbox: u32 =
            integer(1, ADVICE_MAX).or(10);
        /// Whether clients write and read the commit log on this deployment.
        "commit_log_enabled" => commit_log_enabled: bool = switch().or(true);
    }
}

impl Default for Mls {
    fn default() -> Self {
        defaults()
    }
}
