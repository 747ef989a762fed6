//! The server as an operator meets it: a process with arguments, output, signals and an exit status
//! (ARC-003, ARC-100, ARC-101).

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use envelope::wire::xmtp::backend::v1::verify_smart_contract_wallet_signatures_request::Signature;
use envelope::wire::xmtp::backend::v1::{
    GetConfigurationRequest, PublishRequest, VerifySmartContractWalletSignaturesRequest,
    VerifySmartContractWalletSignaturesResponse,
};
use harness::{AdvisoryLock, TestDatabase, TestServer, Transport, eventually};
use tonic::Code;
use xmtp_backend::db::GlobalLock;

use crate::given::{ids, message};

/// Longer than any answer takes; reached only by a hang.
const PATIENCE: Duration = Duration::from_secs(10);

/// A password that must not appear anywhere.
const PASSWORD: &str = "correct-horse-battery";

/// A running server process.
pub(crate) struct Process {
    child: Child,
    output: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
    /// The file with the authority that it trusts.
    authority: Option<PathBuf>,
}

/// Arguments, and variables with their values.
type Start<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)]);

/// What a server process left behind.
pub(crate) struct Ended {
    status: ExitStatus,
    /// Everything that it wrote, to either output.
    output: String,
}

impl Process {
    /// Starts it with no variables but those given.
    fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_xmtp-backend"))
            .args(arguments)
            .env_clear()
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = Arc::new(Mutex::new(String::new()));
        let readers = vec![
            collect(child.stdout.take().unwrap(), Arc::clone(&output)),
            collect(child.stderr.take().unwrap(), Arc::clone(&output)),
        ];
        Self {
            child,
            output,
            readers,
            authority: None,
        }
    }

    /// Starts it with an inline document.
    pub(crate) fn with_document(document: &str) -> Self {
        Self::start(&["--config", document], &[])
    }

    /// Starts it with an inline document and these variables, on a machine that trusts one
    /// certificate authority alone.
    pub(crate) fn trusting(
        authority_pem: &str,
        document: &str,
        variables: &[(&str, &str)],
    ) -> Self {
        let name = format!("xmtp-backend-authority-{}.pem", uuid::Uuid::new_v4());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, authority_pem).unwrap();
        let trusted = [("SSL_CERT_FILE", path.to_str().unwrap())];
        let mut process = Self::start(&["--config", document], &[&trusted, variables].concat());
        process.authority = Some(path);
        process
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// What it has written so far, to either output.
    pub(crate) fn output(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    /// Waits until it serves, and answers where.
    pub(crate) async fn until_serving(&self) -> SocketAddr {
        let address = || {
            let output = self.output();
            let line = output
                .lines()
                .find(|line| line.contains("serving address="))?;
            line.rsplit_once("address=")?.1.trim().parse().ok()
        };
        eventually("the process serves", async || address().is_some()).await;
        address().unwrap()
    }

    /// Waits until it has written a text.
    pub(crate) async fn until_logged(&self, text: &str) {
        eventually(text, async || self.output().contains(text)).await;
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -s {name} {}", self.child.id())])
            .status();
        assert!(sent.unwrap().success(), "it has ended:\n{}", self.output());
    }

    /// Waits until it ends by itself.
    pub(crate) async fn end(mut self) -> Ended {
        let mut status = None;
        eventually("the process ends", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        Ended {
            status: status.unwrap(),
            output: self.output(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails when it has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(path) = &self.authority {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn collect(mut pipe: impl Read + Send + 'static, output: Arc<Mutex<String>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = [0; 4_096];
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            let text = String::from_utf8_lossy(&buffer[..length]);
            output.lock().unwrap().push_str(&text);
        }
    })
}

impl Ended {
    /// Everything that it wrote.
    pub(crate) fn output(&self) -> &str {
        &self.output
    }

    /// Checks the exit status and one line of the output, and that no secret is in it.
    pub(crate) fn check(&self, status: i32, text: &str) {
        let Self { output, .. } = self;
        assert_eq!(self.status.code(), Some(status), "{output}");
        assert!(output.contains(text), "`{text}` is not in:\n{output}");
        assert!(!output.contains(PASSWORD), "{output}");
        assert!(!output.contains("panicked"), "{output}");
    }
}

/// A minimal document, and lines at its end.
pub(crate) fn document(url: &str, lines: &str) -> String {
    format!(
        "server.identifier = \"org.example.test\"\nserver.listen = \"127.0.0.1:0\"\n\
         telemetry.metrics_listen = \"127.0.0.1:0\"\ndatabase.url = \"{url}\"\n{lines}"
    )
}

/// An address at which nobody listens.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// A URL with the password, at which nobody answers.
fn unreachable_url() -> String {
    format!("postgres://user:{PASSWORD}@{}/name", free_address())
}

/// A command line that cannot be used ends with 2, a document that cannot be with 1, and both say
/// what is wrong without repeating what they were given (ARC-100, ARC-101).
#[tokio::test]
async fn unusable_arguments_and_documents_end_the_process_at_once() {
    let with_variable = document("env:XMTP_TEST_UNSET", "");
    let document = document(&unreachable_url(), "");
    let twice = ["--config", document.as_str(), "--config-file", "/nowhere"];
    let variable = [("XMTP_CONFIG", document.as_str())];
    let secret_flag = format!("--{PASSWORD}");
    let no_file = "/nowhere/at/all";
    let cases: [(Start<'_>, i32, &str); 9] = [
        ((&[], &[]), 2, "--config-file"),
        ((&twice, &[]), 2, "conflict"),
        ((&["--config-file", no_file], &variable), 2, "conflict"),
        ((&[&secret_flag], &[]), 2, "unknown argument"),
        ((&["--log-level", PASSWORD], &variable), 2, "--log-level"),
        ((&["--config-file", no_file], &[]), 1, no_file),
        (
            (&["--config", &with_variable], &[]),
            1,
            "XMTP_TEST_UNSET is not set",
        ),
        ((&["--config", "server = 1"], &[]), 1, "configuration error"),
        ((&["--config", ""], &[]), 1, "required"),
    ];
    for ((arguments, variables), status, text) in cases {
        let ended = Process::start(arguments, variables).end().await;
        ended.check(status, text);
        assert_eq!(
            ended.output.trim_end().lines().count(),
            1,
            "{}",
            ended.output
        );
    }
}

/// What this build does not have is refused by its key, before anything is opened (ARC-100).
#[tokio::test]
async fn features_that_are_not_there_are_refused_by_name() {
    let cases = [
        (
            "push.http.allowed_domains = [\"example.org\"]".to_owned(),
            "push",
        ),
        (
            format!("telemetry.otlp_endpoint = \"http://{PASSWORD}:4317\""),
            "telemetry.otlp_endpoint",
        ),
    ];
    for (lines, key) in cases {
        let document = document(&unreachable_url(), &lines);
        let ended = Process::with_document(&document).end().await;
        ended.check(
            1,
            &format!("configuration error: {key}: this build does not"),
        );
    }
}

/// A chain's node that cannot be reached leaves the question open, and the log says which chain it was
/// and how it failed, without the address, which is often a secret (ARC-091, ARC-101).
#[tokio::test(flavor = "multi_thread")]
async fn the_address_of_a_node_stays_out_of_the_log() {
    let database = TestDatabase::create().await;
    let node = free_address();
    let document = document(
        &database.url(),
        &format!("chains.\"eip155:5\" = \"https://user:{PASSWORD}@{node}/{PASSWORD}\""),
    );
    let process = Process::with_document(&document);
    let address = process.until_serving().await;
    let request = VerifySmartContractWalletSignaturesRequest {
        signatures: vec![Signature {
            account_id: format!("eip155:5:0x{}", "1".repeat(40)),
            block_number: Some(1),
            hash: vec![1; 32].into(),
            signature: vec![1; 65].into(),
        }],
    };
    let method = "IdentityService/VerifySmartContractWalletSignatures";
    let answer: Result<VerifySmartContractWalletSignaturesResponse, _> =
        Transport::Native.call(address, method, &request).await;
    let status = answer.expect_err("nobody is there");
    assert_eq!(status.code(), Code::Unavailable);
    process
        .until_logged("a chain's node gave no verdict chain=\"eip155:5\" failure=\"connect\"")
        .await;
    process.signal("TERM");
    let ended = process.end().await;
    let said = format!("{status} {}", ended.output);
    for secret in [PASSWORD, &node.to_string()] {
        assert!(!said.contains(secret), "{said}");
    }
    database.drop().await;
}

/// A database that does not answer ends the start: status 1, the step is named, the URL is not, and
/// the gRPC port is never open (ARC-005, ARC-101).
#[tokio::test]
async fn an_unreachable_database_ends_the_process_and_the_port_is_never_open() {
    let address = free_address();
    let url = unreachable_url();
    let (_, host) = url.split_once('@').unwrap();
    let document = document(&url, "").replace(
        "server.listen = \"127.0.0.1:0\"",
        &format!("server.listen = \"{address}\""),
    );
    let mut process = Process::with_document(&document);
    eventually("the process ends", async || {
        assert!(TcpStream::connect(address).is_err(), "the port is open");
        process.child.try_wait().unwrap().is_some()
    })
    .await;
    let ended = process.end().await;
    ended.check(1, "database");
    assert!(!ended.output.contains(host), "{}", ended.output);
}

/// A wrong database name or user is refused by a server that does answer. Its message names them, so
/// it must not be passed on (ARC-101).
#[tokio::test]
async fn what_the_database_says_of_a_login_is_not_repeated() {
    let database = TestDatabase::create_bare().await;
    let url = database.url();
    let mut unknown: url::Url = url.parse().unwrap();
    unknown.set_path("/no_such_database_of_ours");
    let ended = Process::with_document(&document(unknown.as_str(), ""))
        .end()
        .await;
    ended.check(1, "database");
    assert!(
        !ended.output.contains("no_such_database"),
        "{}",
        ended.output
    );
    database.drop().await;
}

/// An address that is taken ends the start, and is named (ARC-100).
#[tokio::test]
async fn an_occupied_address_is_named() {
    let database = TestDatabase::create().await;
    for key in ["telemetry.metrics_listen", "server.listen"] {
        let occupied = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = occupied.local_addr().unwrap().to_string();
        let document = document(&database.url(), "").replace(
            &format!("{key} = \"127.0.0.1:0\""),
            &format!("{key} = \"{address}\""),
        );
        let ended = Process::with_document(&document).end().await;
        ended.check(1, &address);
    }
    database.drop().await;
}

/// The document may come from any of its three sources. The process serves, and ends with 0 at the
/// first SIGTERM or SIGINT; what it stored is there (ARC-003, ARC-100).
#[tokio::test]
async fn a_signal_ends_a_serving_process_with_success() {
    let database = TestDatabase::create_bare().await;
    let document = document("env:XMTP_TEST_DATABASE", "");
    let url = database.url();
    let path = std::env::temp_dir().join(format!("xmtp-backend-{}.toml", std::process::id()));
    std::fs::write(&path, &document).unwrap();
    let path_text = path.to_str().unwrap();
    let resolved = ("XMTP_TEST_DATABASE", url.as_str());
    let cases: [(Start<'_>, &str); 3] = [
        ((&["--config", &document], &[resolved]), "TERM"),
        ((&["--config-file", path_text], &[resolved]), "INT"),
        ((&[], &[("XMTP_CONFIG", &document), resolved]), "TERM"),
    ];
    for (number, ((arguments, variables), signal)) in (1..).zip(cases) {
        let process = Process::start(arguments, variables);
        let address = process.until_serving().await;
        let request = PublishRequest {
            envelopes: vec![message(1, number)],
        };
        let publish = Transport::Native.call(address, "PublishService/Publish", &request);
        assert_eq!(ids(publish.await).len(), 1);
        process.signal(signal);
        let ended = process.end().await;
        ended.check(0, "drained");
        assert!(TcpStream::connect(address).is_err());
    }
    std::fs::remove_file(path).unwrap();
    assert_eq!(database.count("envelopes").await, 3);
    database.drop().await;
}

/// Goal: whoever reads the log cannot stop the server by not reading on. Method: a process whose
/// output nobody reads answers more requests than the pipe holds lines for (ARC-094).
#[tokio::test]
async fn a_stalled_log_reader_does_not_stall_the_server() {
    /// Each line has over 200 bytes, and a pipe holds 64 KiB.
    const REQUESTS: usize = 600;

    let database = TestDatabase::create_bare().await;
    let address = free_address();
    let document = document(&database.url(), "").replace(
        "server.listen = \"127.0.0.1:0\"",
        &format!("server.listen = \"{address}\""),
    );
    let mut child = Command::new(env!("CARGO_BIN_EXE_xmtp-backend"))
        .args(["--config", &document])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the process serves", async || {
        TcpStream::connect(address).is_ok()
    })
    .await;
    let channel = harness::channel(address).await;
    let mut client = client::ConfigurationServiceClient::new(channel);
    for _ in 0..REQUESTS {
        let answer = client.get_configuration(GetConfigurationRequest {});
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        answer.expect("an answer in time").unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    database.drop().await;
}

/// A signal while the process waits for another instance's migration ends it promptly, with 0; the
/// port was never open and the database is untouched (ARC-003, ARC-005).
#[tokio::test]
async fn a_signal_ends_the_wait_for_the_migration_lock() {
    let database = TestDatabase::create_bare().await;
    let pool = database.pool().await;
    let locks = database.advisory_locks().await;
    let migration = AdvisoryLock::from(GlobalLock::Migration);
    let held = locks.hold(migration).await;
    let address = free_address();
    let document = document(&database.url(), "").replace(
        "server.listen = \"127.0.0.1:0\"",
        &format!("server.listen = \"{address}\""),
    );
    let process = Process::with_document(&document);
    let sessions = async || -> i64 {
        sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
              WHERE datname = current_database() AND application_name = 'xmtp-backend migrate'",
        )
        .fetch_one(&pool)
        .await
        .unwrap()
    };
    eventually("the process asks for the lock", async || {
        sessions().await == 1
    })
    .await;
    assert!(TcpStream::connect(address).is_err(), "the port is open");
    process.signal("TERM");
    process.end().await.check(0, "");

    eventually("its session is gone", async || sessions().await == 0).await;
    held.release().await;
    let server = TestServer::builder().database(database).start().await;
    assert_eq!(ids(server.publish(vec![message(1, 1)]).await), [1]);
    server.stop().await;
}
