//! Signatures of passkeys (cases 68 to 74), and what client data may look like.

use bytes::Bytes;
use envelope::Error;
use envelope::error::{IdentityError, SignatureError};
use envelope::fixtures::{Passkey, UpdateBuilder, keys};
use envelope::wire::xmtp::identity::associations::RecoverablePasskeySignature;

use crate::signature_cases::Forged;
use crate::support::admit;

/// Creates a passkey's inbox with an assertion that a function makes.
fn create_passkey(
    sign: impl Fn(&Passkey, &str) -> RecoverablePasskeySignature,
) -> Result<usize, Error> {
    let passkey = Passkey::from_secret(&[2; 32]);
    let forged = Forged {
        named: &passkey,
        sign: |text: &str| keys::passkey(sign(&passkey, text)),
    };
    admit(&[], &UpdateBuilder::creating(&forged, 0).build())
        .map(|admission| admission.after.seen_signatures())
}

fn client_data(text: &str) -> String {
    Passkey::client_data(text)
}

/// Case 69 and the kept limits: what a relying party would check is not checked (ARC-013).
#[test]
fn passkeys_are_not_checked_like_a_relying_party_would() {
    let data = Passkey::authenticator_data();
    /// What client data is made of a text.
    type Case = (&'static str, fn(&str) -> String);
    let cases: [Case; 6] = [
        ("ceremony", |t| {
            client_data(t).replace("webauthn.get", "webauthn.create")
        }),
        ("origin", |t| {
            client_data(t).replace("example.test", "elsewhere.test")
        }),
        ("unknown members", |t| {
            client_data(t).replacen('{', r#"{"x":{},"#, 1)
        }),
        ("trailing space", |t| client_data(t) + " \n"),
        ("escapes", |t| {
            client_data(t)
                .replace("-", "\\u002d")
                .replacen('W', "\\u0057", 1)
        }),
        ("array of the two", |t| {
            let challenge = client_data(t);
            let challenge = challenge.split('"').nth(7).unwrap();
            format!(r#"["origin","{challenge}"]"#)
        }),
    ];
    for (what, make) in cases {
        let outcome = create_passkey(|p, t| p.assertion(&data, make(t).as_bytes()));
        assert_eq!(outcome, Ok(1), "{what}");
    }
    for data in [&[][..], &[0; 37]] {
        let outcome = create_passkey(|p, t| p.assertion(data, client_data(t).as_bytes()));
        assert_eq!(outcome, Ok(1), "authenticator data");
    }
}

/// Cases 70 and 71: client data that does not show the text.
#[test]
fn passkey_client_data_must_show_the_text() {
    let bad = SignatureError::PasskeyClientData;
    let other = SignatureError::PasskeyChallenge;
    /// What the client data becomes, and the failure.
    type Case = (&'static str, fn(&str) -> String, SignatureError);
    let cases: [Case; 10] = [
        ("another text", |_| client_data("another text"), other),
        (
            "padding",
            |t| client_data(t).replace("\",\"origin", "=\",\"origin"),
            other,
        ),
        (
            "no origin",
            |t| client_data(t).replace("origin", "region"),
            bad,
        ),
        (
            "no challenge",
            |t| client_data(t).replace("challenge", "question"),
            bad,
        ),
        (
            "origin in capitals",
            |t| client_data(t).replace("origin", "Origin"),
            bad,
        ),
        (
            "null origin",
            |t| client_data(t).replace("\"https://example.test\"", "null"),
            bad,
        ),
        (
            "two challenges",
            |t| client_data(t).replacen('{', r#"{"challenge":"a","#, 1),
            bad,
        ),
        (
            "byte order mark",
            |t| format!("\u{feff}{}", client_data(t)),
            bad,
        ),
        ("trailing letter", |t| client_data(t) + "x", bad),
        ("empty", |_| String::new(), bad),
    ];
    for (what, make, expected) in cases {
        let data = Passkey::authenticator_data();
        let outcome = create_passkey(|p, t| p.assertion(&data, make(t).as_bytes()));
        assert_eq!(outcome, Err(Error::Signature(expected)), "{what}");
    }
    let outcome = create_passkey(|p, t| {
        let json = [&client_data(t).into_bytes()[..], &[0xff]].concat();
        p.assertion(&Passkey::authenticator_data(), &json)
    });
    assert_eq!(outcome, Err(Error::Signature(bad)), "not utf-8");
}

fn assertion(passkey: &Passkey, text: &str) -> RecoverablePasskeySignature {
    passkey.assertion(&Passkey::authenticator_data(), client_data(text).as_bytes())
}

/// Case 72, and a signature over other data.
#[test]
fn passkey_signatures_must_be_strict_der_and_verify() {
    /// What becomes of a signature.
    type Case = (&'static str, fn(&mut RecoverablePasskeySignature));
    let cases: [Case; 8] = [
        ("key at infinity", |s| {
            s.public_key = Bytes::from_static(&[0])
        }),
        ("trailing byte", |s| {
            s.signature = [&s.signature[..], &[0]].concat().into()
        }),
        ("raw", |s| s.signature = Bytes::from(vec![1; 64])),
        ("empty", |s| s.signature = Bytes::new()),
        ("other authenticator data", |s| {
            s.authenticator_data = Bytes::from_static(&[0; 37])
        }),
        ("no key", |s| s.public_key = Bytes::new()),
        ("hybrid key", |s| {
            let mut key = s.public_key.to_vec();
            key[0] = 6;
            s.public_key = key.into();
        }),
        ("untagged key", |s| s.public_key = s.public_key.slice(1..)),
    ];
    for (what, edit) in cases {
        let outcome = create_passkey(|p, t| {
            let mut signature = assertion(p, t);
            edit(&mut signature);
            signature
        });
        assert_eq!(
            outcome,
            Err(Error::Signature(SignatureError::Passkey)),
            "{what}"
        );
    }
}

/// Case 73: the other form of `s` is accepted as well, and is another signature to the replay rule.
#[test]
fn both_forms_of_a_passkey_signature_verify() {
    let low = "304402202e87308eda76aa42aac8a34020584f046e3039a35460e7886671f0a850032cf302202a9e04b0556e90c6220610cb073171d7b59f6abb608ac74efd26eae0d58bb536";
    let passkey = Passkey::from_secret(&[2; 32]);
    let other_form = Forged {
        named: &passkey,
        sign: |text: &str| {
            let mut signature = assertion(&passkey, text);
            assert_ne!(hex::encode(&signature.signature), low);
            signature.signature = hex::decode(low).unwrap().into();
            keys::passkey(signature)
        },
    };
    let first = UpdateBuilder::creating(&passkey, 0).build();
    let second = UpdateBuilder::creating(&other_form, 0).build();
    assert!(admit(&[], &first).is_ok());
    assert!(admit(&[], &second).is_ok());
    assert_ne!(first, second);
}

/// Case 74: compressed and uncompressed forms of one key are two identifiers.
#[test]
fn a_passkey_signs_for_the_form_of_its_key_only() {
    let outcome = create_passkey(|p, t| RecoverablePasskeySignature {
        public_key: p.public_key(true).into(),
        ..assertion(p, t)
    });
    assert_eq!(outcome, Err(Error::Identity(IdentityError::SignerMismatch)));
    // Tag 5 names the same point for the decoder and yet another identifier.
    let outcome = create_passkey(|p, t| {
        let mut key = p.public_key(true);
        key[0] = 5;
        RecoverablePasskeySignature {
            public_key: key.into(),
            ..assertion(p, t)
        }
    });
    assert_eq!(outcome, Err(Error::Identity(IdentityError::SignerMismatch)));
}
