//! `cargo xtask test` and `cargo xtask bench`: cargo's own runner beside a throw-away Postgres with
//! the durability of production.

use std::process::{Command, ExitStatus};

use crate::postgres::{self, Account, Throwaway};
use crate::process;
use crate::signals::Interrupt;
use crate::workspace;

/// Many tests run at once, each with databases and pools of its own, and some lock many topics.
const TEST_SETTINGS: [&str; 2] = ["max_connections=300", "max_locks_per_transaction=256"];

/// Runs the tests of the whole workspace.
///
/// # Errors
/// Postgres does not start, or cargo cannot be run. Failing tests are a status.
pub(crate) fn run(arguments: &[String], interrupt: &Interrupt) -> anyhow::Result<ExitStatus> {
    let mut command = workspace::cargo(["test", "--workspace", "--all-features", "--locked"]);
    command.args(arguments);
    beside_postgres("cargo test", &mut command, &TEST_SETTINGS, interrupt)
}

/// What can be measured.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Bench {
    /// Publishing envelopes
    Publish,
    /// Reading them back
    Query,
    /// Following them
    Stream,
    /// Parsing and checking them, without a server
    Validate,
}

/// Runs one benchmark, on the settings that Postgres has by default.
///
/// # Errors
/// Postgres does not start, or cargo cannot be run. A failing benchmark is a status.
pub(crate) fn bench(
    bench: Bench,
    arguments: &[String],
    interrupt: &Interrupt,
) -> anyhow::Result<ExitStatus> {
    let name = match bench {
        Bench::Publish => "publish",
        Bench::Query => "query",
        Bench::Stream => "stream",
        Bench::Validate => return bench_alone("xmtp-envelope", "validate", arguments, interrupt),
    };
    let mut command = workspace::cargo(["bench", "--locked", "--bench", name, "--"]);
    command.args(arguments);
    beside_postgres("cargo bench", &mut command, &[], interrupt)
}

/// Runs a benchmark of one package that needs nothing beside it.
fn bench_alone(
    package: &str,
    name: &str,
    arguments: &[String],
    interrupt: &Interrupt,
) -> anyhow::Result<ExitStatus> {
    let mut command = workspace::cargo(["bench", "--locked", "-p", package, "--bench", name, "--"]);
    command.args(arguments);
    process::run("cargo bench", &mut command, interrupt)
}

/// Runs a command that finds a superuser's URL and the folder of the Postgres programs in its
/// environment.
pub(crate) fn beside_postgres(
    name: &str,
    command: &mut Command,
    settings: &[&str],
    interrupt: &Interrupt,
) -> anyhow::Result<ExitStatus> {
    let account = Account::choose()?;
    let binaries = postgres::obtain(&account, interrupt)?;
    let postgres = Throwaway::start(&binaries, &account, settings, interrupt)?;
    command
        .env("XMTP_TEST_DATABASE_URL", postgres.cluster.url())
        .env("XMTP_TEST_POSTGRES_BIN", &binaries.folder);
    process::run(name, command, interrupt)
}
