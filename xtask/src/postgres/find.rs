//! Looks for Postgres on this machine. What `PATH` calls `postgres` may be older than the server
//! supports, so every candidate is asked for its version.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{Account, Binaries};

/// Names the folder with the programs to use; nothing else is looked at then.
pub(crate) const VARIABLE: &str = "XMTP_POSTGRES_BIN";

/// Where distributions and installers put Postgres: parent folder, how the folder of one version
/// begins, and where its programs are.
const INSTALLATIONS: [(&str, &str, &str); 5] = [
    ("/usr/lib/postgresql", "", "bin"),
    ("/usr", "pgsql-", "bin"),
    ("/opt/homebrew/opt", "postgresql@", "bin"),
    ("/usr/local/opt", "postgresql@", "bin"),
    ("/Applications/Postgres.app/Contents/Versions", "", "bin"),
];

/// A candidate, or why it cannot be used.
type Inspected = anyhow::Result<Binaries>;

/// What the search came to.
#[derive(Debug)]
pub(crate) enum Found {
    /// This will be used.
    Usable(Binaries),
    /// Nothing usable; each line is a candidate and what is wrong with it.
    Nothing(Vec<String>),
}

/// Looks in the variable, then in `PATH`, then in the usual folders.
///
/// # Errors
/// The variable is set, but not to a usable folder.
pub(crate) fn find(account: &Account) -> anyhow::Result<Found> {
    let inspect = |folder: PathBuf| Binaries::inspect(&folder, account);
    if let Some(folder) = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
        return std::path::absolute(folder)
            .map_err(Into::into)
            .and_then(inspect)
            .map(Found::Usable)
            .with_context(|| format!("{VARIABLE} cannot be used"));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).filter(|folder| folder.join("postgres").is_file());
    let installed = INSTALLATIONS.iter().flat_map(|(parent, prefix, programs)| {
        versions(Path::new(parent), prefix)
            .into_iter()
            .map(move |folder| folder.join(programs))
    });
    Ok(choose(
        in_path.map(inspect).collect(),
        installed.map(inspect).collect(),
    ))
}

/// The first usable candidate of `PATH`, else the newest of the installed ones.
fn choose(in_path: Vec<Inspected>, installed: Vec<Inspected>) -> Found {
    let mut refused: Vec<String> = Vec::new();
    let mut usable = |inspected: Vec<Inspected>| -> Vec<Binaries> {
        let (usable, useless): (Vec<_>, Vec<_>) = inspected.into_iter().partition(Result::is_ok);
        for reason in useless
            .into_iter()
            .filter_map(Result::err)
            .map(|error| error.to_string())
        {
            if !refused.contains(&reason) {
                refused.push(reason);
            }
        }
        usable.into_iter().flatten().collect()
    };
    let (in_path, installed) = (usable(in_path), usable(installed));
    in_path
        .into_iter()
        .next()
        .or_else(|| {
            installed
                .into_iter()
                .max_by_key(|binaries| binaries.version)
        })
        .map_or(Found::Nothing(refused), Found::Usable)
}

/// The folders of `parent` whose names begin with `prefix`.
fn versions(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = parent.read_dir() else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .filter(|folder| folder.join("bin/postgres").is_file())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(in_path: Vec<Inspected>, installed: Vec<Inspected>) -> String {
        match choose(in_path, installed) {
            Found::Usable(binaries) => binaries.folder.display().to_string(),
            Found::Nothing(refused) => refused.join("; "),
        }
    }

    fn refusal(reason: &'static str) -> Inspected {
        Err(anyhow::anyhow!(reason))
    }

    /// `PATH` wins over the usual folders, in its own order; of those the newest wins; what cannot
    /// be used is passed over, and its reasons are told once each when nothing is left.
    #[test]
    fn path_wins_then_the_newest_installation() {
        let at = |folder, major, minor| Ok(Binaries::imagined(folder, major, minor));
        let cases = [
            (
                vec![at("/p17", 17, 1), at("/p18", 18, 1)],
                vec![at("/i18", 18, 2)],
                "/p17",
            ),
            (vec![refusal("too old"), at("/p17", 17, 1)], vec![], "/p17"),
            (
                vec![refusal("too old")],
                vec![at("/i17", 17, 9), at("/i18", 18, 0)],
                "/i18",
            ),
            (
                vec![],
                vec![at("/i9", 17, 9), at("/i10", 17, 10), refusal("x")],
                "/i10",
            ),
            (
                vec![refusal("too old")],
                vec![refusal("too old"), refusal("x")],
                "too old; x",
            ),
            (vec![], vec![], ""),
        ];
        for (in_path, installed, expected) in cases {
            assert_eq!(chosen(in_path, installed), expected);
        }
    }
}
