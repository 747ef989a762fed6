//! The server as a process of its own, with its memory and its processor time.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use harness::{TestDatabase, eventually};
use tokio::net::TcpStream;

/// A tick of the processor times in `/proc`, on every Linux there is.
const TICK: Duration = Duration::from_millis(10);

/// A server that runs for a benchmark.
pub(crate) struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    /// Starts it, with no more requests logged than necessary.
    pub(crate) async fn start(program: &str, database: &TestDatabase) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        drop(listener);
        let configuration = format!(
            "[server]\nidentifier = \"bench.example\"\nlisten = \"{address}\"\n\
             request_logger = false\nlog_level = \"warn\"\n\
             [telemetry]\nmetrics_listen = \"\"\n\
             [database]\nurl = \"{}\"\n",
            database.url()
        );
        let process = Command::new(program)
            .env("XMTP_CONFIG", configuration)
            .stdout(Stdio::null())
            .spawn()
            .expect("the server starts");
        eventually("the server listens", async || {
            TcpStream::connect(address).await.is_ok()
        })
        .await;
        Self { process, address }
    }

    /// Where it serves.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The memory that it occupies.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = self.proc_file("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kib.expect("its size").parse::<u64>().expect("a number") * 1024
    }

    /// The processor time that it has used.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = self.proc_file("stat");
        // The name may contain spaces; times are the 14th and 15th field, 12th and 13th after it.
        let (_, fields) = stat.rsplit_once(')').expect("the name of the program");
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks: u32 = fields[11..13]
            .iter()
            .map(|field| field.parse::<u32>().expect("a number"))
            .sum();
        TICK * ticks
    }

    fn proc_file(&self, name: &str) -> String {
        let path = format!("/proc/{}/{name}", self.process.id());
        std::fs::read_to_string(path).expect("the server runs on Linux")
    }

    /// Ends it.
    pub(crate) async fn stop(mut self) {
        self.process.kill().expect("the server runs");
        self.process.wait().expect("the server ends");
    }
}
