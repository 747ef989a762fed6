//! Secrets: where they come from (`env:NAME`) and how they are kept out of every output (ARC-101).
//!
//! Variables are resolved over the whole document before any table is judged, in one pass: a value
//! that itself starts with `env:` is taken literally. Entry names are never resolved. Errors name
//! the variable and the key, never the value.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use toml::{Table, Value};

use super::error::{Error, Requirement, VariableProblem};
use super::key::dotted;

/// Looks up an environment variable; `std::env::var_os` in the server, a table in tests.
pub type Environment<'a> = dyn Fn(&str) -> Option<OsString> + 'a;

/// What is printed in place of a value that may be secret.
const MASK: &str = "[redacted]";

/// How a string value says that it stands in a variable.
const PREFIX: &str = "env:";

/// A value that must not be printed: `Debug` shows a fixed mask, and there is no `Display`.
#[derive(Clone)]
#[cfg_attr(test, derive(PartialEq))]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Wraps a value.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Hands out the value. Whoever calls this keeps it out of errors, logs, metrics and spans.
    #[must_use]
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// Replaces every `env:NAME` string of the document by the value of the variable.
///
/// Recursion is bounded by the TOML parser, which refuses deep nesting.
pub(super) fn resolve(document: &mut Table, environment: &Environment<'_>) -> Result<(), Error> {
    resolve_table(document, "", environment)
}

fn resolve_table(
    table: &mut Table,
    path: &str,
    environment: &Environment<'_>,
) -> Result<(), Error> {
    for (name, value) in table.iter_mut() {
        resolve_value(value, &dotted(path, name), environment)?;
    }
    Ok(())
}

fn resolve_value(
    value: &mut Value,
    path: &str,
    environment: &Environment<'_>,
) -> Result<(), Error> {
    if let Some(table) = value.as_table_mut() {
        return resolve_table(table, path, environment);
    }
    if let Some(items) = value.as_array_mut() {
        for (index, item) in items.iter_mut().enumerate() {
            resolve_value(item, &format!("{path}[{index}]"), environment)?;
        }
    }
    if let Some(variable) = value.as_str().and_then(|text| text.strip_prefix(PREFIX)) {
        *value = Value::String(required_variable(variable, path, environment)?);
    }
    Ok(())
}

fn required_variable(
    variable: &str,
    path: &str,
    environment: &Environment<'_>,
) -> Result<String, Error> {
    if variable.is_empty() || variable.contains(['=', '\0']) {
        return Err(Error::invalid(path, Requirement::VariableName));
    }
    read_variable(variable, path, environment)?.ok_or_else(|| Error::Variable {
        key: path.to_owned(),
        variable: variable.to_owned(),
        problem: VariableProblem::Missing,
    })
}

/// The value of a variable, or nothing when it is not set.
pub(super) fn read_variable(
    variable: &str,
    key: &str,
    environment: &Environment<'_>,
) -> Result<Option<String>, Error> {
    environment(variable)
        .map(OsString::into_string)
        .transpose()
        .map_err(|_| Error::Variable {
            key: key.to_owned(),
            variable: variable.to_owned(),
            problem: VariableProblem::NotUnicode,
        })
}

/// How a configured value appears in `Debug` output.
///
/// Numbers and booleans appear as they are. Whatever the document writes as a string is masked,
/// because a string may have come from a variable. A new field type has to choose here.
pub(super) trait Show {
    /// Prints the value, or the mask.
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// Adapts [`Show`] to `Debug`.
pub(super) struct Shown<'a, T: ?Sized>(pub(super) &'a T);

impl<T: Show + ?Sized> fmt::Debug for Shown<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.show(f)
    }
}

macro_rules! plain {
    ($($Type:ty),+) => {$(
        impl Show for $Type {
            fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, f)
            }
        }
    )+};
}

macro_rules! masked {
    ($($Type:ty),+) => {$(
        impl Show for $Type {
            fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(MASK)
            }
        }
    )+};
}

plain!(bool, u16, u32, u64, f64, Duration);
masked!(
    String,
    SocketAddr,
    semver::Version,
    super::LogLevel,
    super::LogFormat,
    super::Algorithm,
    super::ApnsEnvironment
);

impl<T> Show for Secret<T> {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl<T: Show> Show for Option<T> {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.as_ref().map(Shown), f)
    }
}

impl<T: Show> Show for Vec<T> {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(Shown)).finish()
    }
}

impl<K: fmt::Debug, T: Show> Show for BTreeMap<K, T> {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|(name, value)| (name, Shown(value))))
            .finish()
    }
}
