//! The `tracestate` header, checked and bounded.
//!
//! It must never carry more than 512 bytes of a caller's text any further (ARC-099; W3C Trace
//! Context, section 3.3).

use std::sync::Arc;

use http::{HeaderMap, HeaderName};

/// The header that carries vendor entries beside the `traceparent`.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The standard's bound on entries; more make the whole list invalid.
const MEMBERS_MAX: usize = 32;

/// What the standard asks everyone to carry, and the most that is carried here.
const STATE_BYTES_MAX: usize = 512;

/// Entries longer than this are the first to go when the list is too long.
const LARGE_MEMBER_BYTES: usize = 128;

/// The standard's bound on a key and on a value.
const PART_BYTES_MAX: usize = 256;

/// All `tracestate` lines as one list, `None` when there is no entry or any part is invalid.
pub(super) fn from_headers(headers: &HeaderMap) -> Option<Arc<str>> {
    let mut members: Vec<&str> = Vec::new();
    for line in headers.get_all(TRACESTATE) {
        for member in line.to_str().ok()?.split(',') {
            let member = member.trim_matches([' ', '\t']);
            // The grammar lets entries be empty.
            if member.is_empty() {
                continue;
            }
            if members.len() == MEMBERS_MAX {
                return None;
            }
            let key = key_of(member)?;
            if members.iter().any(|known| key_of(known) == Some(key)) {
                return None;
            }
            members.push(member);
        }
    }
    shorten(&mut members);
    (!members.is_empty()).then(|| members.join(",").into())
}

/// Removes entries until the list fits: first the large ones, then from the right, as the standard
/// asks.
fn shorten(members: &mut Vec<&str>) {
    if joined_bytes(members) > STATE_BYTES_MAX {
        members.retain(|member| member.len() <= LARGE_MEMBER_BYTES);
    }
    while joined_bytes(members) > STATE_BYTES_MAX {
        members.pop();
    }
}

/// Bytes of the list once joined by commas. At most 32 members of at most 513 bytes: no overflow.
fn joined_bytes(members: &[&str]) -> usize {
    let commas = members.len().saturating_sub(1);
    members.iter().map(|member| member.len()).sum::<usize>() + commas
}

/// The key of a valid entry.
fn key_of(member: &str) -> Option<&str> {
    let (key, value) = member.split_once('=')?;
    let key_starts = key.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let key_goes_on = key
        .bytes()
        .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@'));
    let value_is_valid = !value.is_empty()
        && !value.ends_with(' ')
        && value.bytes().all(|b| matches!(b, b' '..=b'~') && b != b'=');
    let fits = key.len() <= PART_BYTES_MAX && value.len() <= PART_BYTES_MAX;
    (key_starts && key_goes_on && value_is_valid && fits).then_some(key)
}
