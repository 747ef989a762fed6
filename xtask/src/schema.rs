//! `cargo xtask schema`: the published JSON schema of the configuration, written by the code that
//! reads the configuration (ARC-100).

use anyhow::{Context, bail};

use crate::signals::Interrupt;
use crate::workspace;

/// Where it is published.
const FILE: &str = "docs/schemas/backend-v1.json";

/// Writes the file, or fails if it is not what the code says.
///
/// # Errors
/// The example that prints the schema fails, the file cannot be written, or it is stale.
pub(crate) fn run(check: bool, interrupt: &Interrupt) -> anyhow::Result<()> {
    interrupt.check()?;
    let output = workspace::cargo(["run", "--quiet", "--example", "schema"])
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    interrupt.check()?;
    anyhow::ensure!(
        output.status.success(),
        "the example that prints the schema failed"
    );
    let path = workspace::root().join(FILE);
    if check {
        if std::fs::read(&path).ok().as_deref() != Some(&output.stdout) {
            bail!("{FILE} is stale: run cargo xtask schema and commit it");
        }
        println!("{FILE} is up to date");
    } else {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, &output.stdout)
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote {FILE}");
    }
    Ok(())
}
