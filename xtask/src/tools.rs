//! Tools that cargo does not bring: pinned, built once, kept outside the checkout where possible so
//! that a fresh clone finds them again.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::process;
use crate::signals::Interrupt;
use crate::workspace;

/// Judges dependencies: licences, sources, banned and doubled crates.
const CARGO_DENY: (&str, &str) = ("cargo-deny", "0.20.2");

/// The path of cargo-deny, which is built first if it is not here yet. That takes minutes.
///
/// # Errors
/// It cannot be built.
pub(crate) fn cargo_deny(interrupt: &Interrupt) -> anyhow::Result<PathBuf> {
    let (name, version) = CARGO_DENY;
    if answers(Path::new(name), version) {
        return Ok(name.into());
    }
    let root = root();
    let program = root.join("bin").join(name);
    if !answers(&program, version) {
        eprintln!("building {name} {version}, once, into {}", root.display());
        let mut command = workspace::cargo(["install", "--locked", "--root"]);
        command.arg(&root).arg(format!("{name}@{version}"));
        let status = process::run("cargo install", &mut command, interrupt)?;
        anyhow::ensure!(status.success(), "cannot build {name} {version}");
    }
    Ok(program)
}

/// Whether a program is there in this very version.
fn answers(program: &Path, version: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", program.display()))
        .is_ok_and(|output| {
            String::from_utf8_lossy(&output.stdout)
                .trim()
                .ends_with(version)
        })
}

/// The user's cache folder if it can be written, else a folder of the checkout.
fn root() -> PathBuf {
    let variable = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    variable("XDG_CACHE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("xmtp-backend").join("tools"))
        .filter(|folder| is_writable(folder))
        .unwrap_or_else(|| workspace::root().join(".tools"))
}

/// Tries it: permission bits do not tell of read-only file systems.
fn is_writable(folder: &Path) -> bool {
    let probe = folder.join(format!(".probe-{}", std::process::id()));
    std::fs::create_dir_all(folder).is_ok()
        && std::fs::write(&probe, "").is_ok()
        && std::fs::remove_file(&probe).is_ok()
}
