//! How many files and sockets the operating system lets this process have open.
//!
//! Whoever opens something per peer bounds it by this number: a process without descriptors cannot
//! reach its database either, and would fail for everybody (ARC-002).

use rustix::process::{Resource, getrlimit, setrlimit};

/// What is assumed where the system names no limit, or one beyond it: more than one process uses.
const PLENTY: usize = 1 << 20;

/// Raises the limit as far as the system allows without privileges, and answers what it is then.
///
/// The first limit is often 1024, for programs that use `select` and break beyond it; this one does
/// not, and a process is expected to raise it.
#[must_use]
pub fn raise() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    let before = limit.current;
    limit.current = limit.maximum;
    // Some systems name a maximum that they do not grant; then the first limit stands.
    let granted = match setrlimit(Resource::Nofile, limit) {
        Ok(()) => limit.current,
        Err(_) => before,
    };
    granted
        .and_then(|granted| usize::try_from(granted).ok())
        .map_or(PLENTY, |granted| granted.min(PLENTY))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is answered is what the system says afterwards, and raising twice changes nothing.
    #[test]
    fn the_limit_is_what_the_system_grants() {
        let raised = raise();
        let granted = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        assert_eq!(
            raised,
            usize::try_from(granted).unwrap_or(PLENTY).min(PLENTY)
        );
        assert_eq!(raise(), raised);
    }
}
