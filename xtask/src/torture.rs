//! `cargo xtask torture`: two servers on one database under load and faults, and a checker that
//! compares everything that clients saw with what is stored.

use std::process::ExitStatus;

use crate::process;
use crate::signals::Interrupt;
use crate::test::beside_postgres;
use crate::workspace;

/// Options of `cargo xtask torture`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How long faults happen, in minutes
    #[arg(long, default_value_t = 1.0, value_name = "N")]
    pub(crate) minutes: f64,
    /// Repeat the choices of a run [default: a fresh seed, which is printed]
    #[arg(long, value_name = "S")]
    pub(crate) seed: Option<u64>,
    /// Build with optimization
    #[arg(long)]
    pub(crate) release: bool,
}

/// Runs it once. Violations are a status.
///
/// # Errors
/// Something does not build or start.
pub(crate) fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<ExitStatus> {
    let mut build = workspace::cargo(["build", "--locked", "--all-features"]);
    build.args(["--package", "xmtp-backend", "--bin", "xmtp-backend"]);
    build.args([
        "--package",
        "xmtp-backend-torture",
        "--bin",
        "xmtp-backend-torture",
    ]);
    if options.release {
        build.arg("--release");
    }
    let status = process::run("cargo build", &mut build, interrupt)?;
    anyhow::ensure!(status.success(), "the server does not build");

    let profile = if options.release { "release" } else { "debug" };
    let folder = workspace::target_folder()?.join(profile);
    let mut torture = std::process::Command::new(folder.join("xmtp-backend-torture"));
    torture
        .args(["--minutes", &options.minutes.to_string()])
        .arg("--server")
        .arg(folder.join("xmtp-backend"));
    if let Some(seed) = options.seed {
        torture.args(["--seed", &seed.to_string()]);
    }
    beside_postgres("torture", &mut torture, &[], interrupt)
}
