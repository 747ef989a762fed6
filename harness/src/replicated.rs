//! A primary and its physical standby, made for one test and gone after it (ARC-007, ARC-060).
//!
//! Both run from the binaries of the PostgreSQL that the tests use anyway, on free ports of the
//! loopback interface, without durability.

use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use url::Url;

use super::database::superuser_url;
use super::{TestDatabase, eventually};

/// PostgreSQL refuses to run as root; root hands over to this account.
const UNPRIVILEGED: &str = "nobody";

/// A primary with one standby that streams from it.
#[derive(Debug)]
pub struct Replicated {
    // Fields are dropped in order: the standby first, the folder last.
    standby: Cluster,
    primary: Cluster,
    _folder: Folder,
}

impl Replicated {
    /// Makes both and starts them.
    ///
    /// # Panics
    ///
    /// When the PostgreSQL of the tests does not run on this machine.
    pub async fn start() -> Self {
        let tools = Tools::of_test_server().await;
        let folder = Folder::create(&tools);
        let primary = Cluster::make_primary(&tools, &folder.0.join("primary")).await;
        let standby = Cluster::make_standby(&tools, &folder.0.join("standby"), &primary).await;
        Self {
            standby,
            primary,
            _folder: folder,
        }
    }

    /// Stops the primary as if its processes had been killed, and starts it again at once. It accepts
    /// connections when this returns, after it has recovered.
    pub async fn crash_primary(&mut self) {
        self.primary.crash().await;
    }

    /// Like [`crash_primary`](Self::crash_primary), for the standby.
    pub async fn crash_standby(&mut self) {
        self.standby.crash().await;
    }

    /// An empty database without tables, on the primary; the standby has it too.
    pub async fn create_bare(&self) -> TestDatabase {
        let database = TestDatabase::create_bare_at(self.primary.url()).await;
        let standby = self.standby_options(&database);
        eventually("the standby has the database", async || {
            standby.connect().await.is_ok()
        })
        .await;
        database
    }

    /// How a server reaches a database of the primary on the standby.
    pub fn standby_url(&self, database: &TestDatabase) -> String {
        let mut url = self.standby.url();
        url.set_path(database.name());
        url.into()
    }

    /// One connection to a database on the standby.
    pub async fn standby_connection(&self, database: &TestDatabase) -> PgConnection {
        let connection = self.standby_options(database).connect().await;
        connection.expect("the standby answers")
    }

    fn standby_options(&self, database: &TestDatabase) -> PgConnectOptions {
        let url = self.standby_url(database);
        url.parse().expect("a database URL")
    }

    /// Keeps the standby from showing anything newer than it shows when this returns.
    pub async fn pause_replay(&self) {
        assert!(self.on_standby("SELECT pg_wal_replay_pause()").await);
        eventually("replay is paused", async || {
            self.on_standby("DO $$ BEGIN ASSERT pg_get_wal_replay_pause_state() = 'paused'; END $$")
                .await
        })
        .await;
    }

    /// Lets the standby catch up.
    pub async fn resume_replay(&self) {
        assert!(self.on_standby("SELECT pg_wal_replay_resume()").await);
    }

    /// Returns when the standby shows everything that the primary shows now.
    pub async fn catch_up(&self) {
        let written: String = scalar(&self.primary, "SELECT pg_current_wal_lsn()::text").await;
        let statement = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'::pg_lsn");
        eventually("the standby catches up", async || {
            scalar(&self.standby, &statement).await
        })
        .await;
    }

    /// Makes the standby a primary of its own.
    pub async fn promote(&self) {
        assert!(scalar::<bool>(&self.standby, "SELECT pg_promote()").await);
    }

    /// Stops the standby and starts it again, at the same address.
    pub async fn restart_standby(&mut self) {
        self.standby.restart().await;
    }

    /// Runs a statement on the standby, and tells whether it succeeded.
    async fn on_standby(&self, statement: &'static str) -> bool {
        let options: PgConnectOptions = self.standby.url().as_str().parse().expect("a URL");
        let mut connection = options.connect().await.expect("the standby answers");
        let succeeded = sqlx::raw_sql(statement)
            .execute(&mut connection)
            .await
            .is_ok();
        connection.close().await.expect("a healthy session");
        succeeded
    }
}

/// The one value of a statement in an administrative database.
async fn scalar<T>(cluster: &Cluster, statement: &str) -> T
where
    T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
{
    let options: PgConnectOptions = cluster.url().as_str().parse().expect("a URL");
    let mut connection = options.connect().await.expect("the cluster answers");
    let value = sqlx::query_scalar(AssertSqlSafe(statement.to_owned()))
        .fetch_one(&mut connection)
        .await
        .expect("a statement of the harness");
    connection.close().await.expect("a healthy session");
    value
}

/// The programs of one PostgreSQL, and who they run as.
#[derive(Clone, Debug)]
struct Tools {
    folder: PathBuf,
    account: Option<(u32, u32)>,
}

impl Tools {
    async fn of_test_server() -> Self {
        let options: PgConnectOptions = superuser_url().as_str().parse().expect("a URL");
        let mut connection = options
            .connect()
            .await
            .expect("the test PostgreSQL answers");
        let folder: String =
            sqlx::query_scalar("SELECT setting FROM pg_config WHERE name = 'BINDIR'")
                .fetch_one(&mut connection)
                .await
                .expect("a superuser may ask where the programs are");
        Self {
            folder: folder.into(),
            account: unprivileged_account(),
        }
    }

    fn command(&self, program: &str) -> Command {
        let path = self.folder.join(program);
        assert!(path.exists(), "{} is not on this machine", path.display());
        let mut command = Command::new(path);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some((uid, gid)) = self.account {
            command.uid(uid).gid(gid);
        }
        command
    }
}

/// The folder of the clusters, removed when dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn create(tools: &Tools) -> Self {
        let name = format!(
            "xmtp-test-replicated-{}-{}",
            std::process::id(),
            free_port()
        );
        let folder = Self(std::env::temp_dir().join(name));
        std::fs::create_dir(&folder.0).expect("the temporary folder is writable");
        if let Some((uid, gid)) = tools.account {
            chown(&folder.0, Some(uid), Some(gid)).expect("root may give folders away");
        }
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays in the temporary folder of the machine.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One running PostgreSQL.
#[derive(Debug)]
struct Cluster {
    tools: Tools,
    data: PathBuf,
    port: u16,
    process: Child,
}

impl Cluster {
    async fn make_primary(tools: &Tools, data: &Path) -> Self {
        let made = tools
            .command("initdb")
            .args(["--username", "postgres", "--auth", "trust", "--no-sync"])
            .args(["--encoding", "UTF8", "--no-locale", "-D"])
            .arg(data)
            .status();
        assert!(made.expect("initdb starts").success(), "initdb fails");
        Self::run(tools, data).await
    }

    async fn make_standby(tools: &Tools, data: &Path, primary: &Self) -> Self {
        let copied = tools
            .command("pg_basebackup")
            .args(["--write-recovery-conf", "--no-sync", "--checkpoint", "fast"])
            .args(["--wal-method", "stream", "--dbname", primary.url().as_str()])
            .arg("-D")
            .arg(data)
            .status();
        assert!(
            copied.expect("pg_basebackup starts").success(),
            "pg_basebackup fails"
        );
        Self::run(tools, data).await
    }

    async fn run(tools: &Tools, data: &Path) -> Self {
        let port = free_port();
        let cluster = Self {
            tools: tools.clone(),
            data: data.to_owned(),
            port,
            process: Self::spawn(tools, data, port),
        };
        cluster.until_it_answers().await;
        cluster
    }

    async fn restart(&mut self) {
        self.stop_and_start("INT").await;
    }

    /// Like [`restart`](Self::restart), without a clean shutdown.
    async fn crash(&mut self) {
        self.stop_and_start("QUIT").await;
    }

    async fn stop_and_start(&mut self, signal: &str) {
        self.ask_to_stop(signal);
        eventually("the cluster ends", async || {
            let ended = self.process.try_wait();
            ended.expect("a child of this process").is_some()
        })
        .await;
        self.process = Self::spawn(&self.tools, &self.data, self.port);
        self.until_it_answers().await;
    }

    async fn until_it_answers(&self) {
        let options: PgConnectOptions = self.url().as_str().parse().expect("a URL");
        eventually("the cluster answers", async || {
            options.connect().await.is_ok()
        })
        .await;
    }

    fn spawn(tools: &Tools, data: &Path, port: u16) -> Child {
        let mut command = tools.command("postgres");
        command.arg("-D").arg(data);
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "fsync=off",
            "max_connections=50",
            // Streaming alone should move the standby, and at once.
            "wal_level=replica",
            "hot_standby=on",
            &format!("port={port}"),
        ] {
            command.args(["-c", setting]);
        }
        command.spawn().expect("postgres starts")
    }

    /// Asks for a fast shutdown, so that no process of it is left; kills it if that cannot be asked.
    fn ask_to_stop(&mut self, signal: &str) {
        let asked = Command::new("sh")
            .args(["-c", &format!("kill -s {signal} {}", self.process.id())])
            .status();
        if !asked.is_ok_and(|status| status.success()) {
            let _ = self.process.kill();
        }
    }

    /// Its administrative database.
    fn url(&self) -> Url {
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", self.port);
        url.parse().expect("a URL")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.ask_to_stop("INT");
        let _ = self.process.wait();
    }
}

/// A port that nobody uses now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback interface has free ports");
    listener.local_addr().expect("a bound address").port()
}

/// Who the programs must run as: nobody in particular, unless this is root.
fn unprivileged_account() -> Option<(u32, u32)> {
    let own = std::fs::metadata("/proc/self").ok()?.uid();
    if own != 0 {
        return None;
    }
    let accounts = std::fs::read_to_string("/etc/passwd").expect("root may read the accounts");
    let ids = accounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        match fields.as_slice() {
            [name, _, uid, gid, ..] if *name == UNPRIVILEGED => {
                Some((uid.parse().ok()?, gid.parse().ok()?))
            }
            _ => None,
        }
    });
    Some(ids.expect("the machine has an account to run PostgreSQL under"))
}
