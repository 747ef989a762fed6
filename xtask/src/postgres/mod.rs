//! Real Postgres for development and tests: found on the machine or fetched, run under an account
//! that is not root, with full durability (ARC-007). Knows nothing of the server.

mod account;
mod binaries;
mod cluster;
mod fetch;
mod find;
mod postmaster;
mod throwaway;

pub(crate) use account::Account;
pub(crate) use binaries::Binaries;
pub(crate) use cluster::{Cluster, Home};
pub(crate) use throwaway::Throwaway;

use crate::signals::Interrupt;

/// Finds Postgres on this machine, or fetches it.
///
/// # Errors
/// The variable names an unusable folder, or nothing is found and nothing can be fetched.
pub(crate) fn obtain(account: &Account, interrupt: &Interrupt) -> anyhow::Result<Binaries> {
    match find::find(account)? {
        find::Found::Usable(binaries) => Ok(binaries),
        find::Found::Nothing(refused) => {
            for reason in refused {
                eprintln!("note: {reason}");
            }
            fetch::fetch(account, interrupt)
        }
    }
}
