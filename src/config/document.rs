//! The document as a whole: its tables, and the steps from text to [`Config`] (ARC-100).
//!
//! Order: pick the source, parse TOML, resolve variables, check key names and types everywhere,
//! judge values, check relations between keys. The first failure is the one reported.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use toml::{Table, Value};
use url::Url;

use super::error::Error;
use super::key::{Section, Shape, section, table};
use super::secret::{Environment, Secret, resolve};
use super::source::Args;
use super::{
    Auth, ChainId, Database, Limits, Mls, Publishing, Push, Retention, Server, Streams, Telemetry,
    Validation, auth, chains, relations,
};

section! {
    /// A checked configuration. Holding one means that every rule of the document holds.
    pub struct Config {
        /// What the deployment is called, where it listens and what it logs.
        "server" => server: Server = table();
        /// Metrics and traces.
        "telemetry" => telemetry: Telemetry = table();
        /// Connections to PostgreSQL.
        "database" => database: Database = table();
        /// Bounds on the work of one publish request.
        "publishing" => publishing: Publishing = table();
        /// Delivery to subscribers.
        "streams" => streams: Streams = table();
        /// How long messages are kept.
        "retention" => retention: Retention = table();
        /// RPC endpoint of each chain whose smart contract wallets are verified, keyed by CAIP-2
        /// id (`eip155:<number>`). Identities of wallets on other chains are refused as
        /// unavailable; all other identities need no entry.
        "chains" => chains: BTreeMap<ChainId, Secret<Url>> = chains::rule();
        /// Verification of smart contract wallet signatures.
        "validation" => validation: Validation = table();
        /// Public limits: what the server enforces is what it publishes.
        "limits" => limits: Limits = table();
        /// Caller authentication. Absent, or with `enabled = false`, no credential is read and the
        /// other keys of the table are not validated.
        "auth" => auth: Option<Auth> = auth::rule();
        /// Push notifications. A channel exists if its table is present.
        "push" => push: Option<Push> = table().optional();
        /// Advice to clients, published and never enforced.
        "mls" => mls: Mls = table();
    }
}

/// Loads the configuration that a command line names.
///
/// A function of its arguments: `environment` looks up variables and `read` reads the file, which
/// are `std::env::var_os` and [`read_file`](super::read_file) in the server.
///
/// # Errors
/// [`Error::NoSource`] and [`Error::TwoSources`] for the command line, the `File` variants and
/// [`Error::DocumentTooLarge`] for the document, and everything [`Config::parse`] returns.
pub fn load(
    args: &Args,
    environment: &Environment<'_>,
    read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<Config, Error> {
    let document = args.document(environment, read)?;
    let mut config = Config::parse(&document, environment)?;
    if let Some(level) = args.log_level() {
        config.server.log_level = level;
    }
    Ok(config)
}

impl Config {
    /// Checks a document.
    ///
    /// # Errors
    /// [`Error::Syntax`], [`Error::Variable`], [`Error::UnknownKey`], [`Error::WrongType`],
    /// [`Error::Missing`], [`Error::Invalid`], [`Error::Relation`] or [`Error::EnvelopeTooLarge`].
    pub fn parse(document: &str, environment: &Environment<'_>) -> Result<Self, Error> {
        let mut table: Table = document
            .parse()
            .map_err(|error| syntax_error(document, &error))?;
        resolve(&mut table, environment)?;
        let table = Value::Table(table);
        Shape::Table(Self::keys()).check(&table, "")?;
        let table = table.as_table().expect("it was wrapped four lines above");
        let mut config = Self::decode(table, "")?;
        config.telemetry.resolve_endpoint(environment)?;
        relations::check(&config)?;
        Ok(config)
    }
}

/// Where the document stops being TOML. The parser's own message quotes the document.
fn syntax_error(document: &str, error: &toml::de::Error) -> Error {
    let offset = error.span().map_or(0, |span| span.start);
    let before = document.get(..offset).unwrap_or(document);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    Error::Syntax {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}
