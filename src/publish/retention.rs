//! How long each kind of envelope is kept (API-021, ARC-102).

use envelope::TopicKind;

/// Nanoseconds of a second.
const NS_PER_SECOND: i64 = 1_000_000_000;

/// Retention per kind, as storage takes it.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    group_message_ns: i64,
    welcome_ns: i64,
    key_package_ns: i64,
}

impl Retention {
    /// From the configured seconds.
    #[must_use]
    pub fn new(configured: &crate::config::Retention) -> Self {
        // The configuration's range keeps the products inside the type.
        let ns = |seconds: u64| {
            i64::try_from(seconds).map_or(i64::MAX, |s| s.saturating_mul(NS_PER_SECOND))
        };
        Self {
            group_message_ns: ns(configured.group_message_seconds),
            welcome_ns: ns(configured.welcome_seconds),
            key_package_ns: ns(configured.key_package_seconds),
        }
    }

    /// The retention of one envelope, in nanoseconds; `None` for what never expires whatever is
    /// configured: identity updates, commit-log entries, commits and proposals.
    #[must_use]
    pub fn of(&self, kind: TopicKind, is_commit_or_proposal: bool) -> Option<i64> {
        match kind {
            TopicKind::GroupMessage => (!is_commit_or_proposal).then_some(self.group_message_ns),
            TopicKind::Welcome => Some(self.welcome_ns),
            TopicKind::KeyPackage => Some(self.key_package_ns),
            TopicKind::IdentityUpdate | TopicKind::CommitLogEntry => None,
        }
    }
}
