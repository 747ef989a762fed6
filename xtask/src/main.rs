//! The project's tasks: `cargo xtask <task>`, one subcommand per promise of CONTRIBUTING.md.
//! Needs nothing but cargo; what else a task needs (Postgres, cargo-deny) it finds or fetches.

mod ci;
mod dev;
mod ports;
mod postgres;
mod prepare;
mod process;
mod schema;
mod signals;
mod test;
mod tools;
mod torture;
mod workspace;

use std::process::ExitCode;

use clap::Parser;

use signals::{Interrupt, Interrupted};

/// The tasks of this repository
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Run the server on a database of its own, from nothing, until Ctrl-C
    Dev(dev::Options),
    /// Run all tests beside a throw-away Postgres
    Test {
        /// Arguments for cargo test
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "ARGUMENTS"
        )]
        arguments: Vec<String>,
    },
    /// Write the query cache in .sqlx
    Prepare {
        /// Only say whether it is up to date
        #[arg(long)]
        check: bool,
    },
    /// Write the JSON schema of the configuration
    Schema {
        /// Only say whether it is up to date
        #[arg(long)]
        check: bool,
    },
    /// Measure one side of the server beside a throw-away Postgres
    Bench {
        /// What to measure
        bench: test::Bench,
        /// Arguments for the benchmark
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "ARGUMENTS"
        )]
        arguments: Vec<String>,
    },
    /// Run two servers under load and faults, and check everything that clients saw
    Torture(torture::Options),
    /// Run every check that a change must pass
    Ci,
}

fn main() -> ExitCode {
    match Interrupt::install().and_then(|interrupt| run(Task::parse(), &interrupt)) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(error.downcast_ref().map_or(1, Interrupted::status))
        }
    }
}

/// Runs a task and returns the exit status of this program.
fn run(task: Task, interrupt: &Interrupt) -> anyhow::Result<u8> {
    match task {
        Task::Dev(options) => dev::run(&options, interrupt).map(|()| 0),
        Task::Test { arguments } => test::run(&arguments, interrupt).map(process::exit_status),
        Task::Prepare { check } => prepare::run(check, interrupt).map(|()| 0),
        Task::Schema { check } => schema::run(check, interrupt).map(|()| 0),
        Task::Bench { bench, arguments } => {
            test::bench(bench, &arguments, interrupt).map(process::exit_status)
        }
        Task::Torture(options) => torture::run(&options, interrupt).map(process::exit_status),
        Task::Ci => ci::run(interrupt),
    }
}
