//! The account that Postgres runs under. Postgres refuses to run as root, so root hands over to
//! the account `nobody`, which must then be able to reach the binaries and to own the data.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use rustix::fs::Mode;

/// Others may enter the folder.
const OTHERS_MAY_ENTER: u32 = 0o001;

/// Who Postgres runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Account {
    /// The user who started this program.
    Own {
        /// User id.
        uid: u32,
    },
    /// `nobody`, because root started this program.
    Nobody {
        /// User id.
        uid: u32,
        /// Group id.
        gid: u32,
    },
}

impl Account {
    /// The account for the user who started this program.
    ///
    /// # Errors
    /// It is root, and the machine has no account `nobody`.
    pub(crate) fn choose() -> anyhow::Result<Self> {
        let own = rustix::process::geteuid();
        if !own.is_root() {
            return Ok(Self::Own { uid: own.as_raw() });
        }
        let accounts = std::fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
        // What root creates here is for another account to read: a strict mask would keep it out.
        rustix::process::umask(Mode::from_raw_mode(0o022));
        let (uid, gid) = nobody(&accounts).context(
            "Postgres cannot run as root, and this machine has no account \"nobody\" to run it \
             under: start this as another user",
        )?;
        Ok(Self::Nobody { uid, gid })
    }

    /// Lets a command run under this account. Supplementary groups are dropped with it.
    pub(crate) fn apply(&self, command: &mut Command) {
        match self {
            Self::Own { .. } => {}
            Self::Nobody { uid, gid } => {
                command.uid(*uid).gid(*gid);
            }
        }
    }

    /// Gives a file or folder to this account.
    pub(crate) fn give(&self, path: &Path) -> anyhow::Result<()> {
        match self {
            Self::Own { .. } => Ok(()),
            Self::Nobody { uid, gid } => std::os::unix::fs::chown(path, Some(*uid), Some(*gid))
                .with_context(|| format!("cannot give {} to the account nobody", path.display())),
        }
    }

    /// The outermost folder on the way to `path` that this account cannot enter.
    pub(crate) fn barrier(&self, path: &Path) -> Option<PathBuf> {
        match self {
            Self::Own { .. } => None,
            Self::Nobody { .. } => {
                let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
                let mut folders: Vec<&Path> = path.ancestors().collect();
                folders.reverse();
                folders
                    .into_iter()
                    .find(|folder| closed(folder))
                    .map(Path::to_owned)
            }
        }
    }

    /// Fails if a data folder belongs to somebody else: Postgres would refuse it in other words.
    pub(crate) fn check_owner(&self, folder: &Path) -> anyhow::Result<()> {
        let (Self::Own { uid } | Self::Nobody { uid, .. }) = self;
        let owner = std::fs::metadata(folder)
            .with_context(|| format!("cannot look at {}", folder.display()))?
            .uid();
        anyhow::ensure!(
            owner == *uid,
            "{} belongs to user {owner}, but Postgres would run as user {uid}: run this as the user \
             who made it, or remove that folder",
            folder.display()
        );
        Ok(())
    }
}

/// Says whether others are kept out of this folder. A file or a missing path closes nothing.
fn closed(folder: &Path) -> bool {
    match folder.metadata() {
        Ok(found) => found.is_dir() && found.mode() & OTHERS_MAY_ENTER == 0,
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

/// User and group id of `nobody` in the text of `/etc/passwd`.
fn nobody(accounts: &str) -> Option<(u32, u32)> {
    accounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        match fields.as_slice() {
            ["nobody", _, uid, gid, ..] => Some((id(uid)?, id(gid)?)),
            _ => None,
        }
    })
}

/// Reads a user or group id. macOS writes -2 for 4294967294.
fn id(text: &str) -> Option<u32> {
    let negative = text.parse::<i32>().ok().map(i32::cast_unsigned);
    text.parse().ok().or(negative)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// The ids come from the line of that name, and from nowhere else.
    #[test]
    fn nobody_is_found_by_name() {
        let linux = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65533:nobody:/:/bin/false\n";
        assert_eq!(nobody(linux), Some((65534, 65533)));
        let macos = "##\n# User Database\nnobody:*:-2:-2:Unprivileged User:/var/empty:/bin/false\n";
        assert_eq!(nobody(macos), Some((u32::MAX - 1, u32::MAX - 1)));
        for absent in ["", "nobody2:x:1:1::/:", "nobody:x", "nobody:x:a:b::/:"] {
            assert_eq!(nobody(absent), None, "{absent}");
        }
    }

    /// A folder closed to others stands in the way of `nobody`, and only of `nobody`.
    #[test]
    fn closed_folder_is_a_barrier_for_nobody_only() {
        let outer = std::env::temp_dir().join(format!("xtask-barrier-{}", std::process::id()));
        let inner = outer.join("inner");
        std::fs::create_dir_all(&inner).unwrap();
        let nobody = Account::Nobody {
            uid: 65534,
            gid: 65534,
        };
        let outside = nobody.barrier(&std::env::temp_dir());
        std::fs::set_permissions(&outer, std::fs::Permissions::from_mode(0o711)).unwrap();
        assert_eq!(nobody.barrier(&outer), outside);
        std::fs::set_permissions(&outer, std::fs::Permissions::from_mode(0o700)).unwrap();
        let barrier = nobody.barrier(&inner);
        let own = Account::Own { uid: 1000 }.barrier(&inner);
        std::fs::remove_dir_all(&outer).unwrap();
        assert!(barrier.is_some());
        assert_eq!(own, None);
    }
}
