//! Signatures of legacy keys that wallets delegated to (cases 75 to 77 and 102 to 105a).

use envelope::Error;
use envelope::error::{IdentityError, SignatureError};
use envelope::fixtures::keys::delegated_erc_191;
use envelope::fixtures::{Delegate, Installation, Signer, UpdateBuilder, Wallet};
use envelope::wire::xmtp::identity::associations::signature::Signature as Kind;
use envelope::wire::xmtp::message_contents::signature::{EcdsaCompact, Union, WalletEcdsaCompact};
use envelope::wire::xmtp::message_contents::{Signature as LegacySignature, SignedPublicKey};

use crate::signature_cases::Forged;
use crate::support::{admit, members};

fn delegate() -> Delegate {
    Delegate::of(&Wallet::numbered(1), &Wallet::numbered(2))
}

/// Creates an inbox with a legacy signature whose signed key was edited.
fn create_with(edit: impl Fn(&mut SignedPublicKey)) -> Result<(), Error> {
    let delegate = delegate();
    let forged = Forged {
        named: &delegate,
        sign: |text: &str| {
            let mut key = delegate.signed_key();
            edit(&mut key);
            delegated_erc_191(key, &delegate.sign_text(text))
        },
    };
    admit(&[], &UpdateBuilder::creating(&forged, 0).build()).map(|_| ())
}

/// The `r ‖ s` and parity of a signed key.
fn compact(key: &SignedPublicKey) -> (bytes::Bytes, u32) {
    let Some(LegacySignature {
        union: Some(Union::WalletEcdsaCompact(compact)),
    }) = &key.signature
    else {
        panic!("a wallet signature");
    };
    (compact.bytes.clone(), compact.recovery)
}

fn set(key: &mut SignedPublicKey, union: Option<Union>) {
    key.signature = Some(LegacySignature { union });
}

/// Cases 75 to 77: where each half of a legacy signature may differ, and where not.
#[test]
fn legacy_keys_must_be_signed_by_their_wallet() {
    let bad_key = Err(Error::Signature(SignatureError::LegacyKey));
    let bad_ecdsa = Err(Error::Signature(SignatureError::Ecdsa));
    let other = Err(Error::Identity(IdentityError::SignerMismatch));
    assert_eq!(create_with(|_| ()), Ok(()));
    // Only the low byte of the parity counts.
    assert_eq!(
        create_with(|key| {
            let (bytes, recovery) = compact(key);
            let recovery = recovery + 256;
            set(
                key,
                Some(Union::WalletEcdsaCompact(WalletEcdsaCompact {
                    bytes,
                    recovery,
                })),
            );
        }),
        Ok(())
    );
    // It may be filed under either name.
    assert_eq!(
        create_with(|key| {
            let (bytes, recovery) = compact(key);
            set(
                key,
                Some(Union::EcdsaCompact(EcdsaCompact { bytes, recovery })),
            );
        }),
        Ok(())
    );
    assert_eq!(
        create_with(|key| {
            let mut bytes = key.key_bytes.to_vec();
            bytes[0] += 1;
            key.key_bytes = bytes.into();
        }),
        bad_key
    );
    // A byte of the creation time: still a key, but not the one that the wallet signed.
    assert_eq!(
        create_with(|key| {
            let mut bytes = key.key_bytes.to_vec();
            bytes[2] ^= 1;
            key.key_bytes = bytes.into();
        }),
        other
    );
    assert_eq!(create_with(|key| key.signature = None), bad_key);
    assert_eq!(create_with(|key| set(key, None)), bad_key);
    assert_eq!(
        create_with(|key| {
            let (bytes, recovery) = compact(key);
            let bytes = bytes.slice(1..);
            set(
                key,
                Some(Union::WalletEcdsaCompact(WalletEcdsaCompact {
                    bytes,
                    recovery,
                })),
            );
        }),
        bad_ecdsa
    );
}

/// The key that signed must be the key that the wallet delegated to.
#[test]
fn another_key_cannot_use_a_delegation() {
    let delegate = delegate();
    let thief = Wallet::numbered(3);
    let forged = Forged {
        named: &delegate,
        sign: |text: &str| delegated_erc_191(delegate.signed_key(), &thief.sign_text(text)),
    };
    assert_eq!(
        admit(&[], &UpdateBuilder::creating(&forged, 0).build()).unwrap_err(),
        Error::Signature(SignatureError::LegacyKey)
    );
}

/// Both halves must be there before anything is verified.
#[test]
fn a_legacy_signature_needs_both_halves() {
    let delegate = delegate();
    for half in 0..2 {
        let forged = Forged {
            named: &delegate,
            sign: |text: &str| {
                let mut signature = delegate.sign(text).unwrap();
                if let Some(Kind::DelegatedErc191(legacy)) = &mut signature.signature {
                    match half {
                        0 => legacy.delegated_key = None,
                        _ => legacy.signature = None,
                    }
                }
                signature
            },
        };
        assert_eq!(
            admit(&[], &UpdateBuilder::creating(&forged, 0).build()).unwrap_err(),
            Error::Identity(IdentityError::MissingField)
        );
    }
}

/// Cases 103, 104 and 105a: a legacy key creates the inbox of nonce 0 and adds members, but one
/// delegation serves one update.
#[test]
fn a_legacy_key_works_once_per_inbox() {
    let (delegate, app) = (delegate(), Installation::numbered(1));
    let with_nonce = UpdateBuilder::creating(&delegate, 1).build();
    assert_eq!(
        admit(&[], &with_nonce).unwrap_err(),
        Error::Identity(IdentityError::LegacyReuse)
    );
    let together = UpdateBuilder::creating(&delegate, 0)
        .add(&delegate, &app)
        .build();
    assert_eq!(members(&admit(&[], &together).unwrap().after).len(), 2);
    let create = UpdateBuilder::creating(&delegate, 0).build();
    let later = UpdateBuilder::new(&create.inbox_id)
        .add(&delegate, &app)
        .build();
    assert_eq!(
        admit(&[create], &later).unwrap_err(),
        Error::Identity(IdentityError::Replay)
    );
}

/// Case 105: a legacy key acts only for the inbox that its wallet created with nonce 0. The rule looks
/// at the existing signer, so it is skipped when an installation adds a legacy signer.
#[test]
fn a_legacy_key_serves_the_inbox_of_its_wallet_only() {
    let (wallet, delegate, app) = (Wallet::numbered(1), delegate(), Installation::numbered(1));
    let legacy = Err(Error::Identity(IdentityError::LegacyReuse));
    // The wallet's second inbox.
    let create = UpdateBuilder::creating(&wallet, 1)
        .add(&wallet, &app)
        .build();
    let add = UpdateBuilder::new(&create.inbox_id)
        .add(&delegate, &Installation::numbered(2))
        .build();
    assert_eq!(admit(&[create], &add).map(|_| ()), legacy);

    // Somebody else's inbox, to which the legacy signer is the new member.
    let owner = Wallet::numbered(9);
    let create = UpdateBuilder::creating(&owner, 1).add(&owner, &app).build();
    let by_owner = UpdateBuilder::new(&create.inbox_id)
        .add(&owner, &delegate)
        .build();
    assert_eq!(
        admit(std::slice::from_ref(&create), &by_owner).map(|_| ()),
        legacy
    );
    let by_app = UpdateBuilder::new(&create.inbox_id)
        .add(&app, &delegate)
        .build();
    assert!(admit(&[create], &by_app).is_ok());
}

/// Case 102: revoking and recovery are out of reach for legacy keys.
#[test]
fn a_legacy_key_neither_revokes_nor_recovers() {
    let (wallet, delegate, app) = (Wallet::numbered(1), delegate(), Installation::numbered(1));
    let create = UpdateBuilder::creating(&wallet, 0)
        .add(&wallet, &app)
        .build();
    let inbox = &create.inbox_id;
    let cases = [
        UpdateBuilder::new(inbox)
            .revoke(&delegate, app.member())
            .build(),
        UpdateBuilder::new(inbox)
            .change_recovery(&delegate, &Wallet::numbered(3).address())
            .build(),
    ];
    for update in cases {
        assert_eq!(
            admit(std::slice::from_ref(&create), &update).unwrap_err(),
            Error::Identity(IdentityError::LegacyReuse)
        );
    }
}

/// A recovery identifier that is no member any more does not add by a legacy key.
#[test]
fn a_legacy_key_adds_only_for_a_member() {
    let (wallet, delegate) = (Wallet::numbered(1), delegate());
    let create = UpdateBuilder::creating(&wallet, 0).build();
    let leave = UpdateBuilder::new(&create.inbox_id)
        .revoke(&wallet, wallet.member())
        .build();
    let history = [create, leave];
    let add = |by: &dyn Signer| {
        let update = UpdateBuilder::new(&history[0].inbox_id)
            .add(by, &Installation::numbered(1))
            .build();
        admit(&history, &update).map(|_| ())
    };
    assert_eq!(
        add(&delegate),
        Err(Error::Identity(IdentityError::MissingExistingMember))
    );
    assert_eq!(add(&wallet), Ok(()));
}
