//! The headers against the grammar of the standard, one table each.

use std::convert::Infallible;

use http::{HeaderMap, HeaderValue, Request, Response};
use tower::{Layer, ServiceExt, service_fn};

use super::{TRACEPARENT, TRACESTATE, TraceContext, TraceContextLayer};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn headers(parents: &[&str], states: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for parent in parents {
        headers.append(
            TRACEPARENT,
            HeaderValue::from_bytes(parent.as_bytes()).unwrap(),
        );
    }
    for state in states {
        headers.append(
            TRACESTATE,
            HeaderValue::from_bytes(state.as_bytes()).unwrap(),
        );
    }
    headers
}

/// Goal: valid forms give the ids and the sampled flag. Method: version 00 with every kind of flags,
/// and later versions with and without more fields. ARC-099.
#[test]
fn valid_parents_are_read() {
    let cases = [
        (format!("00-{TRACE}-{PARENT}-00"), false),
        (format!("00-{TRACE}-{PARENT}-01"), true),
        (format!("00-{TRACE}-{PARENT}-02"), false),
        (format!("00-{TRACE}-{PARENT}-ff"), true),
        (format!("01-{TRACE}-{PARENT}-01"), true),
        (format!("01-{TRACE}-{PARENT}-01-"), true),
        (format!("fe-{TRACE}-{PARENT}-00-more-fields"), false),
    ];
    for (value, sampled) in cases {
        let context = TraceContext::from_headers(&headers(&[&value], &[])).unwrap();
        assert_eq!(context.trace_id().to_string(), TRACE, "{value}");
        assert_eq!(context.parent_id().to_string(), PARENT, "{value}");
        assert_eq!(context.is_sampled(), sampled, "{value}");
        assert_eq!(context.state(), "", "{value}");
        assert_eq!(context.trace_id().to_bytes()[..2], [0x4b, 0xf9]);
        assert_eq!(context.parent_id().to_bytes()[..2], [0x00, 0xf0]);
    }
}

/// Goal: nothing outside the grammar is taken for a context. Method: one fault per case, lengths one
/// below and one above included. ARC-099.
#[test]
fn invalid_parents_are_ignored() {
    let zero_trace = "0".repeat(32);
    let cases = [
        String::new(),
        "00".to_owned(),
        VALID[..VALID.len() - 1].to_owned(),
        format!("{VALID}0"),
        format!("{VALID}-"),
        format!("{VALID}-00"),
        format!("{VALID} "),
        format!(" {VALID}"),
        format!("00-{zero_trace}-{PARENT}-01"),
        format!("00-{TRACE}-{}-01", "0".repeat(16)),
        format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
        format!("00-{TRACE}-{}-01", PARENT.to_uppercase()),
        format!("00-{TRACE}-{PARENT}-0A"),
        format!("FE-{TRACE}-{PARENT}-01"),
        format!("ff-{TRACE}-{PARENT}-01"),
        format!("ff-{TRACE}-{PARENT}-01-more"),
        format!("01-{TRACE}-{PARENT}-01more"),
        format!("0-{TRACE}-{PARENT}-001"),
        format!("0g-{TRACE}-{PARENT}-01"),
        format!("00_{TRACE}-{PARENT}-01"),
        format!("00-{TRACE}_{PARENT}-01"),
        format!("00-{TRACE}-{PARENT}_01"),
        format!("00-{TRACE}-{PARENT}-0\u{e9}"),
        format!("00-{}-{PARENT}-01", "+".repeat(32)),
        format!("{VALID},{VALID}"),
    ];
    for value in cases {
        let context = TraceContext::from_headers(&headers(&[&value], &[]));
        assert_eq!(context, None, "{value:?}");
    }
    assert_eq!(
        TraceContext::from_headers(&headers(&[VALID, VALID], &[])),
        None
    );
    assert_eq!(
        TraceContext::from_headers(&headers(&[], &["vendor=1"])),
        None
    );
    assert_eq!(
        TraceContext::from_headers(&headers(&["bad"], &["vendor=1"])),
        None
    );
}

/// Goal: a truncation or a single changed byte never panics. Method: every prefix of a valid value,
/// and every byte value at every position.
#[test]
fn no_bytes_make_the_parser_panic() {
    for end in 0..=VALID.len() {
        let context = TraceContext::from_traceparent(&VALID.as_bytes()[..end]);
        assert_eq!(context.is_some(), end == VALID.len());
    }
    for position in 0..VALID.len() {
        for byte in 0..=u8::MAX {
            let mut value = VALID.as_bytes().to_vec();
            value[position] = byte;
            let _ = TraceContext::from_traceparent(&value);
        }
    }
}

/// Goal: a `tracestate` is carried when it is valid, dropped alone when it is not. Method: table of
/// header lines and the state they give. ARC-099.
#[test]
fn states_are_checked_and_joined() {
    let long_key = "k".repeat(256);
    let longest = format!("{long_key}={}", "v".repeat(255));
    let key_too_long = format!("k{long_key}=v");
    let value_too_long = format!("k={}", "v".repeat(257));
    let cases: [(&[&str], &str); 21] = [
        (&["a=1"], "a=1"),
        (&["a=1,b=2", "c=3"], "a=1,b=2,c=3"),
        (&[" a=1 ,\tb=2,,"], "a=1,b=2"),
        (&["1a_-*/@b=x y"], "1a_-*/@b=x y"),
        (&["a@b=~!"], "a@b=~!"),
        (&[""], ""),
        (&[",,"], ""),
        (&["a"], ""),
        (&["a="], ""),
        (&["=1"], ""),
        (&["a=1=2"], ""),
        (&["A=1"], ""),
        (&["_a=1"], ""),
        (&["a b=1"], ""),
        (&["a=1,a=2"], ""),
        (&["a=1", "a=1"], ""),
        (&["a=1\t2"], ""),
        (&["a=\u{e9}"], ""),
        (&[&longest], &longest),
        (&[&key_too_long], ""),
        (&[&value_too_long], ""),
    ];
    assert_eq!(longest.len(), 512);
    for (states, expected) in cases {
        let context = TraceContext::from_headers(&headers(&[VALID], states)).unwrap();
        assert_eq!(context.state(), expected, "{states:?}");
    }
}

/// Goal: the list is bounded in entries and bytes. Method: 32 and 33 entries; lists of 512 and 513
/// bytes with and without a large entry. ARC-099.
#[test]
fn states_are_bounded() {
    let state = |list: &str| {
        TraceContext::from_headers(&headers(&[VALID], &[list]))
            .unwrap()
            .state()
            .to_owned()
    };
    let entries = |count: usize| {
        (0..count)
            .map(|n| format!("k{n}=v"))
            .collect::<Vec<_>>()
            .join(",")
    };
    assert_eq!(state(&entries(32)), entries(32));
    assert_eq!(state(&entries(33)), "");

    let entry = |n: usize, bytes: usize| format!("k{n}={}", "v".repeat(bytes - 3));
    let exact = [entry(1, 128), entry(2, 128), entry(3, 128), entry(4, 125)].join(",");
    assert_eq!(exact.len(), 512);
    assert_eq!(state(&exact), exact);
    let over = [entry(1, 128), entry(2, 128), entry(3, 128), entry(4, 126)].join(",");
    assert_eq!(
        state(&over),
        [entry(1, 128), entry(2, 128), entry(3, 128)].join(",")
    );
    let large = [entry(1, 129), entry(2, 128), entry(3, 128), entry(4, 125)].join(",");
    assert_eq!(
        state(&large),
        [entry(2, 128), entry(3, 128), entry(4, 125)].join(",")
    );
}

/// Goal: the inner service finds the context, or none. Method: through the layer, both ways.
#[tokio::test]
async fn the_layer_leaves_a_context_or_nothing() {
    for (value, found) in [(VALID, true), ("00-bad", false)] {
        let service = TraceContextLayer.layer(service_fn(|request: Request<()>| async move {
            let context = request.extensions().get::<TraceContext>().cloned();
            Ok::<_, Infallible>(Response::new(context))
        }));
        let mut request = Request::new(());
        *request.headers_mut() = headers(&[value], &["a=1"]);
        let context = service.oneshot(request).await.unwrap().into_body();
        assert_eq!(
            context.as_ref().map(TraceContext::state),
            found.then_some("a=1")
        );
    }
}
