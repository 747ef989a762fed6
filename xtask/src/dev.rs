//! `cargo xtask dev`: one command from a fresh checkout to a working server on a real Postgres.
//! Stays in the foreground; stops the server first and Postgres last, however it ends.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal};

use crate::postgres::{self, Account, Binaries, Cluster, Home};
use crate::process::{self, Child, POLL_INTERVAL};
use crate::signals::Interrupt;
use crate::{ports, workspace};

/// Ports that are taken unless they are in use.
const GRPC_PORT: u16 = 5050;
const METRICS_PORT: u16 = 9464;
const POSTGRES_PORT: u16 = 5433;

/// The variable through which the server gets the database URL: command lines are public.
const URL_VARIABLE: &str = "XMTP_DEV_DATABASE_URL";

/// How long the server may take to listen: it connects and migrates first.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// How long the server may take to stop: its drain time is 10 s.
const STOP_PATIENCE: Duration = Duration::from_secs(20);

/// How long one attempt to connect may take.
const CONNECT_PATIENCE: Duration = Duration::from_millis(200);

/// Options of `cargo xtask dev`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Start with an empty database; the old one is removed
    #[arg(long)]
    fresh: bool,
    /// Port for gRPC and gRPC-Web [default: 5050, or the next free one]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Port for the metrics [default: 9464, or the next free one]
    #[arg(long, value_name = "N")]
    metrics_port: Option<u16>,
    /// Port for Postgres [default: 5433, or the next free one]
    #[arg(long, value_name = "N")]
    postgres_port: Option<u16>,
    /// Build with optimization
    #[arg(long)]
    release: bool,
}

/// Runs until the user stops it.
///
/// # Errors
/// Anything that keeps the server from working; the message says what to do.
pub(crate) fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<()> {
    let account = Account::choose()?;
    let binaries = postgres::obtain(&account, interrupt)?;
    let folder = workspace::state_folder(&account)?
        .join(".dev")
        .join(format!("postgres-{}", binaries.version.major));
    let home = Home::open(&folder, &account)?;
    stop_leftover(&home)?;
    let built = build(options.release, interrupt)?;
    if options.fresh {
        home.erase()?;
    }

    let port = ports::choose("--postgres-port", options.postgres_port, POSTGRES_PORT)?;
    let mut cluster = Cluster::start(&home, &binaries, &account, port, &[], interrupt)?;
    let result = serve(options, &built, &home, &binaries, &mut cluster, interrupt);
    let stopped = cluster.stop();
    result.and(stopped)
}

/// The programs that cargo built.
struct Built {
    server: PathBuf,
    roundtrip: PathBuf,
}

fn build(release: bool, interrupt: &Interrupt) -> anyhow::Result<Built> {
    let mut command =
        workspace::cargo(["build", "--bin", "xmtp-backend", "--example", "roundtrip"]);
    if release {
        command.arg("--release");
    }
    let status = process::run("cargo build", &mut command, interrupt)?;
    anyhow::ensure!(status.success(), "the server does not build");
    let folder = workspace::target_folder()?.join(if release { "release" } else { "debug" });
    Ok(Built {
        server: folder.join("xmtp-backend"),
        roundtrip: folder.join("examples").join("roundtrip"),
    })
}

/// Runs the server on a started database until it ends or the user stops it.
fn serve(
    options: &Options,
    built: &Built,
    home: &Home,
    binaries: &Binaries,
    cluster: &mut Cluster,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let port = ports::choose("--port", options.port, GRPC_PORT)?;
    let metrics_port = ports::choose("--metrics-port", options.metrics_port, METRICS_PORT)?;
    let mut command = Command::new(&built.server);
    command
        .env("XMTP_CONFIG", configuration(port, metrics_port))
        .env(URL_VARIABLE, cluster.url());
    let mut server = Server::start(&mut command, home)?;
    server.await_listening(port, interrupt)?;

    let address = format!("http://127.0.0.1:{port}");
    let mut roundtrip = Command::new(&built.roundtrip);
    let status = process::run("roundtrip", roundtrip.arg(&address), interrupt)?;
    anyhow::ensure!(
        status.success(),
        "the server listens, but publishing, following and reading back an envelope failed \
         ({status})"
    );
    println!(
        "{}",
        welcome(&address, metrics_port, &cluster.url(), home, binaries)
    );

    while interrupt.check().is_ok() {
        if let Some(status) = server.child.ended()? {
            bail!("the server ended by itself ({status})");
        }
        if cluster.ended()? {
            bail!(
                "Postgres ended by itself; its log is {}",
                home.log().display()
            );
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    eprintln!("stopping the server, then Postgres");
    server.stop()
}

/// The server's configuration; the database URL stays out of it.
fn configuration(port: u16, metrics_port: u16) -> String {
    format!(
        r#"[server]
identifier = "dev.xmtp-backend.localhost"
listen = "127.0.0.1:{port}"

[telemetry]
metrics_listen = "127.0.0.1:{metrics_port}"

[database]
url = "env:{URL_VARIABLE}"
"#
    )
}

/// What the user sees once the server works.
fn welcome(
    address: &str,
    metrics_port: u16,
    database_url: &str,
    home: &Home,
    binaries: &Binaries,
) -> String {
    let psql = binaries.program("psql");
    let psql = if psql.is_file() {
        psql.display().to_string()
    } else {
        "psql".to_owned()
    };
    format!(
        "
The server works: an envelope was published, arrived on an open stream, and was read back.

  gRPC, gRPC-Web   {address}
  metrics          http://127.0.0.1:{metrics_port}/metrics
  PostgreSQL {:<5} {psql} {database_url}
  data and log     {} (--fresh starts over)
  try              cargo run --quiet --example roundtrip -- {address}

Ctrl-C stops the server, then Postgres.
",
        binaries.version.to_string(),
        home.folder().display()
    )
}

/// The running server, noted in a file so that the next run finds it should this one be killed.
struct Server {
    child: Child,
    note: PathBuf,
}

impl Server {
    fn start(command: &mut Command, home: &Home) -> anyhow::Result<Self> {
        let program = PathBuf::from(command.get_program());
        let note = note(home);
        let child = Child::spawn("the server", command)?;
        let text = format!("{}\n{}\n", child.pid(), program.display());
        std::fs::write(&note, text).with_context(|| format!("cannot write {}", note.display()))?;
        Ok(Self { child, note })
    }

    /// Waits until the server accepts connections, which it does only once it is ready.
    fn await_listening(&mut self, port: u16, interrupt: &Interrupt) -> anyhow::Result<()> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let deadline = Instant::now() + START_PATIENCE;
        while TcpStream::connect_timeout(&address, CONNECT_PATIENCE).is_err() {
            interrupt.check()?;
            if let Some(status) = self.child.ended()? {
                bail!("the server did not start ({status}); its last lines above say why");
            }
            if Instant::now() >= deadline {
                bail!(
                    "the server does not listen after {} s",
                    START_PATIENCE.as_secs()
                );
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    fn stop(mut self) -> anyhow::Result<()> {
        match self.child.stop(Signal::TERM, STOP_PATIENCE)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => bail!("the server stopped with a failure ({status})"),
            None => bail!(
                "the server did not stop in {} s and was killed",
                STOP_PATIENCE.as_secs()
            ),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Early exits come here with the server running; after `stop` this finds it ended.
        let _ = self.child.stop(Signal::TERM, STOP_PATIENCE);
        let _ = std::fs::remove_file(&self.note);
    }
}

fn note(home: &Home) -> PathBuf {
    home.folder().join("server.pid")
}

/// Stops the server that a killed run left behind: it would keep the port.
fn stop_leftover(home: &Home) -> anyhow::Result<()> {
    let path = note(home);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
    };
    if let Some((pid, program)) = parse_note(&text)
        && process::runs_with(pid, program)
    {
        eprintln!("stopping the server (process {pid}) that a killed run left behind");
        if !process::stop_stranger(pid, program, Signal::TERM, STOP_PATIENCE)
            && !process::stop_stranger(pid, program, Signal::KILL, STOP_PATIENCE)
        {
            bail!("process {pid} of an earlier run does not end: end it with kill -KILL {pid}");
        }
    }
    std::fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))
}

/// Process id and program of a left-over server.
fn parse_note(text: &str) -> Option<(Pid, &Path)> {
    let (pid, program) = text.split_once('\n')?;
    let pid = pid.parse().ok().filter(|pid: &i32| *pid > 0)?;
    let program = program.trim_end();
    (!program.is_empty()).then_some((Pid::from_raw(pid)?, Path::new(program)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A torn or foreign note names no process: signals go only to what was written in full.
    #[test]
    fn only_a_whole_note_names_a_process() {
        let (pid, program) = parse_note("4711\n/t/xmtp-backend\n").unwrap();
        assert_eq!(
            (pid.as_raw_nonzero().get(), program),
            (4711, Path::new("/t/xmtp-backend"))
        );
        for torn in [
            "", "4711", "4711\n", "4711\n\n", "0\n/x\n", "-1\n/x\n", "x\n/x\n",
        ] {
            assert!(parse_note(torn).is_none(), "{torn:?}");
        }
    }

    /// The password is not in the configuration text.
    #[test]
    fn configuration_names_the_variable_of_the_url() {
        let text = configuration(1, 2);
        assert!(
            text.contains("url = \"env:XMTP_DEV_DATABASE_URL\""),
            "{text}"
        );
        assert!(text.contains("listen = \"127.0.0.1:1\""), "{text}");
        assert!(text.contains("metrics_listen = \"127.0.0.1:2\""), "{text}");
    }
}
