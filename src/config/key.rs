//! What a key is: its rule, its default and its description, defined once for loader and schema.
//!
//! A [`Rule`] turns one TOML value into a typed one. Its [`Shape`] is the same rule as data: types
//! and unknown keys are checked over the whole document with it before any value is judged, and the
//! JSON Schema is printed from it. The `section!` macro binds rules to the fields of a table.
//!
//! Nothing here may put a value into an error (ARC-101).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use toml::{Table, Value};

use super::error::{Error, Requirement};
use super::form::{Form, Own};
use super::secret::Secret;

/// The largest TOML integer: the upper end of every range that has no smaller one.
pub(super) const UNBOUNDED: i64 = i64::MAX;
/// Upper end of keys that are published to clients as `uint32`.
pub(super) const UINT32_MAX: i64 = u32::MAX as i64;
/// Upper end of keys that become a 32-bit setting of the database.
pub(super) const INT32_MAX: i64 = i32::MAX as i64;

/// A table of the document.
pub(super) trait Section: Sized {
    /// Every key of the table, in order of declaration.
    fn keys() -> Vec<Key>;

    /// Judges the values of a table whose keys and types are already known to be right.
    fn decode(table: &Table, path: &str) -> Result<Self, Error>;
}

/// One key as data.
pub(super) struct Key {
    /// The name in the document.
    pub(super) name: &'static str,
    /// What the key means, from the doc comment of its field.
    pub(super) about: String,
    /// What value it takes.
    pub(super) shape: Shape,
    /// Whether the document must have it.
    pub(super) required: bool,
    /// What stands in when the document leaves it out.
    pub(super) default: Option<Value>,
}

/// What value a key takes, as data.
pub(super) enum Shape {
    /// `true` or `false`.
    Switch,
    /// An integer in an inclusive range.
    Integer { min: i64, max: i64 },
    /// A number from 0.0 to 1.0.
    Ratio,
    /// A string.
    Text(Own),
    /// An array of one kind of value.
    List { items: Box<Shape>, min: usize },
    /// A table with free entry names.
    Map {
        names: Own,
        values: Box<Shape>,
        max: Option<usize>,
    },
    /// A table with fixed keys.
    Table(Vec<Key>),
}

impl Shape {
    /// Checks types and key names of a value and of everything below it, and no rule.
    pub(super) fn check(&self, value: &Value, path: &str) -> Result<(), Error> {
        match self {
            Self::Switch => typed(value.as_bool(), path, "a boolean").map(drop),
            Self::Integer { .. } => typed(value.as_integer(), path, "an integer").map(drop),
            Self::Ratio => typed(number(value), path, "a number").map(drop),
            Self::Text(_) => typed(value.as_str(), path, "a string").map(drop),
            Self::List { items, .. } => typed(value.as_array(), path, "an array")?
                .iter()
                .enumerate()
                .try_for_each(|(index, item)| items.check(item, &format!("{path}[{index}]"))),
            Self::Map { values, .. } => typed(value.as_table(), path, "a table")?
                .iter()
                .try_for_each(|(name, value)| values.check(value, &dotted(path, name))),
            Self::Table(keys) => check_table(keys, typed(value.as_table(), path, "a table")?, path),
        }
    }
}

/// Checks the keys of one table with fixed keys.
fn check_table(keys: &[Key], table: &Table, path: &str) -> Result<(), Error> {
    table.iter().try_for_each(|(name, value)| {
        let path = dotted(path, name);
        match keys.iter().find(|key| key.name == name) {
            Some(key) => key.shape.check(value, &path),
            None => Err(Error::UnknownKey { key: path }),
        }
    })
}

/// How the value behind a key is judged.
type Decode<T> = Box<dyn Fn(&Value, &str) -> Result<T, Error>>;

/// What stands in for an absent key.
enum Absent<T> {
    /// Nothing: the document must have the key.
    Refused,
    /// A value that needs no judging.
    Is(fn() -> T),
    /// A TOML value that is judged as if the document had it.
    Default(Value),
    /// An empty table: its own keys say what is required and what has a default.
    EmptyTable,
}

/// The rule of one key: how a TOML value becomes a `T`.
pub(super) struct Rule<T> {
    shape: Shape,
    absent: Absent<T>,
    decode: Decode<T>,
}

impl<T: 'static> Rule<T> {
    /// A required key; see [`Rule::or`] and [`Rule::optional`].
    pub(super) fn new(
        shape: Shape,
        decode: impl Fn(&Value, &str) -> Result<T, Error> + 'static,
    ) -> Self {
        Self {
            shape,
            absent: Absent::Refused,
            decode: Box::new(decode),
        }
    }

    /// The same rule with a default. The default passes through the rule like a written value.
    pub(super) fn or(mut self, default: impl Into<Value>) -> Self {
        self.absent = Absent::Default(default.into());
        self
    }

    /// The same rule for a key that may be absent.
    pub(super) fn optional(self) -> Rule<Option<T>> {
        let decode = self.decode;
        let absent = Absent::Is(|| None);
        Rule {
            shape: self.shape,
            absent,
            decode: Box::new(move |v, path| decode(v, path).map(Some)),
        }
    }

    /// The same rule for a table that may be absent, and that counts as absent when it says so.
    pub(super) fn optional_unless(self, switched_off: fn(&Value) -> bool) -> Rule<Option<T>> {
        let decode = self.decode;
        let unless = move |value: &Value, path: &str| match switched_off(value) {
            true => Ok(None),
            false => decode(value, path).map(Some),
        };
        Rule {
            shape: self.shape,
            absent: Absent::Is(|| None),
            decode: Box::new(unless),
        }
    }

    /// The same rule for a value that must not be printed.
    pub(super) fn secret(self) -> Rule<Secret<T>> {
        self.then(|value, _| Ok(Secret::new(value)))
    }

    /// The same rule with one more step on its result; a default is given after it.
    pub(super) fn then<U: 'static>(
        self,
        step: impl Fn(T, &str) -> Result<U, Error> + 'static,
    ) -> Rule<U> {
        let decode = self.decode;
        Rule::new(self.shape, move |value, path| {
            step(decode(value, path)?, path)
        })
    }

    /// Judges the key `name` of the table at `path`.
    pub(super) fn take(self, table: &Table, path: &str, name: &str) -> Result<T, Error> {
        let path = dotted(path, name);
        if let Some(value) = table.get(name) {
            return (self.decode)(value, &path);
        }
        match self.absent {
            Absent::Refused => Err(Error::Missing { key: path }),
            Absent::Is(value) => Ok(value()),
            Absent::Default(value) => (self.decode)(&value, &path),
            Absent::EmptyTable => (self.decode)(&Value::Table(Table::new()), &path),
        }
    }

    /// The key as data. `about` holds the lines of its doc comment.
    pub(super) fn describe(self, name: &'static str, about: &[&str]) -> Key {
        let required = match (&self.absent, &self.shape) {
            (Absent::Refused, _) => true,
            (Absent::EmptyTable, Shape::Table(keys)) => keys.iter().any(|key| key.required),
            (Absent::Is(_) | Absent::Default(_) | Absent::EmptyTable, _) => false,
        };
        let default = match self.absent {
            Absent::Default(value) => Some(value),
            Absent::Refused | Absent::Is(_) | Absent::EmptyTable => None,
        };
        let about = about
            .iter()
            .map(|line| line.trim())
            .collect::<Vec<_>>()
            .join(" ");
        Key {
            name,
            about,
            shape: self.shape,
            required,
            default,
        }
    }
}

/// A boolean.
pub(super) fn switch() -> Rule<bool> {
    Rule::new(Shape::Switch, |value, path| {
        typed(value.as_bool(), path, "a boolean")
    })
}

/// An integer from `min` to `max`.
pub(super) fn integer<T: TryFrom<i64> + 'static>(min: i64, max: i64) -> Rule<T> {
    Rule::new(Shape::Integer { min, max }, move |value, path| {
        let value = typed(value.as_integer(), path, "an integer")?;
        (min..=max)
            .contains(&value)
            .then(|| T::try_from(value).ok())
            .flatten()
            .ok_or_else(|| Error::invalid(path, Requirement::Range { min, max }))
    })
}

/// A timer in milliseconds, from 1 to `max`.
pub(super) fn millis(max: i64) -> Rule<Duration> {
    integer(1, max).then(|value, path| deadline(Duration::from_millis(value), path))
}

/// A timer in seconds, from `min` to `max`.
pub(super) fn seconds(min: i64, max: i64) -> Rule<Duration> {
    integer(min, max).then(|value, path| deadline(Duration::from_secs(value), path))
}

/// A number from 0.0 to 1.0.
pub(super) fn ratio() -> Rule<f64> {
    Rule::new(Shape::Ratio, |value, path| {
        let value = typed(number(value), path, "a number")?;
        // A comparison with NaN is false, so the range excludes it and both infinities.
        (0.0..=1.0)
            .contains(&value)
            .then_some(value)
            .ok_or_else(|| Error::invalid(path, Requirement::Ratio))
    })
}

/// A string of a certain form.
pub(super) fn text<T: 'static>(form: Form<T>) -> Rule<T> {
    let Form {
        own,
        expected,
        parse,
    } = form;
    Rule::new(Shape::Text(own), move |value, path| {
        parse(typed(value.as_str(), path, "a string")?)
            .ok_or_else(|| Error::invalid(path, Requirement::Form(expected)))
    })
}

/// An array of at least `min` values.
pub(super) fn list<T: 'static>(min: usize, items: Rule<T>) -> Rule<Vec<T>> {
    let decode = items.decode;
    Rule::new(
        Shape::List {
            items: Box::new(items.shape),
            min,
        },
        move |value, path| {
            let values = typed(value.as_array(), path, "an array")?;
            if values.len() < min {
                return Err(Error::invalid(path, Requirement::TooFew { min }));
            }
            let items = values.iter().enumerate();
            items
                .map(|(index, value)| decode(value, &format!("{path}[{index}]")))
                .collect()
        },
    )
}

/// A table of at most `max` entries whose names follow a form; empty when absent.
pub(super) fn map<K: Ord + 'static, T: 'static>(
    max: Option<usize>,
    names: Form<K>,
    values: Rule<T>,
) -> Rule<BTreeMap<K, T>> {
    let Form {
        own,
        expected,
        parse,
    } = names;
    let decode = values.decode;
    let shape = Shape::Map {
        names: own,
        values: Box::new(values.shape),
        max,
    };
    Rule::new(shape, move |value, path| {
        let entries = typed(value.as_table(), path, "a table")?;
        if let Some(max) = max.filter(|max| entries.len() > *max) {
            return Err(Error::invalid(path, Requirement::TooMany { max }));
        }
        let entry = |(name, value): (&String, &Value)| {
            // A name that breaks the form stays out of the error: it may be a value in the wrong
            // place.
            let name_error = || Error::invalid(path, Requirement::EntryName(expected));
            let key = parse(name).ok_or_else(name_error)?;
            Ok((key, decode(value, &dotted(path, name))?))
        };
        entries.iter().map(entry).collect()
    })
    .or(Table::new())
}

/// A table with fixed keys; an absent one is an empty one.
pub(super) fn table<S: Section + 'static>() -> Rule<S> {
    let mut rule = Rule::new(Shape::Table(S::keys()), |value, path| {
        S::decode(typed(value.as_table(), path, "a table")?, path)
    });
    rule.absent = Absent::EmptyTable;
    rule
}

/// The defaults of a table that requires no key.
pub(super) fn defaults<S: Section>() -> S {
    S::decode(&Table::new(), "")
        .expect("a table without required keys decodes from nothing: tests do it for each one")
}

/// The dotted name of `name` in the table at `path`; a name that TOML would quote is quoted.
pub(super) fn dotted(path: &str, name: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let quoted = if !name.is_empty() && name.bytes().all(bare) {
        name.to_owned()
    } else {
        format!("{name:?}")
    };
    if path.is_empty() {
        quoted
    } else {
        format!("{path}.{quoted}")
    }
}

/// Whether a timer that starts at `now` and runs for `duration` has an end.
pub(super) fn representable(now: Instant, duration: Duration) -> bool {
    now.checked_add(duration).is_some()
}

/// Passes a timer on if its deadline exists on this host (ARC-100).
fn deadline(duration: Duration, path: &str) -> Result<Duration, Error> {
    representable(Instant::now(), duration)
        .then_some(duration)
        .ok_or_else(|| Error::invalid(path, Requirement::Deadline))
}

/// A float, or an integer read as one.
fn number(value: &Value) -> Option<f64> {
    #[expect(
        clippy::cast_precision_loss,
        reason = "only 0 and 1 pass the range, both exact"
    )]
    value
        .as_float()
        .or_else(|| value.as_integer().map(|integer| integer as f64))
}

/// Names the expected type when a value has another.
fn typed<T>(value: Option<T>, path: &str, expected: &'static str) -> Result<T, Error> {
    value.ok_or_else(|| Error::WrongType {
        key: path.to_owned(),
        expected,
    })
}

/// Defines a table: a struct with one documented field per key, and the rule of each key.
///
/// The doc comment of a field is the description of its key in the published schema.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        pub struct $Name:ident {
            $( $(#[doc = $doc:literal])+ $key:literal => $field:ident: $Type:ty = $rule:expr; )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone)]
        #[cfg_attr(test, derive(PartialEq))]
        pub struct $Name {
            $( $(#[doc = $doc])+ pub $field: $Type, )+
        }

        impl $crate::config::key::Section for $Name {
            fn keys() -> Vec<$crate::config::key::Key> {
                vec![$( $crate::config::key::Rule::<$Type>::describe($rule, $key, &[$($doc),+]), )+]
            }

            fn decode(table: &toml::Table, path: &str) -> Result<Self, $crate::config::Error> {
                Ok(Self {
                    $( $field: $crate::config::key::Rule::<$Type>::take(
                        $rule, table, path, $key,
                    )?, )+
                })
            }
        }

        impl std::fmt::Debug for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($Name))
                    $( .field(stringify!($field), &$crate::config::secret::Shown(&self.$field)) )+
                    .finish()
            }
        }

        impl $crate::config::secret::Show for $Name {
            fn show(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(self, f)
            }
        }
    };
}

pub(super) use section;
