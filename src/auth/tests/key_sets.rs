//! Key sets of a URL: which documents and which items of them are usable.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use harness::Signer;
use serde_json::{Value, json};

use super::super::Cause;
use super::super::key_set::{KeySet, logged_kid};
use super::{DELETE, Rejection, with};
use crate::config::Algorithm;

fn parse(items: &[Value]) -> Result<KeySet, Cause> {
    KeySet::parse(json!({"keys": items}).to_string().as_bytes())
}

fn good() -> Value {
    Signer::RsaA.jwk("good", "RS256")
}

/// An RSA item whose modulus has this many bits.
fn modulus(bits: usize) -> Value {
    let mut number = vec![0xff; bits.div_ceil(8)];
    number[0] >>= number.len() * 8 - bits;
    with(good(), json!({"n": URL_SAFE_NO_PAD.encode(number)}))
}

/// Goal: a document is an object with an array of keys, at least one of them usable. Method: table.
#[test]
fn a_document_has_usable_keys() {
    let parse = |text: &str| KeySet::parse(text.as_bytes()).map(|set| set.len());
    for text in [
        "",
        "null",
        "[]",
        "{}",
        "\"keys\"",
        "{\"keys\":null}",
        "{\"keys\":{}}",
        "{\"Keys\":[]}",
        "{\"keys\":[]",
        "{\"keys\":[]}x",
        "<html>",
    ] {
        assert_eq!(parse(text), Err(Cause::Parse), "{text}");
    }
    assert_eq!(
        KeySet::parse(b"{\"keys\":[\"\xff\"]}").unwrap_err(),
        Cause::Parse
    );
    for text in ["{\"keys\":[]}", "{\"keys\":[{}, null, 5]}"] {
        assert_eq!(parse(text), Err(Cause::NoUsableKeys), "{text}");
    }
    let document = json!({"keys": [good()], "more": [1]});
    assert_eq!(parse(&document.to_string()), Ok(1));
}

/// Goal: an item that cannot be used is skipped, and the others are loaded. Method: table of items
/// beside a good one.
#[test]
fn an_unusable_item_is_skipped() {
    let p256 = Signer::P256.jwk("p", "ES256");
    let ed25519 = Signer::Ed25519.jwk("e", "EdDSA");
    let short = URL_SAFE_NO_PAD.encode([1; 31]);
    let off_curve = URL_SAFE_NO_PAD.encode([1; 32]);
    let not_a_point = URL_SAFE_NO_PAD.encode([0; 32]);
    let cases = [
        ("no alg", with(good(), json!({"alg": DELETE}))),
        ("alg HS256", with(good(), json!({"alg": "HS256"}))),
        ("alg in lower case", with(good(), json!({"alg": "rs256"}))),
        ("alg is a number", with(good(), json!({"alg": 256}))),
        ("use enc", with(good(), json!({"use": "enc"}))),
        ("use null", with(good(), json!({"use": null}))),
        ("kid is a number", with(good(), json!({"kid": 5}))),
        ("kid null", with(good(), json!({"kid": null}))),
        (
            "kid of 257 bytes",
            with(good(), json!({"kid": "k".repeat(257)})),
        ),
        ("a text", json!("good")),
        ("an array", json!([good()])),
        ("no kty", with(good(), json!({"kty": DELETE}))),
        ("other kty", with(good(), json!({"kty": "EC"}))),
        (
            "a secret",
            json!({"kty": "oct", "alg": "HS256", "k": "AAAA"}),
        ),
        ("no n", with(good(), json!({"n": DELETE}))),
        ("n padded", with(good(), json!({"n": "AQAB="}))),
        (
            "n even",
            with(
                modulus(2048),
                json!({"n": URL_SAFE_NO_PAD.encode([0xfe; 256])}),
            ),
        ),
        ("e of 1", with(good(), json!({"e": "AQ"}))),
        ("e even", with(good(), json!({"e": "BA"}))),
        ("e empty", with(good(), json!({"e": ""}))),
        (
            "e above 33 bits",
            with(
                good(),
                json!({"e": URL_SAFE_NO_PAD.encode([3, 0, 0, 0, 1])}),
            ),
        ),
        (
            "e of 9 bytes",
            with(good(), json!({"e": URL_SAFE_NO_PAD.encode([1; 9])})),
        ),
        ("2047 bits", modulus(2047)),
        ("8193 bits", modulus(8193)),
        ("other crv", with(p256.clone(), json!({"crv": "P-384"}))),
        ("no crv", with(p256.clone(), json!({"crv": DELETE}))),
        (
            "P-256 under ES384",
            with(p256.clone(), json!({"alg": "ES384"})),
        ),
        ("y short", with(p256.clone(), json!({"y": short}))),
        ("off the curve", with(p256, json!({"y": off_curve}))),
        ("X25519", with(ed25519.clone(), json!({"crv": "X25519"}))),
        ("x short", with(ed25519.clone(), json!({"x": short}))),
        ("of small order", with(ed25519, json!({"x": not_a_point}))),
    ];
    for (what, item) in cases {
        let result = parse(std::slice::from_ref(&item)).map(|set| set.len());
        assert_eq!(result, Err(Cause::NoUsableKeys), "{what}: {item}");
        assert_eq!(parse(&[item, good()]).unwrap().len(), 1, "{what}");
    }
}

/// Goal: whatever is not needed of an item is ignored, and limits are inclusive. Method: table.
#[test]
fn a_usable_item_is_loaded() {
    let n = URL_SAFE_NO_PAD
        .decode(good()["n"].as_str().unwrap())
        .unwrap();
    let leading_zero = URL_SAFE_NO_PAD.encode([&[0][..], &n].concat());
    for item in [
        good(),
        with(good(), json!({"use": DELETE})),
        with(good(), json!({"kid": DELETE})),
        with(good(), json!({"kid": ""})),
        with(good(), json!({"kid": "k".repeat(256)})),
        with(
            good(),
            json!({"d": "private", "key_ops": ["encrypt"], "x5c": 5, "crv": 7}),
        ),
        with(good(), json!({"n": leading_zero})),
        with(good(), json!({"e": "Aw"})),
        with(
            good(),
            json!({"e": URL_SAFE_NO_PAD.encode([1, 0xff, 0xff, 0xff, 0xff])}),
        ),
        with(good(), json!({"alg": "RS384"})),
        with(good(), json!({"alg": "RS512"})),
        modulus(2048),
        modulus(8192),
        Signer::P256.jwk("p", "ES256"),
        Signer::P384.jwk("p", "ES384"),
        Signer::Ed25519.jwk("e", "EdDSA"),
    ] {
        assert_eq!(
            parse(std::slice::from_ref(&item)).unwrap().len(),
            1,
            "{item}"
        );
    }
}

/// Goal: the first 64 usable items are kept, in their order. Method: 70 of them with unusable ones
/// between; the 64th is found and the 65th is not.
#[test]
fn the_first_64_usable_keys_are_kept() {
    let items: Vec<Value> = (1..=70)
        .flat_map(|number| {
            [
                json!({}),
                Signer::Ed25519.jwk(&format!("k{number}"), "EdDSA"),
            ]
        })
        .collect();
    let set = parse(&items).unwrap();
    assert_eq!(set.len(), 64);
    assert!(set.select(Some("k64"), Algorithm::EdDsa).is_ok());
    let next = set.select(Some("k65"), Algorithm::EdDsa).map(|_| ());
    assert_eq!(next, Err(Rejection::Untrusted));
}

/// Goal: a repeated id makes both keys unreachable by it, and a key without an id is reached by its
/// algorithm alone. Method: select from such sets.
#[test]
fn an_ambiguous_key_is_not_chosen() {
    let set = parse(&[good(), Signer::RsaB.jwk("good", "RS256")]).unwrap();
    assert_eq!(set.len(), 2);
    assert!(set.select(Some("good"), Algorithm::Rs256).is_err());
    assert!(set.select(None, Algorithm::Rs256).is_err());

    let set = parse(&[
        with(good(), json!({"kid": DELETE})),
        Signer::P256.jwk("", "ES256"),
    ])
    .unwrap();
    assert!(set.select(None, Algorithm::Rs256).is_ok());
    assert!(set.select(Some(""), Algorithm::Rs256).is_err());
    assert!(set.select(Some(""), Algorithm::Es256).is_ok());
    let published: Vec<_> = set.published().into_iter().map(|key| key.kid).collect();
    assert_eq!(published, ["", ""]);
}

/// Goal: a log line shows at most 32 bytes of a key id, on one line. Method: table.
#[test]
fn a_logged_key_id_is_short_and_on_one_line() {
    let cases = [
        (json!({}), String::new()),
        (json!(5), String::new()),
        (json!({"kid": 5}), String::new()),
        (json!({"kid": "short"}), "short".to_owned()),
        (json!({"kid": "k".repeat(32)}), "k".repeat(32)),
        (json!({"kid": "k".repeat(33)}), "k".repeat(32)),
        (json!({"kid": "\u{e4}".repeat(17)}), "\u{e4}".repeat(16)),
        (
            json!({"kid": format!("{}\u{e4}", "k".repeat(31))}),
            "k".repeat(31),
        ),
        (
            json!({"kid": format!("a\n{}", "k".repeat(100))}),
            format!("a\\n{}", "k".repeat(29)),
        ),
        (
            json!({"kid": "\u{1b}[2J\u{2028}"}),
            "\\u{1b}[2J\\u{2028}".to_owned(),
        ),
    ];
    for (item, expected) in cases {
        let logged = logged_kid(&item);
        assert_eq!(logged, expected, "{item}");
        assert!(logged.len() <= 32 && logged.lines().count() <= 1);
    }
}
