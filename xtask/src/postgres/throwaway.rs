//! A cluster in a temporary folder, gone when its value is dropped. What a killed run left is
//! removed by the next one.

use std::fs::DirEntry;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use rustix::process::Pid;

use super::{Account, Binaries, Cluster, Home};
use crate::ports;
use crate::signals::Interrupt;

/// How the folders' names begin.
const PREFIX: &str = "xmtp-backend-postgres-";

/// A running server on an empty cluster. Fields are dropped in this order: the server stops before
/// its folder goes.
pub(crate) struct Throwaway {
    /// The server.
    pub(crate) cluster: Cluster,
    _folder: Folder,
}

/// A folder that is removed at the end.
struct Folder(Home);

impl Throwaway {
    /// Starts one, with these settings on top of the ones that every cluster has.
    pub(crate) fn start(
        binaries: &Binaries,
        account: &Account,
        settings: &[&str],
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let base = base(account)?;
        sweep(&base, account);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let name = format!("{PREFIX}{}-{:x}", std::process::id(), now.as_nanos());
        let folder = Folder(Home::open(&base.join(name), account)?);
        let port = ports::any()?;
        let cluster = Cluster::start(&folder.0, binaries, account, port, settings, interrupt)?;
        Ok(Self {
            cluster,
            _folder: folder,
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(self.0.folder()) {
            eprintln!("cannot remove {}: {error}", self.0.folder().display());
        }
    }
}

/// The first folder for temporary files that the account can reach.
fn base(account: &Account) -> anyhow::Result<PathBuf> {
    [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()]
        .into_iter()
        .find(|folder| folder.is_dir() && account.barrier(folder).is_none())
        .context("Postgres cannot reach a folder for temporary files: set TMPDIR to one it can")
}

/// Removes what killed runs of the same user left.
fn sweep(base: &Path, account: &Account) {
    let Ok(entries) = base.read_dir() else {
        return;
    };
    for entry in entries.flatten().filter(is_left_over) {
        if let Ok(home) = Home::open(&entry.path(), account) {
            // A failure leaves the folder for the next run; this one has its own.
            let _ = home
                .erase()
                .map(|()| std::fs::remove_dir_all(home.folder()));
        }
    }
}

/// Whether this is a folder of ours whose maker is gone.
fn is_left_over(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let maker = name
        .to_str()
        .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok())
        .and_then(Pid::from_raw);
    let own = rustix::process::geteuid().as_raw();
    // Not followed if it is a link: in a folder open to all, anybody may put one there.
    let ours = entry
        .metadata()
        .is_ok_and(|found| found.is_dir() && found.uid() == own);
    ours && maker.is_some_and(|maker| rustix::process::test_kill_process(maker).is_err())
}
