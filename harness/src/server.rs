//! A real server on a free port, over a database of its own.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use envelope::scw::Verify;
use envelope::wire::xmtp::backend::v1::{ClientEnvelope, PublishRequest, PublishResponse};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use prost::Message;
use rustls::pki_types::CertificateDer;
use tokio::task::JoinHandle;
use tonic::Status;
use xmtp_backend::clock::Clock;
use xmtp_backend::config::Config;
use xmtp_backend::outbound::Trust;
use xmtp_backend::run::{self, Running, Surroundings};
use xmtp_backend::server::Connections;

use super::{Form, Http, TestDatabase, Transport, WebCall};

/// A server under test.
#[derive(Debug)]
pub struct TestServer {
    running: Running,
    database: TestDatabase,
}

/// How a server under test differs from a minimal deployment.
pub struct TestServerBuilder {
    /// Lines of the document besides the required ones.
    document: String,
    surroundings: Surroundings,
    database: Option<TestDatabase>,
}

impl TestServer {
    /// A minimal deployment.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// A deployment that differs from the minimal one.
    pub fn builder() -> TestServerBuilder {
        TestServerBuilder {
            document: String::new(),
            surroundings: Surroundings::production(),
            database: None,
        }
    }

    /// Where it serves gRPC.
    pub fn address(&self) -> SocketAddr {
        self.running.address()
    }

    /// Where it serves metrics.
    pub fn metrics_address(&self) -> SocketAddr {
        self.running.metrics_address().expect("tests serve metrics")
    }

    /// Its database.
    pub fn database(&self) -> &TestDatabase {
        &self.database
    }

    /// The value of one series of its metrics, labels included; 0 for one that is not there yet.
    pub async fn metric(&self, series: &str) -> u64 {
        let text = self.exposition().await;
        text.lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
            .map_or(0, |value| value.parse().expect("a whole number"))
    }

    /// The text of its metrics.
    pub async fn exposition(&self) -> String {
        let address = self.metrics_address();
        let request = Request::get(format!("http://{address}/metrics"))
            .header("host", address.to_string())
            .body(Full::default())
            .expect("a well-formed request");
        let call = WebCall {
            address,
            http: Http::One,
            form: Form::Binary,
        };
        let body = call.send(request).await.into_body().collect().await;
        let text = body.expect("the whole exposition").to_bytes();
        String::from_utf8(text.into()).expect("an exposition is text")
    }

    /// Calls `Service/Method` over native gRPC.
    pub async fn call<Q, A>(&self, method: &str, request: &Q) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        Transport::Native
            .call(self.address(), method, request)
            .await
    }

    /// Publishes over native gRPC.
    pub async fn publish(&self, envelopes: Vec<ClientEnvelope>) -> Result<PublishResponse, Status> {
        self.call("PublishService/Publish", &PublishRequest { envelopes })
            .await
    }

    /// Begins a publish in a task of its own, so that the test can act while it waits.
    pub fn begin_publish(
        &self,
        transport: Transport,
        envelopes: Vec<ClientEnvelope>,
    ) -> JoinHandle<Result<PublishResponse, Status>> {
        let address = self.address();
        tokio::spawn(async move {
            let request = PublishRequest { envelopes };
            transport
                .call(address, "PublishService/Publish", &request)
                .await
        })
    }

    /// Stops it and removes its database.
    pub async fn stop(self) {
        let database = self.stop_keeping_database().await;
        database.drop().await;
    }

    /// Stops it.
    pub async fn stop_keeping_database(self) -> TestDatabase {
        let Self { running, database } = self;
        running.stop().await;
        database
    }
}

impl TestServerBuilder {
    /// Adds a table of the configuration document.
    pub fn table(mut self, name: &str, lines: &str) -> Self {
        writeln!(self.document, "[{name}]\n{lines}").expect("a string takes any line");
        self
    }

    /// Judges key packages as of this time.
    pub fn at_unix_seconds(mut self, seconds: u64) -> Self {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        self.surroundings.clock = Clock::from_fn(move || now);
        self
    }

    /// Asks this verifier instead of a chain.
    pub fn wallets(mut self, wallets: impl Verify + 'static) -> Self {
        self.surroundings.wallets = Some(Arc::new(wallets));
        self
    }

    /// Trusts these certificate authorities of other servers instead of the machine's.
    pub fn trust(mut self, authorities: Vec<CertificateDer<'static>>) -> Self {
        self.surroundings.trust = Trust::Only(authorities);
        self
    }

    /// Gives the checks of one publish, and the verdicts of one request, this long.
    pub fn max_check_duration(mut self, duration: Duration) -> Self {
        self.surroundings.max_check_duration = duration;
        self
    }

    /// Changes how many connections it has, and how long each may keep it waiting.
    pub fn connections(mut self, change: impl FnOnce(&mut Connections)) -> Self {
        change(&mut self.surroundings.connections);
        self
    }

    /// Uses a database that exists already.
    pub fn database(mut self, database: TestDatabase) -> Self {
        self.database = Some(database);
        self
    }

    /// Starts it.
    pub async fn start(self) -> TestServer {
        self.try_start().await.expect("the server starts")
    }

    /// Starts it, or tells why it does not start.
    pub async fn try_start(self) -> Result<TestServer, run::Error> {
        let Self {
            document,
            surroundings,
            database,
        } = self;
        let database = match database {
            Some(database) => database,
            None => TestDatabase::create().await,
        };
        let document = with_required_keys(&document, &database.url());
        let config = Config::parse(&document, &|_| None)?;
        let running = run::start(config, surroundings).await?;
        Ok(TestServer { running, database })
    }
}

/// Puts the keys that every document needs into the tables that a test may have written already.
fn with_required_keys(document: &str, database_url: &str) -> String {
    let mut table: toml::Table = document.parse().expect("tests write TOML");
    let mut put = |section: &str, key: &str, value: &str| {
        let section = table
            .entry(section)
            .or_insert_with(|| toml::Table::new().into());
        let section = section.as_table_mut().expect("a table");
        section.entry(key).or_insert_with(|| value.into());
    };
    put("server", "identifier", "org.example.test");
    put("server", "listen", "127.0.0.1:0");
    put("telemetry", "metrics_listen", "127.0.0.1:0");
    put("database", "url", database_url);
    table.to_string()
}
