//! The form of tokens, the choice of a key, and signatures. Nothing here depends on a claim.

use base64::Engine as _;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use harness::{Signer, unsigned};
use ring::hmac;
use serde_json::{Value, json};

use super::{
    DELETE, NOW, Principal, Rejection, assert_verdict, authenticator, claims, header, judge, jwt,
    min, reference, two, with, with_claims, with_header,
};

fn base64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The three segments of the reference token.
fn segments() -> [String; 3] {
    let token = reference();
    let mut segments = token.split('.').map(ToOwned::to_owned);
    [(); 3].map(|()| segments.next().unwrap())
}

/// A token of three given segments, the last of them a good signature of the others.
fn signed(header: &str, claims: &str) -> String {
    let message = format!("{header}.{claims}");
    let signature = Signer::RsaA.sign("RS256", message.as_bytes());
    format!("{message}.{}", base64(signature))
}

/// A token whose signature is an HMAC with the public key as its secret.
fn hmac_signed(header: &Value) -> String {
    let message = unsigned(header, &claims());
    let key = hmac::Key::new(hmac::HMAC_SHA256, Signer::RsaA.public_pem().as_bytes());
    let tag = hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", base64(tag))
}

/// Goal: a token is three segments, and its header is an object with a name of an algorithm. Method:
/// table; every signature is good where there is one.
#[tokio::test]
async fn a_token_is_three_segments_and_a_header() {
    let who = authenticator(&jwt()).await;
    let [h, c, s] = segments();
    let padded = URL_SAFE.encode(r#"{"alg":"RS256","kid":"rs1"} "#);
    assert!(padded.ends_with('='));
    let not_utf8 = base64(b"{\"alg\":\"RS256\",\"x\":\"\xff\"}");
    let cases = [
        ("34 no alg", with_header(json!({"alg": DELETE}))),
        ("33 alg is a number", with_header(json!({"alg": 256}))),
        ("33 alg is null", with_header(json!({"alg": null}))),
        ("35 an array", signed(&base64("[]"), &c)),
        ("35 a text", signed(&base64("\"RS256\""), &c)),
        ("35 no JSON", signed(&base64("{\"alg\":"), &c)),
        (
            "35 more than JSON",
            signed(&base64("{\"alg\":\"RS256\"}}"), &c),
        ),
        ("35 no UTF-8", signed(&not_utf8, &c)),
        ("36 padding", signed(&padded, &c)),
        ("36 other alphabet", signed(&format!("{h}+/"), &c)),
        ("36 a blank", signed(&format!("{h} "), &c)),
        ("36 nothing", signed("", &c)),
        ("37 one", h.clone()),
        ("37 two", format!("{h}.{c}")),
        ("37 four", format!("{h}.{c}.{s}.{s}")),
        ("37 five", format!("{h}.{c}.{s}.{s}.{s}")),
        ("37 empty", "..".to_owned()),
        (
            "42 kid of 257 bytes",
            with_header(json!({"kid": "k".repeat(257)})),
        ),
        ("43 kid is a number", with_header(json!({"kid": 5}))),
        ("43 kid is null", with_header(json!({"kid": null}))),
        ("44 crit", with_header(json!({"crit": ["x"]}))),
        ("44 empty crit", with_header(json!({"crit": []}))),
        ("signature not base64url", format!("{h}.{c}.{s}=")),
        ("signature with a blank", format!("{h}.{c}. {s}")),
    ];
    for (row, token) in cases {
        assert_verdict(row, judge(&who, &token), Some(Rejection::NotToken));
    }
}

/// Goal: only the six algorithms are supported, by their exact names, before anything else is looked
/// at. Method: table, with broken claims and unknown keys behind.
#[tokio::test]
async fn other_algorithms_are_not_supported() {
    let who = authenticator(&jwt()).await;
    let none = format!("{}.", unsigned(&json!({"alg": "none"}), &claims()));
    let pss = Signer::RsaA.token(&with(header(), json!({"alg": "PS256"})), &claims());
    let broken_claims = signed(&base64(json!({"alg": "none"}).to_string()), "%%");
    let cases = [
        ("28", none),
        ("29", hmac_signed(&json!({"alg": "HS256", "kid": "rs1"}))),
        ("31", pss),
        ("32", with_header(json!({"alg": "rs256"}))),
        ("38", broken_claims),
        ("before kid", with_header(json!({"alg": "HS512", "kid": 5}))),
    ];
    for (row, token) in cases {
        assert_verdict(
            row,
            judge(&who, &token),
            Some(Rejection::UnsupportedAlgorithm),
        );
    }
    for name in [
        "None", "NONE", "HS384", "PS512", "ES512", "ES256K", "EDDSA", "RS256 ", "",
    ] {
        let token = with_header(json!({"alg": name}));
        assert_verdict(
            name,
            judge(&who, &token),
            Some(Rejection::UnsupportedAlgorithm),
        );
    }
}

/// Goal: the claims are an object, which is found before the key is. Method: table with good
/// signatures, and with a key id that nobody has.
#[tokio::test]
async fn claims_are_an_object() {
    let who = authenticator(&jwt()).await;
    let [h, ..] = segments();
    let unknown = base64(json!({"alg": "RS256", "kid": "nope"}).to_string());
    for (row, content) in [
        ("40 a text", base64("\"text\"")),
        ("40 an array", base64("[]")),
        ("40 null", base64("null")),
        ("40 no JSON", base64("exp=1")),
        ("40 nothing", String::new()),
        ("40 no base64url", "%%".to_owned()),
    ] {
        let verdict = judge(&who, &signed(&h, &content));
        assert_verdict(row, verdict, Some(Rejection::NotToken));
        let verdict = judge(&who, &signed(&unknown, &content));
        assert_verdict("39", verdict, Some(Rejection::NotToken));
    }
}

/// Goal: one key or none. Method: table of key ids and algorithms under one key per algorithm.
#[tokio::test]
async fn a_key_is_chosen_by_its_id_or_by_its_algorithm() {
    let who = authenticator(&jwt()).await;
    let ed = |header: Value| Signer::Ed25519.token(&header, &claims());
    let es3 = json!({"alg": "ES384", "kid": "es3"});
    for (row, token) in [
        ("the reference", reference()),
        ("47 no kid", with_header(json!({"kid": DELETE}))),
        ("54", ed(json!({"alg": "EdDSA", "kid": "ed1"}))),
        ("54 no kid", ed(json!({"alg": "EdDSA"}))),
        ("55", Signer::P384.token(&es3, &claims())),
        (
            "ES256",
            Signer::P256.token(&json!({"alg": "ES256", "kid": "es1"}), &claims()),
        ),
        (
            "other members",
            with_header(json!({"typ": 5, "cty": null, "x5t": {}})),
        ),
    ] {
        assert!(judge(&who, &token).is_ok(), "{row}");
    }
    let untrusted = Some(Rejection::Untrusted);
    for (row, changes) in [
        ("41 kid of 256 bytes", json!({"kid": "k".repeat(256)})),
        ("45 unknown", json!({"kid": "nope"})),
        ("45 empty", json!({"kid": ""})),
        ("45 other case", json!({"kid": "RS1"})),
        ("46 of another algorithm", json!({"kid": "es1"})),
        ("50 no such key", json!({"alg": "RS384", "kid": DELETE})),
        ("46 right key, other algorithm", json!({"alg": "RS512"})),
    ] {
        assert_verdict(row, judge(&who, &with_header(changes)), untrusted);
    }
}

/// Goal: with two keys of an algorithm, a token has to name one, and only that one is tried. Method:
/// table under two keys.
#[tokio::test]
async fn of_two_keys_only_the_named_one_is_tried() {
    let who = authenticator(&two()).await;
    let token = |signer: Signer, header: Value| signer.token(&header, &claims());
    let named = |kid: &str| json!({"alg": "RS256", "kid": kid});
    let untrusted = Some(Rejection::Untrusted);
    for (row, token, expected) in [
        ("a by a", token(Signer::RsaA, named("a")), None),
        ("b by b", token(Signer::RsaB, named("b")), None),
        (
            "48 no kid",
            token(Signer::RsaA, json!({"alg": "RS256"})),
            untrusted,
        ),
        ("49 b by a", token(Signer::RsaA, named("b")), untrusted),
        ("49 a by b", token(Signer::RsaB, named("a")), untrusted),
    ] {
        assert_verdict(row, judge(&who, &token), expected);
    }
}

/// Goal: only the signature of the chosen key, over the bytes as they came, is trusted. Method: table
/// of forged ones.
#[tokio::test]
async fn a_forged_signature_is_not_trusted() {
    let who = authenticator(&jwt()).await;
    let [h, c, s] = segments();
    let signature = URL_SAFE_NO_PAD.decode(&s).unwrap();
    let flipped = |bit: usize| {
        let mut signature = signature.clone();
        signature[bit / 8] ^= 1 << (bit % 8);
        format!("{h}.{c}.{}", base64(signature))
    };
    let expired = base64(with(claims(), json!({"exp": 1})).to_string());
    let es1 = json!({"alg": "ES256", "kid": "es1"});
    let attacker = json!({"jwk": Signer::RsaB.jwk("rs1", "RS256"), "x5c": ["MIIB"], "jku": "x"});
    let attacker = with(header(), attacker);
    let other_spelling = base64(format!(" {}", claims()));
    let wrong = [
        ("30", hmac_signed(&header())),
        ("51 first bit", flipped(0)),
        ("51 last bit", flipped(256 * 8 - 1)),
        ("52", format!("{h}.{expired}.{s}")),
        (
            "52 same claims, other bytes",
            format!("{h}.{other_spelling}.{s}"),
        ),
        (
            "53",
            Signer::P256.token_signed_with("ES256-DER", &es1, &claims()),
        ),
        ("56", Signer::RsaB.token(&attacker, &claims())),
        ("empty", format!("{h}.{c}.")),
        ("short", format!("{h}.{c}.{}", base64(&signature[..255]))),
        (
            "other hash",
            Signer::RsaA.token_signed_with("RS512", &header(), &claims()),
        ),
        (
            "zeros",
            format!("{}.{}", unsigned(&es1, &claims()), base64([0; 64])),
        ),
    ];
    for (row, token) in wrong {
        assert_verdict(row, judge(&who, &token), Some(Rejection::Untrusted));
    }
}

/// Goal: of repeated members the last one counts, for the check and for whoever reads the principal.
/// Method: a header and claims with repeats.
#[tokio::test]
async fn the_last_of_repeated_members_counts() {
    let who = authenticator(&min()).await;
    let head = base64(r#"{"alg":"none","alg":"RS256","kid":"nope","kid":"rs1"}"#);
    let ends = |first: u64, last: u64| base64(format!(r#"{{"exp":{first},"exp":{last}}}"#));
    let admitted = judge(&who, &signed(&head, &ends(1, NOW)));
    let Ok(Principal::Jwt { claims }) = admitted else {
        panic!("{admitted:?}");
    };
    assert_eq!(claims["exp"], NOW);
    let verdict = judge(&who, &signed(&head, &ends(NOW, 1)));
    assert_verdict("the last has passed", verdict, Some(Rejection::Expired));
}

/// Goal: reading hostile input ends in a verdict. Method: every prefix and many single changes of a
/// good token; nothing but the token itself is admitted.
#[tokio::test]
async fn no_changed_token_is_admitted() {
    let who = authenticator(&min()).await;
    let token = with_claims(json!({}));
    assert!(judge(&who, &token).is_ok());
    for length in 0..token.len() {
        assert!(judge(&who, &token[..length]).is_err(), "{length}");
    }
    for index in (0..token.len()).step_by(3) {
        for other in [b'A', b'.', b'_', b'z'] {
            let mut changed = token.clone().into_bytes();
            if std::mem::replace(&mut changed[index], other) != other {
                let changed = String::from_utf8(changed).unwrap();
                assert!(judge(&who, &changed).is_err(), "{index} {other}");
            }
        }
    }
}
