//! The command line and the one source of the document (ARC-100).
//!
//! The document comes inline (`--config`, or its variable `XMTP_CONFIG`) or from a file
//! (`--config-file`), never from both: nothing is merged, included or reloaded. Errors name the
//! options and never show an argument, because an argument may be a document with secrets in it.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::error::Error;
use super::secret::{Environment, read_variable};
use super::server::LogLevel;

/// Most bytes of a document. A configuration with every key and hundreds of chains and API keys
/// stays far below; the bound keeps a wrong path (a device, a log) from filling memory.
pub const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The variable that stands in for `--config`.
const CONFIG_VARIABLE: &str = "XMTP_CONFIG";

/// The command line of the server.
#[derive(Clone, Parser)]
#[command(
    name = "xmtp-backend",
    version,
    about = "Self-hosted XMTP backend on PostgreSQL"
)]
pub struct Args {
    // The variable is read by `source` and not by clap: a function of its arguments can be tested,
    // and the help text cannot print the value.
    /// The configuration as a TOML document [env: XMTP_CONFIG]
    #[arg(long, value_name = "TOML")]
    config: Option<String>,
    /// Path of a TOML file with the configuration
    #[arg(long, value_name = "PATH")]
    config_file: Option<PathBuf>,
    /// Log level that overrides server.log_level
    #[arg(long, value_name = "LEVEL", value_parser = log_level())]
    log_level: Option<LogLevel>,
}

impl fmt::Debug for Args {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The document may hold secrets, so only its presence is told.
        f.debug_struct("Args")
            .field("config", &self.config.is_some())
            .field("config_file", &self.config_file)
            .field("log_level", &self.log_level)
            .finish()
    }
}

impl Args {
    /// Parses a command line whose first item is the program name.
    ///
    /// # Errors
    /// [`Error::Help`] when help or version was asked for, [`Error::Arguments`] when the line cannot
    /// be understood.
    pub fn from_command_line(
        line: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> Result<Self, Error> {
        Self::try_parse_from(line).map_err(|error| usage(&error))
    }

    /// The log level of the command line, which beats the one of the document.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        self.log_level
    }

    /// Reads the document from the one source that was given.
    pub(super) fn document(
        &self,
        environment: &Environment<'_>,
        read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<String, Error> {
        let inline = match &self.config {
            Some(document) => Some(document.clone()),
            None => read_variable(CONFIG_VARIABLE, "--config", environment)?,
        };
        let document = match (inline, &self.config_file) {
            (Some(_), Some(_)) => return Err(Error::TwoSources),
            (None, None) => return Err(Error::NoSource),
            (Some(document), None) => document,
            (None, Some(path)) => file_text(path, read)?,
        };
        if document.len() > DOCUMENT_BYTES_MAX {
            return Err(Error::DocumentTooLarge {
                max: DOCUMENT_BYTES_MAX,
            });
        }
        Ok(document)
    }
}

/// Reads a file, but no more than one byte above [`DOCUMENT_BYTES_MAX`].
///
/// # Errors
/// What the operating system says about the path.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(DOCUMENT_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn file_text(path: &Path, read: &dyn Fn(&Path) -> io::Result<Vec<u8>>) -> Result<String, Error> {
    let bytes = read(path).map_err(|source| Error::FileUnreadable {
        path: path.to_owned(),
        source,
    })?;
    // Told before UTF-8, because the cut may fall inside a character.
    if bytes.len() > DOCUMENT_BYTES_MAX {
        return Err(Error::DocumentTooLarge {
            max: DOCUMENT_BYTES_MAX,
        });
    }
    String::from_utf8(bytes).map_err(|_| Error::FileNotText {
        path: path.to_owned(),
    })
}

fn log_level() -> impl TypedValueParser<Value = LogLevel> {
    PossibleValuesParser::new(LogLevel::WORDS.map(|(word, _)| word))
        .try_map(|word| LogLevel::from_word(&word).ok_or("unknown level"))
}

/// Translates the parser's verdict. Its own text quotes the argument, so only kind and option pass.
fn usage(error: &clap::Error) -> Error {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        return Error::Help {
            text: error.to_string(),
        };
    }
    let given = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(given)) => given.split_whitespace().next(),
        _ => None,
    };
    let (option, rule) = match given {
        Some("--config") => ("--config", "takes one TOML document in UTF-8"),
        Some("--config-file") => ("--config-file", "takes one path"),
        Some("--log-level") => ("--log-level", LogLevel::EXPECTED_ON_COMMAND_LINE),
        _ => ("command line", "unknown argument"),
    };
    Error::Arguments { option, rule }
}
