//! One server process, started again whenever it ends.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tonic::transport::{Channel, Endpoint};

/// Between two looks at a process.
const LOOK: Duration = Duration::from_millis(50);

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(2);

/// A server that is meant to run.
#[derive(Debug)]
pub(crate) struct Instance {
    address: SocketAddr,
    program: PathBuf,
    configuration: String,
    process: Mutex<Option<Child>>,
}

impl Instance {
    /// Starts a server, and returns when it accepts connections.
    pub(crate) async fn start(
        program: &Path,
        database: &str,
        replica: Option<&str>,
    ) -> anyhow::Result<Self> {
        let address = free_address()?;
        let replica = replica.map_or(String::new(), |url| format!("replica_url = \"{url}\"\n"));
        let configuration = format!(
            "[server]\nidentifier = \"torture.example\"\nlisten = \"{address}\"\n\
             request_logger = false\nlog_level = \"warn\"\nmax_drain_duration_ms = 1000\n\
             [telemetry]\nmetrics_listen = \"\"\n\
             [database]\nurl = \"{database}\"\n{replica}max_connections = 10\n"
        );
        let instance = Self {
            address,
            program: program.to_owned(),
            configuration,
            process: Mutex::new(None),
        };
        instance.keep_running().await?;
        while instance.connect().await.is_err() {
            instance.keep_running().await?;
            tokio::time::sleep(LOOK).await;
        }
        Ok(instance)
    }

    /// A connection of its own.
    pub(crate) async fn connect(&self) -> anyhow::Result<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address))?
            .initial_stream_window_size(2 * 1024 * 1024)
            .connect_timeout(CONNECT);
        Ok(endpoint.connect().await?)
    }

    /// Starts it if it does not run, as an orchestrator would. Tells whether it had to.
    pub(crate) async fn keep_running(&self) -> anyhow::Result<bool> {
        let mut process = self.process.lock().await;
        if let Some(running) = process.as_mut()
            && running.try_wait()?.is_none()
        {
            return Ok(false);
        }
        let started = Command::new(&self.program)
            .env("XMTP_CONFIG", &self.configuration)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("the server's program starts")?;
        *process = Some(started);
        Ok(true)
    }

    /// Sends it a signal.
    pub(crate) async fn signal(&self, signal: Signal) {
        let process = self.process.lock().await;
        let pid = process.as_ref().and_then(Child::id);
        if let Some(pid) = pid.and_then(|pid| Pid::from_raw(pid.cast_signed())) {
            // It may have ended by itself.
            let _ = kill_process(pid, signal);
        }
    }

    /// Asks it to end, and waits for that.
    pub(crate) async fn stop(&self) {
        self.signal(Signal::TERM).await;
        let process = self.process.lock().await.take();
        if let Some(mut process) = process {
            let _ = process.wait().await;
        }
    }
}

fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
