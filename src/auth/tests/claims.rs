//! What is required of claims, and of their types.

use harness::Signer;
use serde_json::{Value, json};

use super::{
    DELETE, NOW, Rejection, assert_verdict, authenticator, header, judge, jwt, min, with_claims,
};

/// Claims of a row, and what is found wrong with them.
type Row = (&'static str, Value, Option<Rejection>);

/// Goal: times are numbers, and both bounds are inclusive with the leeway on top. Method: table of
/// tokens with nothing else required.
#[tokio::test]
async fn a_token_is_valid_from_its_beginning_to_its_end() {
    use Rejection::{Expired, NotToken, NotYetValid};
    let who = authenticator(&min()).await;
    let rows: [Row; 24] = [
        ("57", json!({"exp": DELETE}), Some(Expired)),
        ("58", json!({"exp": NOW - 60}), None),
        ("59", json!({"exp": NOW - 61}), Some(Expired)),
        ("59 zero", json!({"exp": 0}), Some(Expired)),
        ("60", json!({"exp": "9999999999"}), Some(NotToken)),
        ("61", json!({"exp": null}), Some(NotToken)),
        ("62", json!({"exp": -1}), Some(NotToken)),
        ("62 a fraction", json!({"exp": -0.25}), Some(NotToken)),
        ("63", json!({"exp": NOW as f64 + 10.5}), None),
        ("63 half up", json!({"exp": NOW as f64 - 60.5}), None),
        (
            "63 below half",
            json!({"exp": NOW as f64 - 60.75}),
            Some(Expired),
        ),
        ("64", json!({"exp": 1e300}), None),
        ("64 the largest", json!({"exp": u64::MAX}), None),
        ("65 at", json!({"nbf": NOW + 60}), None),
        ("65 above", json!({"nbf": NOW + 61}), Some(NotYetValid)),
        (
            "65 the largest",
            json!({"nbf": u64::MAX}),
            Some(NotYetValid),
        ),
        ("65 far above", json!({"nbf": 1e300}), Some(NotYetValid)),
        ("66", json!({"nbf": "soon"}), Some(NotToken)),
        ("66 null", json!({"nbf": null}), Some(NotToken)),
        ("67", json!({"exp": NOW - 61, "nbf": "soon"}), Some(Expired)),
        (
            "67 both",
            json!({"exp": NOW - 61, "nbf": NOW + 61}),
            Some(Expired),
        ),
        ("an array", json!({"exp": [NOW]}), Some(NotToken)),
        ("true", json!({"exp": true}), Some(NotToken)),
        (
            "others are ignored",
            json!({"iat": "x", "jti": 5, "scp": null}),
            None,
        ),
    ];
    for (row, changes, expected) in rows {
        assert_verdict(row, judge(&who, &with_claims(changes)), expected);
    }
}

/// Goal: the leeway is the configured one, from none to its largest. Method: at and one above on both
/// sides.
#[tokio::test]
async fn the_leeway_is_configurable() {
    for leeway in [0, 300] {
        let who = authenticator(&format!("{}\nleeway_seconds = {leeway}", min())).await;
        let rows: [Row; 4] = [
            ("end at", json!({"exp": NOW - leeway}), None),
            (
                "end above",
                json!({"exp": NOW - leeway - 1}),
                Some(Rejection::Expired),
            ),
            ("beginning at", json!({"nbf": NOW + leeway}), None),
            (
                "beginning above",
                json!({"nbf": NOW + leeway + 1}),
                Some(Rejection::NotYetValid),
            ),
        ];
        for (row, changes, expected) in rows {
            assert_verdict(row, judge(&who, &with_claims(changes)), expected);
        }
    }
}

/// Goal: claims that nothing is required of may say anything of the right type. Method: table without
/// audiences, issuers and scopes.
#[tokio::test]
async fn what_is_not_required_is_only_typed() {
    let who = authenticator(&min()).await;
    let rows: [Row; 8] = [
        ("68", json!({"aud": "anything"}), None),
        (
            "68 none",
            json!({"aud": DELETE, "iss": DELETE, "scope": DELETE}),
            None,
        ),
        ("68 empty", json!({"aud": [], "iss": "", "scope": []}), None),
        ("84", json!({"scope": 1}), Some(Rejection::NotToken)),
        ("aud", json!({"aud": 5}), Some(Rejection::NotToken)),
        ("iss", json!({"iss": ["x"]}), Some(Rejection::NotToken)),
        ("sub", json!({"sub": null}), Some(Rejection::NotToken)),
        ("a good sub", json!({"sub": "alice"}), None),
    ];
    for (row, changes, expected) in rows {
        assert_verdict(row, judge(&who, &with_claims(changes)), expected);
    }
}

/// Goal: audience, issuer and scope are required when configured, in this order, and a claim of the
/// wrong type never passes for an absent one. Method: table.
#[tokio::test]
async fn configured_claims_are_required() {
    use Rejection::{Audience, Issuer, NotToken, Scope};
    let who = authenticator(&jwt()).await;
    let slash = "https://iss.example/";
    let rows: [Row; 28] = [
        ("69", json!({"aud": "other"}), Some(Audience)),
        ("69 other case", json!({"aud": "XMTP"}), Some(Audience)),
        ("70", json!({"aud": DELETE}), Some(Audience)),
        ("71", json!({"aud": ["other", "xmtp"]}), None),
        ("72", json!({"aud": []}), Some(Audience)),
        ("73", json!({"aud": ["xmtp", 5]}), Some(NotToken)),
        (
            "74 wrong issuer",
            json!({"aud": 5, "iss": "other"}),
            Some(Issuer),
        ),
        ("74 right issuer", json!({"aud": 5}), Some(NotToken)),
        ("74 null", json!({"aud": null}), Some(NotToken)),
        ("75", json!({"iss": DELETE}), Some(Issuer)),
        ("75 a slash", json!({"iss": slash}), Some(Issuer)),
        (
            "76",
            json!({"iss": ["https://iss.example"]}),
            Some(NotToken),
        ),
        ("76 null", json!({"iss": null}), Some(NotToken)),
        ("77", json!({"sub": 7}), Some(NotToken)),
        ("78 a text", json!({"scope": "xmtp:access"}), None),
        ("78 an array", json!({"scope": ["xmtp:access"]}), None),
        ("79", json!({"scope": "xmtp:accessory"}), Some(Scope)),
        (
            "79 other case",
            json!({"scope": "XMTP:access"}),
            Some(Scope),
        ),
        ("80", json!({"scope": DELETE}), Some(Scope)),
        (
            "80 scp",
            json!({"scope": DELETE, "scp": "xmtp:access"}),
            Some(Scope),
        ),
        ("80 empty", json!({"scope": ""}), Some(Scope)),
        ("81", json!({"scope": "other  xmtp:access"}), None),
        (
            "81 a tab",
            json!({"scope": "other\txmtp:access"}),
            Some(Scope),
        ),
        ("82", json!({"scope": ["other xmtp:access"]}), Some(Scope)),
        ("83", json!({"scope": 1}), Some(NotToken)),
        (
            "83 an item",
            json!({"scope": ["xmtp:access", 1]}),
            Some(NotToken),
        ),
        ("83 null", json!({"scope": null}), Some(NotToken)),
        (
            "85",
            json!({"aud": "other", "scope": DELETE}),
            Some(Audience),
        ),
    ];
    for (row, changes, expected) in rows {
        assert_verdict(row, judge(&who, &with_claims(changes)), expected);
    }
}

/// Goal: of several audiences and issuers one is enough, of several scopes all are needed. Method:
/// table under two of each.
#[tokio::test]
async fn one_audience_and_issuer_but_every_scope() {
    let required = "audiences = [\"a\", \"b\"]\nissuers = [\"i\", \"j\"]\n\
                    required_scopes = [\"s\", \"t\"]";
    let who = authenticator(&format!("{}\n{required}", min())).await;
    let good = json!({"aud": "b", "iss": "j", "scope": "t s"});
    let rows: [Row; 6] = [
        ("good", json!({}), None),
        (
            "the other ones",
            json!({"aud": ["a"], "iss": "i", "scope": ["s", "t", "u"]}),
            None,
        ),
        ("one scope", json!({"scope": "s"}), Some(Rejection::Scope)),
        (
            "the other scope",
            json!({"scope": "t"}),
            Some(Rejection::Scope),
        ),
        (
            "no audience",
            json!({"aud": "c"}),
            Some(Rejection::Audience),
        ),
        ("no issuer", json!({"iss": "k"}), Some(Rejection::Issuer)),
    ];
    for (row, changes, expected) in rows {
        let claims = super::with(super::with(super::claims(), good.clone()), changes);
        let token = Signer::RsaA.token(&header(), &claims);
        assert_verdict(row, judge(&who, &token), expected);
    }
}
