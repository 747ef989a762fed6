//! Signatures of wallets and installations (cases 54 and 56 to 67).

use envelope::error::{IdentityError, SignatureError};
use envelope::fixtures::keys::{erc_191, installation_key};
use envelope::fixtures::{Installation, Signer, UpdateBuilder, Wallet, update_envelope};
use envelope::wire::xmtp::identity::associations::{MemberIdentifier, Signature};
use envelope::{Error, MessageHash, canonical};

use crate::known_values::k0;
use crate::support::admit;

/// Somebody who is named as another says and signs as a function says.
pub(crate) struct Forged<'a, F> {
    pub(crate) named: &'a dyn Signer,
    pub(crate) sign: F,
}

impl<F: Fn(&str) -> Signature> Signer for Forged<'_, F> {
    fn member(&self) -> MemberIdentifier {
        self.named.member()
    }

    fn sign(&self, text: &str) -> Option<Signature> {
        Some((self.sign)(text))
    }
}

/// What comes of creating a wallet's inbox with a signature made from the right one.
fn create_with(edit: fn(&mut Vec<u8>)) -> Result<(), Error> {
    let wallet = k0();
    let forged = Forged {
        named: &wallet,
        sign: |text: &str| {
            let mut bytes = wallet.sign_text(text).to_vec();
            edit(&mut bytes);
            erc_191(&bytes)
        },
    };
    admit(&[], &UpdateBuilder::creating(&forged, 0).build()).map(|_| ())
}

/// The order of secp256k1 less the scalar.
fn mirrored(s: &[u8]) -> Vec<u8> {
    let order =
        hex::decode("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141").unwrap();
    let mut borrow = 0;
    let mut difference: Vec<u8> = order
        .iter()
        .zip(s)
        .rev()
        .map(|(n, s)| {
            let digit = i16::from(*n) - i16::from(*s) - borrow;
            borrow = i16::from(digit < 0);
            u8::try_from(digit.rem_euclid(256)).unwrap()
        })
        .collect();
    difference.reverse();
    difference
}

/// The odd or even partner of `v`, in whichever form.
fn v(bytes: &mut [u8], base: u8) {
    bytes[64] = bytes[64] - 27 + base;
}

/// Cases 59 to 65: every form of `v`, both forms of `s`, and lengths.
#[test]
fn wallet_signatures_are_taken_in_the_forms_that_exist() {
    const BAD: Result<(), Error> = Err(Error::Signature(SignatureError::Ecdsa));
    const OTHER: Result<(), Error> = Err(Error::Identity(IdentityError::SignerMismatch));
    /// What is done to the signature, and what comes of it.
    type Case = (&'static str, fn(&mut Vec<u8>), Result<(), Error>);
    let cases: [Case; 18] = [
        ("as made", |_| (), Ok(())),
        ("v from 0", |b| v(b, 0), Ok(())),
        ("v from 35", |b| v(b, 35), Ok(())),
        ("v from 37", |b| v(b, 37), Ok(())),
        ("v at the top", |b| v(b, 253), Ok(())),
        ("v 2", |b| b[64] = 2, BAD),
        ("v 26", |b| b[64] = 26, BAD),
        ("v 29", |b| b[64] = 29, BAD),
        ("v 34", |b| b[64] = 34, BAD),
        ("64 bytes", |b| b.truncate(64), BAD),
        ("66 bytes", |b| b.push(0), BAD),
        ("no bytes", |b| b.clear(), BAD),
        ("all zero", |b| b.fill(0), BAD),
        ("r zero", |b| b[..32].fill(0), BAD),
        ("s zero", |b| b[32..64].fill(0), BAD),
        ("r above the order", |b| b[..32].fill(0xff), BAD),
        (
            "high s",
            |b| {
                let high = mirrored(&b[32..64]);
                b[32..64].copy_from_slice(&high);
            },
            Ok(()),
        ),
        (
            "high s and its v",
            |b| {
                let high = mirrored(&b[32..64]);
                b[32..64].copy_from_slice(&high);
                b[64] = 27 + (28 - b[64]);
            },
            OTHER,
        ),
    ];
    for (what, edit, expected) in cases {
        assert_eq!(create_with(edit), expected, "{what}");
    }
}

/// Case 64, and a kept limit: a mirrored `s` is the same signature to the replay rule,
/// another form of `v` is not.
#[test]
fn replays_are_recognized_by_low_s_and_v_as_given() {
    let (wallet, installation) = (k0(), Installation::numbered(1));
    let create = UpdateBuilder::creating(&wallet, 0).build();
    let text_of_create = UpdateBuilder::creating(&wallet, 0).text();
    let seen = admit(&[], &create).unwrap().after.seen_signatures();
    assert_eq!(seen, 1);
    /// A form of the wallet's signature, and whether a second use is noticed.
    type Case = (fn(&mut Vec<u8>), usize);
    let cases: [Case; 3] = [
        (|_| (), 1),
        (
            |b| {
                let high = mirrored(&b[32..64]);
                b[32..64].copy_from_slice(&high);
            },
            1,
        ),
        (|b| v(b, 0), 2),
    ];
    assert!(text_of_create.contains(&wallet.address()));
    for (edit, expected) in cases {
        // One signature creates the inbox, the other form of it adds the installation.
        let form = Forged {
            named: &wallet,
            sign: |text: &str| {
                let mut bytes = wallet.sign_text(text).to_vec();
                edit(&mut bytes);
                erc_191(&bytes)
            },
        };
        let update = UpdateBuilder::creating(&wallet, 0)
            .add(&form, &installation)
            .build();
        let seen = admit(&[], &update).unwrap().after.seen_signatures();
        // The installation's own signature is one more.
        assert_eq!(seen, expected + 1);
    }
}

/// Cases 56 and 57: the text shows whole seconds, so a change below them keeps it.
#[test]
fn the_timestamp_is_signed_to_the_second() {
    let (wallet, installation) = (k0(), Installation::numbered(1));
    let update = UpdateBuilder::creating(&wallet, 0)
        .add(&wallet, &installation)
        .build();
    let hash = |update| MessageHash::of(&canonical::encode(&update_envelope(update)));
    let mut same_second = update.clone();
    same_second.client_timestamp_ns += 1;
    assert!(admit(&[], &same_second).is_ok());
    assert_ne!(hash(same_second), hash(update.clone()));
    let mut next_second = update;
    next_second.client_timestamp_ns += 1_000_000_000;
    assert_eq!(
        admit(&[], &next_second).unwrap_err(),
        Error::Signature(SignatureError::Installation)
    );
}

/// Case 58: a signature over another text is somebody else's.
#[test]
fn a_wallet_signature_over_another_text_names_another_signer() {
    let wallet = k0();
    let forged = Forged {
        named: &wallet,
        sign: |_: &str| erc_191(&wallet.sign_text("another text")),
    };
    assert_eq!(
        admit(&[], &UpdateBuilder::creating(&forged, 0).build()).unwrap_err(),
        Error::Identity(IdentityError::SignerMismatch)
    );
}

/// Case 54: updates of any claimed time verify.
#[test]
fn any_timestamp_verifies() {
    let wallet = k0();
    for timestamp_ns in [0, 999_999_999, 1 << 63, u64::MAX] {
        let update = UpdateBuilder::creating(&wallet, 0).at(timestamp_ns).build();
        assert!(admit(&[], &update).is_ok(), "{timestamp_ns}");
    }
}

/// Adds an installation whose signature and key are what a function makes of the text.
fn add_installation(sign: impl Fn(&Installation, &str) -> Signature) -> Result<(), Error> {
    let (wallet, installation) = (k0(), Installation::numbered(1));
    let forged = Forged {
        named: &installation,
        sign: |text: &str| sign(&installation, text),
    };
    let update = UpdateBuilder::creating(&wallet, 0)
        .add(&wallet, &forged)
        .build();
    admit(&[], &update).map(|_| ())
}

/// Cases 66 and 67: context, length, and keys that are none.
#[test]
fn installation_signatures_need_their_context_and_key() {
    let bad = Err(Error::Signature(SignatureError::Installation));
    let no_key = Err(Error::Identity(IdentityError::BadInstallationKey));
    let with = |bytes: &[u8], key: &[u8]| installation_key(bytes, key);
    assert_eq!(
        add_installation(|i, t| with(&i.sign_text(t), &i.public_key())),
        Ok(())
    );
    assert_eq!(
        add_installation(|i, t| with(&i.sign_plain(t.as_bytes()), &i.public_key())),
        bad
    );
    assert_eq!(
        add_installation(|i, t| with(&i.sign_text(t)[..63], &i.public_key())),
        bad
    );
    assert_eq!(
        add_installation(|i, t| with(&[&i.sign_text(t)[..], &[0]].concat(), &i.public_key())),
        bad
    );
    // S of L or more.
    assert_eq!(
        add_installation(|i, t| {
            let mut bytes = i.sign_text(t);
            bytes[63] |= 0xe0;
            with(&bytes, &i.public_key())
        }),
        bad
    );
    assert_eq!(
        add_installation(|i, t| with(&i.sign_text(t), &i.public_key()[..31])),
        no_key
    );
    // 2 is the y of no point.
    let off_curve: [u8; 32] = std::array::from_fn(|at| if at == 0 { 2 } else { 0 });
    assert_eq!(
        add_installation(|i, t| with(&i.sign_text(t), &off_curve)),
        no_key
    );
    // A signature under another, good key verifies, but names another member.
    assert_eq!(
        add_installation(|_, t| {
            let other = Installation::numbered(2);
            with(&other.sign_text(t), &other.public_key())
        }),
        Err(Error::Identity(IdentityError::SignerMismatch))
    );
}

/// The point of order one with its trivial signature passes, as it does for existing validators
/// (ARC-013): the check is not the strict one.
#[test]
fn weak_installation_keys_are_not_refused() {
    let identity: [u8; 32] = std::array::from_fn(|at| u8::from(at == 0));
    let mut trivial = [0; 64];
    trivial[..32].copy_from_slice(&identity);
    assert_eq!(
        add_installation(|_, _| installation_key(&trivial, &identity)),
        // It verifies and is then refused for being another installation than the one named.
        Err(Error::Identity(IdentityError::SignerMismatch))
    );
}

/// A wallet's signature is verified once per update however often it occurs, and serves each place.
#[test]
fn one_signature_serves_a_whole_update() {
    let wallet = Wallet::numbered(1);
    let apps: Vec<_> = (0..50).map(Installation::numbered).collect();
    let update = apps
        .iter()
        .fold(UpdateBuilder::creating(&wallet, 0), |update, app| {
            update.add(&wallet, app)
        })
        .build();
    let state = admit(&[], &update).unwrap().after;
    assert_eq!(state.members().len(), 51);
    assert_eq!(state.seen_signatures(), 51);
}
