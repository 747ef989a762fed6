//! A database of its own for every test, cloned from a template that is migrated once.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgPool};
use tokio::sync::OnceCell;
use url::Url;
use xmtp_backend::db::Database;

/// Where the tests find a superuser's database.
const URL: &str = "XMTP_TEST_DATABASE_URL";

static TEMPLATE: OnceCell<String> = OnceCell::const_new();
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// When this process first asked for a name, in microseconds since the Unix epoch. The number of a
/// process comes back, and a test that failed left its database behind.
static BEGUN_US: LazyLock<u128> = LazyLock::new(|| {
    SystemTime::UNIX_EPOCH
        .elapsed()
        .expect("a clock that is past 1970")
        .as_micros()
});

/// A migrated, empty database.
#[derive(Debug)]
pub struct TestDatabase {
    /// The administrative database of the server that it is on.
    server: Url,
    name: String,
}

impl TestDatabase {
    /// Clones the template.
    pub async fn create() -> Self {
        let template = TEMPLATE.get_or_init(make_template).await;
        Self::create_from(superuser_url(), template).await
    }

    /// Creates a database without any table.
    pub async fn create_bare() -> Self {
        Self::create_bare_at(superuser_url()).await
    }

    /// Like [`create_bare`](Self::create_bare), on another server.
    pub(crate) async fn create_bare_at(server: Url) -> Self {
        Self::create_from(server, "template1").await
    }

    async fn create_from(server: Url, template: &str) -> Self {
        let name = unique_name();
        let statement = format!("CREATE DATABASE {name} TEMPLATE {template}");
        administrate(&server, &statement).await;
        Self { server, name }
    }

    /// Its name on its server.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The same database once more, for a second server. Only one of them may be dropped.
    pub fn share(&self) -> Self {
        Self {
            server: self.server.clone(),
            name: self.name.clone(),
        }
    }

    /// How a server reaches it.
    pub fn url(&self) -> String {
        let mut url = self.server.clone();
        url.set_path(&self.name);
        url.into()
    }

    /// How the driver reaches it.
    pub fn options(&self) -> PgConnectOptions {
        self.url().parse().expect("a database URL")
    }

    /// A pool beside the server's, to look at what it stored and to get in its way.
    pub async fn pool(&self) -> PgPool {
        PgPoolOptions::new()
            .connect_with(self.options())
            .await
            .expect("the test database answers")
    }

    /// One connection, outside any pool.
    pub async fn connection(&self) -> PgConnection {
        self.options()
            .connect()
            .await
            .expect("the test database answers")
    }

    /// How many rows a table has.
    pub async fn count(&self, table: &str) -> i64 {
        let mut connection = self.connection().await;
        sqlx::query_scalar(AssertSqlSafe(format!("SELECT count(*) FROM {table}")))
            .fetch_one(&mut connection)
            .await
            .expect("a table of the schema")
    }

    /// The last id that was handed out; 0 when none was.
    pub async fn last_allocated(&self) -> i64 {
        let mut connection = self.connection().await;
        sqlx::query_scalar(
            "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM envelope_sequence",
        )
        .fetch_one(&mut connection)
        .await
        .expect("the sequence of the schema")
    }

    /// Removes it, whoever is still connected.
    pub async fn drop(self) {
        let statement = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        administrate(&self.server, &statement).await;
    }
}

async fn make_template() -> String {
    let template = TestDatabase::create_bare().await;
    Database::migrate(&template.options())
        .await
        .expect("an empty database can be migrated");
    template.name
}

fn unique_name() -> String {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    format!("xmtp_test_{}_{process}_{number}", *BEGUN_US)
}

/// The administrative database of the PostgreSQL that the tests use.
pub(crate) fn superuser_url() -> Url {
    let url = std::env::var(URL).unwrap_or_else(|_| {
        panic!("{URL} is not set: `cargo xtask test` starts a PostgreSQL and sets it")
    });
    url.parse().expect("the test database URL is a URL")
}

async fn administrate(server: &Url, statement: &str) {
    let options: PgConnectOptions = server.as_str().parse().expect("a database URL");
    let mut connection = options
        .connect()
        .await
        .expect("the test PostgreSQL answers");
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))
        .execute(&mut connection)
        .await
        .expect("the test user may create and drop databases");
    connection
        .close()
        .await
        .expect("a connection that worked can be closed");
}
