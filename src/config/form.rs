//! The forms a string value can have: what the schema says about it and how it is parsed.
//!
//! The pattern of a form may accept a little more than its parser (a pattern cannot count UTF-8
//! bytes); it must never refuse what the parser takes. Every pattern leaves `env:` strings to the
//! separate alternative that the schema adds to all strings (ARC-101).

use std::net::SocketAddr;

use semver::Version;
use url::Url;

/// What a string looks like when it is not an `env:` string.
pub(super) enum Own {
    /// One of these words.
    Words(Vec<&'static str>),
    /// A text that matches an ECMA-262 pattern, with bounds on its characters.
    Pattern {
        pattern: &'static str,
        chars: Option<(u32, u32)>,
    },
}

/// Turns a text of a form into its value.
pub(super) type Parse<T> = Box<dyn Fn(&str) -> Option<T>>;

/// A form: its schema, the words that describe it in an error, and its parser.
pub(super) struct Form<T> {
    pub(super) own: Own,
    pub(super) expected: &'static str,
    pub(super) parse: Parse<T>,
}

/// A form given by a pattern and a parser that agree.
pub(super) fn pattern<T>(
    pattern: &'static str,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T> + 'static,
) -> Form<T> {
    Form {
        own: Own::Pattern {
            pattern,
            chars: None,
        },
        expected,
        parse: Box::new(parse),
    }
}

impl<T> Form<T> {
    /// The same form with its length in the schema, in characters; the parser must check it too.
    pub(super) fn chars(mut self, min: u32, max: u32) -> Self {
        if let Own::Pattern { chars, .. } = &mut self.own {
            *chars = Some((min, max));
        }
        self
    }
}

/// One word of a list, each standing for a value.
pub(super) fn words<T: Copy + 'static>(
    expected: &'static str,
    words: &'static [(&'static str, T)],
) -> Form<T> {
    Form {
        own: Own::Words(words.iter().map(|(word, _)| *word).collect()),
        expected,
        parse: Box::new(|text| {
            words
                .iter()
                .find(|(word, _)| *word == text)
                .map(|(_, value)| *value)
        }),
    }
}

/// Any text.
pub(super) fn any() -> Form<String> {
    pattern("^(?!env:)", "a string", |text| Some(text.to_owned()))
}

/// Any text but the empty one.
pub(super) fn filled() -> Form<String> {
    pattern(r"^(?!env:)[\s\S]", "a string that is not empty", |text| {
        (!text.is_empty()).then(|| text.to_owned())
    })
}

/// A text of at least one character and at most `max` bytes without whitespace and control
/// characters.
pub(super) fn word(max: u32, expected: &'static str) -> Form<String> {
    let fits = move |text: &str| (1..=max as usize).contains(&text.len()) && unspaced(text);
    pattern(
        r"^(?!env:)[^\s\x00-\x1F\x7F-\x9F]+$",
        expected,
        move |text| fits(text).then(|| text.to_owned()),
    )
    .chars(1, max)
}

/// A Semantic Versioning 2.0.0 version, kept as written.
pub(super) fn version() -> Form<Version> {
    pattern(
        concat!(
            r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)",
            r"(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)",
            r"(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?",
            r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$",
        ),
        "a Semantic Versioning 2.0.0 version",
        |text| Version::parse(text).ok(),
    )
}

/// An IP address with a port. The part in brackets is left to the parser.
macro_rules! address_pattern {
    () => {
        concat!(
            r"((((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}",
            r"(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9]))|\[[0-9A-Fa-f:.]+(%[0-9]+)?\])",
            r":0*(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[0-9]{1,4})",
        )
    };
}

/// An IP address with a port; no host names.
pub(super) fn address() -> Form<SocketAddr> {
    pattern(
        concat!("^", address_pattern!(), "$"),
        "an IP address with a port, such as 0.0.0.0:5050 or [::1]:5050",
        |text| text.parse().ok(),
    )
}

/// An IP address with a port, or the empty string for none.
pub(super) fn address_or_none() -> Form<Option<SocketAddr>> {
    pattern(
        concat!("^(|", address_pattern!(), ")$"),
        "an IP address with a port, or empty for no listener",
        |text| {
            if text.is_empty() {
                Some(None)
            } else {
                text.parse().ok().map(Some)
            }
        },
    )
}

/// What [`http_url`] accepts, in words.
pub(super) const HTTP_URL: &str = "an http or https URL with a host";

/// An `http` or `https` URL with a host.
pub(super) fn http_url() -> Form<Url> {
    pattern(r"^https?://[^\s/?#][^\s]*$", HTTP_URL, parse_http_url)
}

/// Parses what [`http_url`] accepts.
pub(super) fn parse_http_url(text: &str) -> Option<Url> {
    // The URL parser would also take `http:host`, other cases and embedded newlines; one spelling
    // is enough, and it is the one the schema states.
    let authority = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"))?;
    if authority.starts_with(['/', '?', '#']) || !unspaced(text) {
        return None;
    }
    Url::parse(text).ok().filter(Url::has_host)
}

/// A PostgreSQL connection URL.
pub(super) fn postgres_url() -> Form<String> {
    pattern(
        r"^postgres(ql)?://[^\s]*$",
        "a postgres:// or postgresql:// URL",
        |text| {
            let known = text.starts_with("postgres://") || text.starts_with("postgresql://");
            (known && unspaced(text) && Url::parse(text).is_ok()).then(|| text.to_owned())
        },
    )
}

/// Whether a text is free of whitespace and control characters, the Unicode ones included.
pub(super) fn unspaced(text: &str) -> bool {
    !text.chars().any(|c| c.is_whitespace() || c.is_control())
}
