//! A client that shares no code with the server: gRPC's own library for Python (ARC-002, ARC-113).
//!
//! Whether two sides that are made of the same library understand each other says little about the
//! third one that somebody brings along.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::TestServer;
use tokio::process::Command;
use tokio::time::timeout;

/// Fetching and installing packages, or running everything.
const PATIENCE: Duration = Duration::from_secs(300);

/// Set to run tests that need more than this repository: Python, and packages from elsewhere.
const ALL: &str = "XMTP_TEST_ALL";

/// Says that a test did not run, whatever the test runner does with the output of tests that pass.
fn skip(why: &str) {
    let line = format!("SKIPPED python::a_client_in_python_is_served: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Runs a program; tells what it said when it fails.
async fn run(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).kill_on_drop(true);
    let output = timeout(PATIENCE, command.output());
    let output = output.await.map_err(|_| "it takes too long".to_owned())?;
    let output = output.map_err(|error| error.to_string())?;
    let [said, complaints] = [output.stdout, output.stderr].map(|bytes| {
        let text = String::from_utf8_lossy(&bytes);
        text.into_owned()
    });
    if output.status.success() {
        Ok(said)
    } else {
        Err(format!("{}\n{said}{complaints}", output.status))
    }
}

/// A virtual environment with the packages of the client; it is kept for the next run.
async fn environment(client: &Path) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-client");
    let python = folder.join("bin/python");
    if !python.exists() {
        let folder = folder.to_str().unwrap();
        run(Path::new("python3"), &["-m", "venv", folder]).await?;
    }
    let requirements = client.join("requirements.txt");
    let requirements = requirements.to_str().unwrap();
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ];
    let install = [&pip[..], &["--requirement", requirements]].concat();
    run(&python, &install).await?;
    Ok(python)
}

/// Publishing, querying, the detail of a refusal, and both kinds of subscription, in Python.
#[tokio::test]
async fn a_client_in_python_is_served() {
    if std::env::var_os(ALL).is_none_or(|value| value != "1") {
        return skip(&format!("it fetches packages; set {ALL}=1 to run it"));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let client = root.join("tests/clients/python");
    // Whoever asks for everything is told when it did not run.
    let python = environment(&client)
        .await
        .unwrap_or_else(|why| panic!("{why}"));
    let server = TestServer::start().await;
    let script = client.join("client.py");
    let address = server.address().to_string();
    let protos = root.join("proto");
    let arguments = [&script, &protos].map(|path| path.to_str().unwrap());
    let ran = run(&python, &[arguments[0], &address, arguments[1]]).await;
    let said = ran.unwrap_or_else(|said| panic!("{said}"));
    assert_eq!(said.lines().count(), 5, "{said}");
    assert!(said.lines().all(|line| line.starts_with("ok: ")), "{said}");
    // Five, 24 large ones, and five of the two subscriptions.
    assert_eq!(server.database().count("envelopes").await, 34);
    server.stop().await;
}
