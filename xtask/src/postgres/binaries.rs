//! One folder of Postgres programs: which version it holds and whether it is complete.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::Account;

/// The oldest major version that the server supports (ARC-007).
pub(crate) const OLDEST_MAJOR: u32 = 17;

/// Programs without which a folder is of no use.
const REQUIRED: [&str; 2] = ["initdb", "postgres"];

/// A version of Postgres, such as 17.10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    /// Data folders belong to one major version.
    pub(crate) major: u32,
    /// Fixes only.
    pub(crate) minor: u32,
}

impl Version {
    /// Reads the answer to `postgres --version`. Betas and snapshots count as minor version 0.
    fn parse(answer: &str) -> Option<Self> {
        let number = answer
            .trim()
            .strip_prefix("postgres (PostgreSQL) ")?
            .split(' ')
            .next()?;
        let end = number
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(number.len());
        let (major, rest) = number.split_at(end);
        Some(Self {
            major: major.parse().ok()?,
            minor: rest
                .strip_prefix('.')
                .and_then(|minor| minor.parse().ok())
                .unwrap_or(0),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A usable set of programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binaries {
    /// The folder that holds them.
    pub(crate) folder: PathBuf,
    /// Their version.
    pub(crate) version: Version,
    /// Shared libraries that they bring with them.
    libraries: Option<PathBuf>,
}

impl Binaries {
    /// Looks at a folder.
    ///
    /// # Errors
    /// A program is missing or does not run, the version is too old, or the account that Postgres
    /// runs under cannot enter the folder.
    pub(crate) fn inspect(folder: &Path, account: &Account) -> anyhow::Result<Self> {
        // Links such as those of /usr/local/bin lead to the folder where the other programs are.
        let server = folder.join("postgres").canonicalize();
        let folder = server
            .as_deref()
            .ok()
            .and_then(Path::parent)
            .unwrap_or(folder);
        for program in REQUIRED {
            anyhow::ensure!(
                folder.join(program).is_file(),
                "{} has no program {program}",
                folder.display()
            );
        }
        if let Some(barrier) = account.barrier(folder) {
            anyhow::bail!(
                "Postgres does not run as root, and its account cannot enter {} to reach {}",
                barrier.display(),
                folder.display()
            );
        }
        let mut binaries = Self {
            folder: folder.to_owned(),
            version: Version { major: 0, minor: 0 },
            libraries: None,
        };
        binaries.version = binaries.ask_version()?;
        anyhow::ensure!(
            binaries.version.major >= OLDEST_MAJOR,
            "{} holds PostgreSQL {}, but {OLDEST_MAJOR} or newer is needed",
            folder.display(),
            binaries.version
        );
        Ok(binaries)
    }

    /// The same, with the shared libraries beside the folder found first.
    pub(crate) fn with_own_libraries(mut self) -> Self {
        self.libraries = self.folder.parent().map(|parent| parent.join("lib"));
        self
    }

    /// The path of a program.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A call of one of the programs, free of whatever the caller's environment says to Postgres.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.program(program));
        command.env_clear().env("LC_ALL", "C").current_dir("/");
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        if let Some(libraries) = &self.libraries {
            command
                .env("LD_LIBRARY_PATH", libraries)
                .env("DYLD_LIBRARY_PATH", libraries);
        }
        command
    }

    fn ask_version(&self) -> anyhow::Result<Version> {
        let program = self.program("postgres");
        let output = self
            .command("postgres")
            .arg("--version")
            .output()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let answer = String::from_utf8_lossy(&output.stdout);
        Version::parse(&answer).with_context(|| {
            format!(
                "{} does not tell its version: {}{}",
                program.display(),
                answer.trim(),
                String::from_utf8_lossy(&output.stderr).trim()
            )
        })
    }
}

#[cfg(test)]
impl Binaries {
    /// A set that exists only in a test.
    pub(crate) fn imagined(folder: &str, major: u32, minor: u32) -> Self {
        Self {
            folder: folder.into(),
            version: Version { major, minor },
            libraries: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every way Postgres and its packagers write the version is read; other text is not.
    #[test]
    fn version_is_read_from_the_answer_of_postgres() {
        let cases = [
            ("postgres (PostgreSQL) 17.10\n", Some((17, 10))),
            (
                "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)",
                Some((15, 18)),
            ),
            ("postgres (PostgreSQL) 18beta2", Some((18, 0))),
            ("postgres (PostgreSQL) 19devel", Some((19, 0))),
            ("postgres (PostgreSQL) 9.6.24", Some((9, 0))),
            ("postgres (PostgreSQL) ", None),
            ("postgres (PostgreSQL) x17", None),
            ("postgres (PostgreSQL) 99999999999.1", None),
            ("psql (PostgreSQL) 17.10", None),
            ("", None),
        ];
        for (answer, expected) in cases {
            let version = Version::parse(answer).map(|found| (found.major, found.minor));
            assert_eq!(version, expected, "{answer:?}");
        }
    }

    /// Versions are ordered as numbers.
    #[test]
    fn newer_minor_version_is_greater() {
        let version = |major, minor| Version { major, minor };
        assert!(version(17, 10) > version(17, 9));
        assert!(version(18, 0) > version(17, 10));
    }

    /// A folder without the programs is refused, and the message names the missing one.
    #[test]
    fn incomplete_folder_is_refused_by_name() {
        let account = Account::Own { uid: 0 };
        let error = Binaries::inspect(Path::new("/nonexistent"), &account).unwrap_err();
        assert!(error.to_string().contains("no program initdb"), "{error}");
    }
}
