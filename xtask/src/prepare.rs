//! `cargo xtask prepare`: the committed cache of query descriptions, by which the workspace builds
//! without a database (ARC-005).
//!
//! No further tool is needed: compiled against a live database, the query macros write the
//! description of every query themselves. This module gives them a database with the current
//! migrations, makes cargo compile every file with queries again, and compares or copies the result.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};

use crate::postgres::{self, Account, Binaries, Throwaway};
use crate::process;
use crate::signals::Interrupt;
use crate::workspace;

/// The committed cache.
const CACHE: &str = ".sqlx";

/// How the calls of checked query macros begin, up to their exclamation mark.
const MACROS: [&str; 9] = [
    "query",
    "query_as",
    "query_scalar",
    "query_unchecked",
    "query_as_unchecked",
    "query_scalar_unchecked",
    "query_file",
    "query_file_as",
    "query_file_scalar",
];

/// The descriptions of a cache: file name and content.
type Descriptions = BTreeMap<String, Vec<u8>>;

/// Writes the cache, or fails if it is not what the sources and migrations say.
///
/// # Errors
/// A migration or a query is wrong, or the cache is stale.
pub(crate) fn run(check: bool, interrupt: &Interrupt) -> anyhow::Result<()> {
    let account = Account::choose()?;
    let binaries = postgres::obtain(&account, interrupt)?;
    let postgres = Throwaway::start(&binaries, &account, &[], interrupt)?;
    migrate(&binaries, &postgres, interrupt)?;
    let current = describe(&postgres.cluster.url(), interrupt)?;
    let cache = workspace::root().join(CACHE);
    let committed = descriptions(&cache)?;
    let differences = differences(&committed, &current);
    if differences.is_empty() {
        println!("{CACHE} is up to date ({} queries)", current.len());
        return Ok(());
    }
    if check {
        bail!(
            "{CACHE} is stale: run cargo xtask prepare and commit it\n{}",
            differences.join("\n")
        );
    }
    replace(&cache, &committed, &current)?;
    println!(
        "wrote {CACHE} ({} queries)\n{}",
        current.len(),
        differences.join("\n")
    );
    Ok(())
}

/// Applies the migrations in their order.
fn migrate(binaries: &Binaries, postgres: &Throwaway, interrupt: &Interrupt) -> anyhow::Result<()> {
    let psql = binaries.program("psql");
    anyhow::ensure!(
        psql.is_file(),
        "{} is missing: install the client programs of the same PostgreSQL",
        psql.display()
    );
    for file in migrations(&workspace::root().join("migrations"))? {
        let mut command = binaries.command("psql");
        command
            .args([
                "--no-psqlrc",
                "--quiet",
                "--single-transaction",
                "--set=ON_ERROR_STOP=1",
            ])
            .arg("--file")
            .arg(&file)
            .env("PGOPTIONS", "-c client_min_messages=warning")
            .envs(postgres.cluster.variables());
        let status = process::run("psql", &mut command, interrupt)?;
        anyhow::ensure!(status.success(), "the migration {} failed", file.display());
    }
    Ok(())
}

/// The migrations in the order of their version, which is the number before the first underscore.
fn migrations(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = folder
        .read_dir()
        .with_context(|| format!("cannot list {}", folder.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(OsStr::to_str)
            .unwrap_or_default()
            .to_owned();
        if name.ends_with(".sql") && !name.ends_with(".down.sql") {
            let version: u64 = name
                .split('_')
                .next()
                .and_then(|version| version.parse().ok())
                .with_context(|| {
                    format!("{name} does not begin with a version and an underscore")
                })?;
            files.push((version, path));
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// Has the macros describe every query, in every target with every feature.
fn describe(url: &str, interrupt: &Interrupt) -> anyhow::Result<Descriptions> {
    let folder = workspace::target_folder()?.join("query-descriptions");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    touch_queries(workspace::root())?;
    let mut command = workspace::cargo(["check", "--workspace", "--all-targets", "--all-features"]);
    command
        .arg("--locked")
        .env("SQLX_OFFLINE", "false")
        .env("SQLX_OFFLINE_DIR", &folder)
        .env("DATABASE_URL", url);
    let status = process::run("cargo check", &mut command, interrupt)?;
    anyhow::ensure!(
        status.success(),
        "the workspace does not compile against a database with the current migrations"
    );
    descriptions(&folder)
}

/// Marks every source file with a checked query as changed. Cargo does not know that these files
/// also depend on the database, and would not compile them again.
fn touch_queries(folder: &Path) -> anyhow::Result<()> {
    for entry in folder
        .read_dir()
        .with_context(|| format!("cannot list {}", folder.display()))?
    {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() {
            // Not sources; and the tasks themselves, which only talk about queries.
            if !name.starts_with('.') && name != "target" && name != "xtask" {
                touch_queries(&path)?;
            }
        } else if name.ends_with(".rs") && has_query(&std::fs::read_to_string(&path)?) {
            File::options()
                .append(true)
                .open(&path)
                .and_then(|file| file.set_modified(SystemTime::now()))
                .with_context(|| format!("cannot mark {} as changed", path.display()))?;
        }
    }
    Ok(())
}

/// Says whether a source file calls a checked query macro.
fn has_query(source: &str) -> bool {
    source.match_indices('!').any(|(end, _)| {
        let before = source.get(..end).unwrap_or_default();
        let name = before
            .rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .next();
        name.is_some_and(|name| MACROS.contains(&name))
    })
}

/// Reads a cache; an absent one is empty.
fn descriptions(folder: &Path) -> anyhow::Result<Descriptions> {
    let entries = match folder.read_dir() {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Descriptions::new()),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot list {}", folder.display()));
        }
    };
    let mut found = Descriptions::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("query-") && name.ends_with(".json") {
            found.insert(name, std::fs::read(entry.path())?);
        }
    }
    Ok(found)
}

/// One line for each file that differs.
fn differences(committed: &Descriptions, current: &Descriptions) -> Vec<String> {
    let missing = current
        .iter()
        .filter_map(|(name, content)| match committed.get(name) {
            None => Some(format!("  missing: {name}")),
            Some(other) if other != content => Some(format!("  changed: {name}")),
            Some(_) => None,
        });
    let unused = committed
        .keys()
        .filter(|name| !current.contains_key(*name))
        .map(|name| format!("  unused:  {name}"));
    missing.chain(unused).collect()
}

/// Makes the cache what it should be.
fn replace(cache: &Path, committed: &Descriptions, current: &Descriptions) -> anyhow::Result<()> {
    std::fs::create_dir_all(cache).with_context(|| format!("cannot create {}", cache.display()))?;
    for name in committed.keys().filter(|name| !current.contains_key(*name)) {
        std::fs::remove_file(cache.join(name))?;
    }
    for (name, content) in current {
        std::fs::write(cache.join(name), content)
            .with_context(|| format!("cannot write {name} to {}", cache.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every checked macro is noticed, however it is called; the unchecked function is not one.
    #[test]
    fn files_with_checked_queries_are_noticed() {
        for source in [
            "sqlx::query!(\"..\")",
            "query_as!(Row,",
            "x = query_scalar! {}",
        ] {
            assert!(has_query(source), "{source}");
        }
        for source in [
            "sqlx::query(\"..\")",
            "my_query!()",
            "panic!()",
            "if query != 1 {}",
            "",
        ] {
            assert!(!has_query(source), "{source}");
        }
    }

    /// Each kind of staleness is told by file.
    #[test]
    fn differences_name_what_is_missing_changed_or_unused() {
        let cache = |files: &[(&str, &str)]| -> Descriptions {
            files
                .iter()
                .map(|(name, text)| ((*name).to_owned(), text.as_bytes().into()))
                .collect()
        };
        let committed = cache(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let current = cache(&[("a", "1"), ("b", "2"), ("d", "1")]);
        let expected = ["  changed: b", "  missing: d", "  unused:  c"];
        assert_eq!(differences(&committed, &current), expected);
        assert!(differences(&committed, &committed).is_empty());
    }

    /// Versions are compared as numbers, reversals are left out, and a nameless file is refused.
    #[test]
    fn migrations_are_ordered_by_version() {
        let folder = std::env::temp_dir().join(format!("xtask-migrations-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["10_b.sql", "9_a.up.sql", "9_a.down.sql", "README.md"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let ordered = migrations(&folder).unwrap();
        std::fs::write(folder.join("late.sql"), "").unwrap();
        let refused = migrations(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            ordered,
            [folder.join("9_a.up.sql"), folder.join("10_b.sql")]
        );
        assert!(refused.unwrap_err().to_string().contains("late.sql"));
    }
}
