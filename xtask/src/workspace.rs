//! The checkout: where its folders are, and how cargo is called in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use anyhow::Context;

use crate::postgres::Account;

/// Where a checkout that Postgres cannot reach keeps what Postgres must reach.
const SHARED_STATE: &str = "/var/lib/xmtp-backend-dev";

/// The root of the checkout.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// The folder for the fetched binaries and the development data.
///
/// It is the checkout, unless this program runs as root and the account that Postgres runs under
/// cannot enter it: then it is a folder under `/var/lib` of this checkout's own.
pub(crate) fn state_folder(account: &Account) -> anyhow::Result<PathBuf> {
    /// Every task asks more than once.
    static TOLD: Once = Once::new();
    let Some(barrier) = account.barrier(root()) else {
        return Ok(root().to_owned());
    };
    // The path with its separators replaced: unlike a hash it tells people what it belongs to.
    let name = root().to_string_lossy().trim_matches('/').replace('/', "-");
    let folder = Path::new(SHARED_STATE).join(name);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    TOLD.call_once(|| {
        eprintln!(
            "note: Postgres does not run as root, and its account cannot enter {}; its files are in {}",
            barrier.display(),
            folder.display()
        );
    });
    Ok(folder)
}

/// Cargo, called at the root of the checkout, without a database to build against.
pub(crate) fn cargo<I, S>(arguments: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(root())
        .args(arguments)
        .env("SQLX_OFFLINE", "true")
        .env_remove("SQLX_OFFLINE_DIR")
        .env_remove("DATABASE_URL");
    command
}

/// The folder that cargo builds into, found from where it put this very program: that stays right
/// whatever sets the target folder.
pub(crate) fn target_folder() -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let folder = program
        .ancestors()
        .nth(2)
        .context("this program does not run from a target folder: start it with cargo xtask")?;
    Ok(folder.to_owned())
}
