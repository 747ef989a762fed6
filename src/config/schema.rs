//! The published JSON Schema of the document, printed from the definitions of the keys (ARC-100).
//!
//! It states what one key can say; relations between keys are in the descriptions. Objects are
//! printed with sorted names, so the text does not depend on how `serde_json` was built.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Config;
use super::form::Own;
use super::key::{Key, Section, Shape, UNBOUNDED};

/// Where the schema is published; documents name it in a `#:schema` comment.
const ID: &str =
    "https://raw.githubusercontent.com/xmtp/libxmtp/self-hosted/docs/schemas/backend-v1.json";
/// The dialect of the schema.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// What every string may be instead of its own form.
const VARIABLE_PATTERN: &str = r"^env:[^=\x00]+$";

/// The JSON Schema (draft 2020-12) of the document, ending in a newline.
#[must_use]
pub fn schema() -> String {
    let mut root = table(&Config::keys());
    root.insert("$schema", DIALECT.into());
    root.insert("$id", ID.into());
    root.insert("title", "Configuration of the XMTP backend".into());
    format!("{:#}\n", object(root))
}

/// The keywords of one schema.
type Keywords = BTreeMap<&'static str, Value>;

fn object<K: ToString>(entries: BTreeMap<K, Value>) -> Value {
    Value::Object(
        entries
            .into_iter()
            .map(|(name, value)| (name.to_string(), value))
            .collect(),
    )
}

fn key(key: &Key) -> Value {
    let mut keywords = shape(&key.shape);
    keywords.insert("description", key.about.as_str().into());
    if let Some(default) = &key.default {
        let default = serde_json::to_value(default)
            .expect("defaults are booleans, numbers, strings and empty tables and arrays");
        keywords.insert("default", default);
    }
    object(keywords)
}

fn shape(shape: &Shape) -> Keywords {
    match shape {
        Shape::Switch => Keywords::from([("type", "boolean".into())]),
        Shape::Integer { min, max } => {
            let mut keywords =
                Keywords::from([("type", "integer".into()), ("minimum", (*min).into())]);
            // The end of all TOML integers is no rule of ours, and JavaScript cannot hold it.
            if *max != UNBOUNDED {
                keywords.insert("maximum", (*max).into());
            }
            keywords
        }
        Shape::Ratio => Keywords::from([
            ("type", "number".into()),
            ("minimum", 0.into()),
            ("maximum", 1.into()),
        ]),
        Shape::Text(form) => Keywords::from([
            ("type", "string".into()),
            (
                "anyOf",
                json!([object(own(form)), { "pattern": VARIABLE_PATTERN }]),
            ),
        ]),
        Shape::List { items, min } => Keywords::from([
            ("type", "array".into()),
            ("items", object(self::shape(items))),
            ("minItems", (*min).into()),
        ]),
        Shape::Map { names, values, max } => {
            let mut keywords = Keywords::from([
                ("type", "object".into()),
                ("propertyNames", object(own(names))),
                ("additionalProperties", object(self::shape(values))),
            ]);
            if let Some(max) = max {
                keywords.insert("maxProperties", (*max).into());
            }
            keywords
        }
        Shape::Table(keys) => table(keys),
    }
}

fn table(keys: &[Key]) -> Keywords {
    let required: Vec<&str> = keys
        .iter()
        .filter(|key| key.required)
        .map(|key| key.name)
        .collect();
    let properties = keys.iter().map(|each| (each.name, key(each))).collect();
    let mut keywords = Keywords::from([
        ("type", "object".into()),
        ("properties", object::<&str>(properties)),
        ("additionalProperties", false.into()),
    ]);
    if !required.is_empty() {
        keywords.insert("required", required.into());
    }
    keywords
}

fn own(form: &Own) -> Keywords {
    match form {
        Own::Words(words) => Keywords::from([("enum", words.clone().into())]),
        Own::Pattern { pattern, chars } => {
            let mut keywords = Keywords::from([("pattern", (*pattern).into())]);
            if let Some((min, max)) = chars {
                keywords.insert("minLength", (*min).into());
                keywords.insert("maxLength", (*max).into());
            }
            keywords
        }
    }
}
