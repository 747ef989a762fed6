//! `cargo xtask ci`: every check that a change must pass, in one order, with one summary. All run
//! even if one fails. One set of features throughout, so that they share what they compile.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::process::{self, exit_status};
use crate::signals::{Interrupt, Interrupted};
use crate::{prepare, test, tools, torture, workspace};

/// A check: its heading and what it does.
type Step = (&'static str, fn(&Interrupt) -> anyhow::Result<()>);

const STEPS: [Step; 7] = [
    ("tests", tests),
    ("torture", torture),
    ("format", format),
    ("lints", lints),
    ("documentation", documentation),
    ("query cache", |interrupt| prepare::run(true, interrupt)),
    ("dependencies", dependencies),
];

/// Runs the checks. Returns the exit status: 1 if one of them failed.
///
/// # Errors
/// This program was told to stop.
pub(crate) fn run(interrupt: &Interrupt) -> anyhow::Result<u8> {
    let started = Instant::now();
    let mut results = Vec::new();
    for (index, (name, check)) in STEPS.iter().enumerate() {
        eprintln!("\n==> {name} ({} of {})", index + 1, STEPS.len());
        let started = Instant::now();
        let result = check(interrupt);
        match &result {
            Err(error) if error.is::<Interrupted>() => return result.map(|()| 0),
            Err(error) => eprintln!("error: {error:#}"),
            Ok(()) => {}
        }
        eprintln!("==> {name}: {}", line(result.is_ok(), started.elapsed()));
        results.push((*name, result.is_ok(), started.elapsed()));
    }
    let passed = results.iter().all(|(_, passed, _)| *passed);
    println!("\nsummary");
    for (name, passed, time) in results {
        println!("  {name:<14} {}", line(passed, time));
    }
    println!("  {:<14} {}", "all", line(passed, started.elapsed()));
    Ok(u8::from(!passed))
}

fn line(passed: bool, time: Duration) -> String {
    format!(
        "{} {:>5.0} s",
        if passed { "passed" } else { "FAILED" },
        time.as_secs_f64()
    )
}

fn tests(interrupt: &Interrupt) -> anyhow::Result<()> {
    let status = test::run(&[], interrupt)?;
    anyhow::ensure!(
        status.success(),
        "cargo test ended with status {}",
        exit_status(status)
    );
    Ok(())
}

/// A minute of faults under load, with choices that differ from run to run.
fn torture(interrupt: &Interrupt) -> anyhow::Result<()> {
    let options = torture::Options {
        minutes: 1.0,
        seed: None,
        release: false,
    };
    let status = torture::run(&options, interrupt)?;
    anyhow::ensure!(status.success(), "clients saw what they must not see");
    Ok(())
}

fn format(interrupt: &Interrupt) -> anyhow::Result<()> {
    succeed(
        &mut workspace::cargo(["fmt", "--all", "--check"]),
        interrupt,
    )
    .context("run cargo fmt --all")
}

fn lints(interrupt: &Interrupt) -> anyhow::Result<()> {
    let mut command = workspace::cargo(["clippy", "--workspace", "--all-targets"]);
    command.args(["--all-features", "--locked", "--", "-D", "warnings"]);
    succeed(&mut command, interrupt)
}

fn documentation(interrupt: &Interrupt) -> anyhow::Result<()> {
    let mut command = workspace::cargo(["doc", "--workspace", "--no-deps"]);
    command
        .args(["--all-features", "--locked"])
        .env("RUSTDOCFLAGS", "-D warnings");
    succeed(&mut command, interrupt)
}

fn dependencies(interrupt: &Interrupt) -> anyhow::Result<()> {
    let deny = tools::cargo_deny(interrupt)?;
    // It reads the manifests for all platforms; the build needed only those for one.
    succeed(&mut workspace::cargo(["fetch", "--locked"]), interrupt)?;
    let mut command = Command::new(deny);
    command
        .current_dir(workspace::root())
        .args(["--offline", "--all-features", "check"])
        // Who needs the doubled crates would fill the log.
        .args(["--hide-inclusion-graph", "bans", "licenses", "sources"]);
    succeed(&mut command, interrupt)
}

/// Runs a command that must succeed.
fn succeed(command: &mut Command, interrupt: &Interrupt) -> anyhow::Result<()> {
    let name = command.get_program().display().to_string();
    let status = process::run(&name, command, interrupt)?;
    anyhow::ensure!(
        status.success(),
        "it ended with status {}",
        exit_status(status)
    );
    Ok(())
}
