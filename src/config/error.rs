//! What can be wrong with a configuration, and how it is said (ARC-100, ARC-101).
//!
//! Every text has the form `configuration error: <dotted key>: <rule>`. No variant has a field for
//! a configured value, so no text can show one.

use std::io;
use std::path::PathBuf;

/// Exit status of a command line that cannot be understood.
const USAGE_STATUS: u8 = 2;
/// Exit status of a configuration that cannot be used.
const FAILURE_STATUS: u8 = 1;

/// Why there is no configuration to run with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line asked for the help or version text; not a failure.
    #[error("{text}")]
    Help {
        /// The text to print on standard output.
        text: String,
    },
    /// The command line is malformed.
    #[error("configuration error: {option}: {rule}, see --help")]
    Arguments {
        /// The option at fault, or `command line` when the argument is none of ours.
        option: &'static str,
        /// What the option takes.
        rule: &'static str,
    },
    /// Neither an inline document nor a file was given.
    #[error(
        "configuration error: --config, XMTP_CONFIG, --config-file: one of them must give the document"
    )]
    NoSource,
    /// An inline document and a file were given.
    #[error(
        "configuration error: --config (XMTP_CONFIG), --config-file: they conflict, give only one"
    )]
    TwoSources,
    /// The configuration file could not be read.
    #[error("configuration error: --config-file: cannot read {path:?}")]
    FileUnreadable {
        /// The path as given.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// The configuration file is not UTF-8.
    #[error("configuration error: --config-file: {path:?} is not UTF-8")]
    FileNotText {
        /// The path as given.
        path: PathBuf,
    },
    /// The document is larger than any configuration needs.
    #[error("configuration error: document: must be at most {max} bytes")]
    DocumentTooLarge {
        /// The bound in bytes.
        max: usize,
    },
    /// The document is not TOML. The line itself stays out: it may hold a secret.
    #[error("configuration error: document: not valid TOML at line {line}, column {column}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
    },
    /// A table or key that no version of this document has.
    #[error("configuration error: {key}: unknown key")]
    UnknownKey {
        /// The dotted key.
        key: String,
    },
    /// A required key is absent.
    #[error("configuration error: {key}: required")]
    Missing {
        /// The dotted key.
        key: String,
    },
    /// A value has the wrong TOML type.
    #[error("configuration error: {key}: must be {expected}")]
    WrongType {
        /// The dotted key.
        key: String,
        /// The expected type, with its article.
        expected: &'static str,
    },
    /// A value of the right type breaks its key's rule.
    #[error("configuration error: {key}: {rule}")]
    Invalid {
        /// The dotted key, or the name of the variable that stands in for it.
        key: String,
        /// The violated rule.
        rule: Requirement,
    },
    /// A variable that an `env:` string names cannot be used.
    #[error("configuration error: {key}: environment variable {} {problem}", variable.escape_debug())]
    Variable {
        /// The dotted key, or the command line option, that reads the variable.
        key: String,
        /// The name of the variable.
        variable: String,
        /// What is wrong with it.
        problem: VariableProblem,
    },
    /// Two keys contradict each other.
    #[error("configuration error: {left}: must be {relation} {right}")]
    Relation {
        /// The dotted key on the left.
        left: &'static str,
        /// How the left value must compare.
        relation: &'static str,
        /// The dotted key or named bound on the right.
        right: &'static str,
    },
    /// The largest permitted envelope does not fit where every envelope must fit (ARC-079).
    #[error(
        "configuration error: limits.max_envelope_bytes: must leave {allowance} bytes below {bound} \
         of {bound_bytes} bytes"
    )]
    EnvelopeTooLarge {
        /// The bytes kept for metadata and framing.
        allowance: u64,
        /// The name of the bound.
        bound: &'static str,
        /// The bound in bytes.
        bound_bytes: u64,
    },
    /// A retention period ends after the last timestamp that can be stored (ARC-102).
    #[error(
        "configuration error: {key}: counted from the database clock, the expiry must fit a signed \
         64-bit count of nanoseconds"
    )]
    Expiry {
        /// The dotted key.
        key: &'static str,
    },
    /// A table or key whose feature this build does not have.
    #[error("configuration error: {key}: this build does not {feature}")]
    Unsupported {
        /// The dotted key or table.
        key: &'static str,
        /// What the build does not do, as a verb phrase.
        feature: &'static str,
    },
}

impl Error {
    /// The process exit status that reports this outcome: 0 for a help text, 2 for a command line
    /// that cannot be used, 1 for everything else.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Help { .. } => 0,
            Self::Arguments { .. } | Self::NoSource | Self::TwoSources => USAGE_STATUS,
            Self::FileUnreadable { .. }
            | Self::FileNotText { .. }
            | Self::DocumentTooLarge { .. }
            | Self::Syntax { .. }
            | Self::UnknownKey { .. }
            | Self::Missing { .. }
            | Self::WrongType { .. }
            | Self::Invalid { .. }
            | Self::Variable { .. }
            | Self::Relation { .. }
            | Self::EnvelopeTooLarge { .. }
            | Self::Expiry { .. }
            | Self::Unsupported { .. } => FAILURE_STATUS,
        }
    }

    /// A broken rule of one key.
    pub(super) fn invalid(key: impl Into<String>, rule: Requirement) -> Self {
        Self::Invalid {
            key: key.into(),
            rule,
        }
    }
}

/// The rule that a single value breaks.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Requirement {
    /// An integer outside its inclusive range.
    #[error("must be an integer from {min} to {max}")]
    Range {
        /// Smallest legal value.
        min: i64,
        /// Largest legal value.
        max: i64,
    },
    /// A number outside 0.0 to 1.0, or not a number.
    #[error("must be a finite number from 0.0 to 1.0")]
    Ratio,
    /// A text that does not have the form its key asks for.
    #[error("must be {0}")]
    Form(&'static str),
    /// A map entry whose name does not have the form the map asks for.
    #[error("every entry name must be {0}")]
    EntryName(&'static str),
    /// A list with too few entries.
    #[error("must have at least {min} entries")]
    TooFew {
        /// Fewest legal entries.
        min: usize,
    },
    /// A map with too many entries.
    #[error("must have at most {max} entries")]
    TooMany {
        /// Most legal entries.
        max: usize,
    },
    /// A timer that would end after the last instant of the monotonic clock.
    #[error("must form a representable deadline on the monotonic clock")]
    Deadline,
    /// A map entry name that the server writes itself.
    #[error("reserved, the server sets it itself")]
    Reserved,
    /// A value that another entry of the same list or map has too.
    #[error("must differ from every other entry")]
    Unique,
    /// An `env:` string that names no variable.
    #[error("`env:` must be followed by a variable name without `=` and NUL")]
    VariableName,
}

/// Why a variable cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum VariableProblem {
    /// It is not set.
    #[error("is not set")]
    Missing,
    /// It is set to something that is not Unicode.
    #[error("is not Unicode")]
    NotUnicode,
}
