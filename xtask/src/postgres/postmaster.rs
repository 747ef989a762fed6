//! Reads `postmaster.pid`, by which Postgres tells who serves a data folder and how far it is, and
//! deals with the one that a killed run of this program left behind.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal};

use crate::process;

/// The file, inside the data folder.
const FILE: &str = "postmaster.pid";

/// Line 8 holds the state.
const STATE_LINE: usize = 7;

/// How long a fast shutdown of a left-over server may take: it writes a checkpoint.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Postmaster {
    /// The process that serves the data folder, or did.
    pub(crate) pid: Pid,
    /// It accepts connections.
    pub(crate) ready: bool,
}

impl Postmaster {
    /// Reads the file; `None` where there is none, or not yet a whole one.
    pub(crate) fn read(data: &Path) -> anyhow::Result<Option<Self>> {
        let path = data.join(FILE);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        // A server in single-user mode writes its id as a negative number.
        let pid = lines
            .next()?
            .trim()
            .parse::<i32>()
            .ok()
            .filter(|pid| *pid > 0)?;
        let state = lines.nth(STATE_LINE - 1).unwrap_or_default();
        Some(Self {
            pid: Pid::from_raw(pid)?,
            ready: state.trim() == "ready",
        })
    }
}

/// Makes a data folder free to be served again. Whoever calls this holds the lock of the folder:
/// a server that still runs was left behind by a run that was killed.
///
/// # Errors
/// The left-over server does not stop.
pub(crate) fn clear_leftover(data: &Path) -> anyhow::Result<()> {
    let Some(Postmaster { pid, .. }) = Postmaster::read(data)? else {
        return Ok(());
    };
    if process::runs_with(pid, data) {
        eprintln!("stopping the Postgres (process {pid}) that a killed run left behind");
        if !process::stop_stranger(pid, data, Signal::INT, STOP_PATIENCE) {
            bail!(
                "process {pid} still serves {} and does not stop: end it with kill -QUIT {pid}",
                data.display()
            );
        }
    }
    // A postmaster removes its file when it stops. If it is still there, it is stale, and its
    // process id may by now belong to somebody whom Postgres would take for a postmaster.
    match std::fs::remove_file(data.join(FILE)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).context("cannot remove a stale postmaster.pid")
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state counts only where Postgres writes it; anything short of that is not ready.
    #[test]
    fn state_is_read_from_line_eight() {
        let head = "4711\n/data\n1700000000\n5433\n\n127.0.0.1\n  5432001   3\n";
        let cases = [
            (format!("{head}ready   \n"), Some((4711, true))),
            (format!("{head}starting\n"), Some((4711, false))),
            (format!("{head}stopping\n"), Some((4711, false))),
            (format!("{head}standby \n"), Some((4711, false))),
            (head.to_owned(), Some((4711, false))),
            ("4711\n".to_owned(), Some((4711, false))),
            ("ready\n".repeat(8), None),
            ("-4711\n/data\n".to_owned(), None),
            ("0\n".to_owned(), None),
            (String::new(), None),
        ];
        for (text, expected) in cases {
            let read = Postmaster::parse(&text).map(|p| (p.pid.as_raw_nonzero().get(), p.ready));
            assert_eq!(read, expected, "{text:?}");
        }
    }

    /// A file whose process id belongs to another program is stale: it goes, the program stays.
    #[test]
    fn stale_file_is_removed_and_its_process_left_alone() {
        let data = std::env::temp_dir().join(format!("xtask-stale-{}", std::process::id()));
        std::fs::create_dir_all(&data).unwrap();
        let mut other = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        std::fs::write(data.join(FILE), format!("{}\n", other.id())).unwrap();
        clear_leftover(&data).unwrap();
        let left = data.join(FILE).exists();
        let ended = other.try_wait().unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
        std::fs::remove_dir_all(&data).unwrap();
        assert!(!left);
        assert_eq!(ended, None);
    }
}
