//! From the wire to typed updates (cases 82 and 84): what must be there, and what texts may be.

use envelope::Error;
use envelope::error::IdentityError;
use envelope::fixtures::identity::inbox_of;
use envelope::fixtures::{Passkey, Signer, UpdateBuilder};
use envelope::wire::xmtp::identity::associations::identity_action::Kind;
use envelope::wire::xmtp::identity::associations::{
    AddAssociation, CreateInbox, IdentityAction, IdentityUpdate, MemberIdentifier,
    RevokeAssociation, Signature,
};

use crate::signature_cases::Forged;
use crate::state_cases::{app, inbox, refuse, wallet};
use crate::support::admit;

/// Case 82: an address in any other form than the signer's own is not the signer.
#[test]
fn addresses_are_compared_as_text() {
    let owner = wallet(0);
    let address = owner.address();
    for text in [
        address.to_uppercase().replace('X', "x"),
        address[2..].to_owned(),
        String::new(),
    ] {
        let id = inbox_of(&owner, 0);
        let create = CreateInbox {
            initial_identifier: text.clone(),
            initial_identifier_kind: 1,
            ..CreateInbox::default()
        };
        let update = UpdateBuilder::new(&id)
            .action(Kind::CreateInbox(create.into()), [Some(&owner), None])
            .build();
        refuse(&[], &update, IdentityError::SignerMismatch);
    }
}

/// The kind number of an identifier reads as Ethereum unless it is the one of passkeys.
#[test]
fn unknown_identifier_kinds_read_as_ethereum() {
    let owner = wallet(0);
    for (kind, expected) in [
        (0, Ok(())),
        (1, Ok(())),
        (99, Ok(())),
        (-1, Ok(())),
        (2, Err(Error::Identity(IdentityError::SignerMismatch))),
    ] {
        let create = CreateInbox {
            initial_identifier: owner.address(),
            initial_identifier_kind: kind,
            ..CreateInbox::default()
        };
        let update = UpdateBuilder::new(&inbox_of(&owner, 0))
            .action(Kind::CreateInbox(create.into()), [Some(&owner), None])
            .build();
        assert_eq!(admit(&[], &update).map(|_| ()), expected, "{kind}");
    }
}

/// Case 84 and the rest of conversion: everything that must be there, is.
#[test]
fn required_fields_are_required() {
    let (history, id) = inbox();
    let owner = wallet(0);
    let app = app(1);
    let add = |member: Option<MemberIdentifier>, signers: [Option<&dyn Signer>; 2]| {
        let mut update = UpdateBuilder::new(&id).add(&owner, &app).build();
        let text = UpdateBuilder::new(&id).add(&owner, &app).text();
        let [existing, new] = signers.map(|signer| signer.and_then(|signer| signer.sign(&text)));
        update.actions[0].kind = Some(Kind::Add(Box::new(AddAssociation {
            new_member_identifier: member,
            existing_member_signature: existing,
            new_member_signature: new,
            relying_party: None,
        })));
        update
    };
    let whole = add(Some(app.member()), [Some(&owner), Some(&app)]);
    assert!(admit(&history, &whole).is_ok());
    let unset = Forged {
        named: &app,
        sign: |_: &str| Signature { signature: None },
    };
    let cases = [
        add(None, [Some(&owner), Some(&app)]),
        add(
            Some(MemberIdentifier { kind: None }),
            [Some(&owner), Some(&app)],
        ),
        add(Some(app.member()), [None, Some(&app)]),
        add(Some(app.member()), [Some(&owner), None]),
        add(Some(app.member()), [Some(&owner), Some(&unset)]),
        IdentityUpdate {
            actions: vec![IdentityAction { kind: None }],
            ..whole.clone()
        },
    ];
    for update in cases {
        refuse(&history, &update, IdentityError::MissingField);
    }
    let lone = [
        Kind::CreateInbox(Box::default()),
        Kind::Revoke(Box::new(RevokeAssociation {
            member_to_revoke: Some(app.member()),
            ..RevokeAssociation::default()
        })),
        Kind::Revoke(Box::default()),
        Kind::ChangeRecoveryAddress(Box::default()),
    ];
    for kind in lone {
        let mut update = whole.clone();
        update.actions = vec![IdentityAction { kind: Some(kind) }];
        refuse(&history, &update, IdentityError::MissingField);
    }
}

/// A passkey identifier is hexadecimal, of either case and with or without `0x`.
#[test]
fn passkey_identifiers_are_hexadecimal() {
    let owner = Passkey::numbered(0);
    let digits = hex::encode(owner.public_key(false));
    let with = |text: String| {
        let create = CreateInbox {
            initial_identifier: text,
            initial_identifier_kind: 2,
            ..CreateInbox::default()
        };
        UpdateBuilder::new(&inbox_of(&owner, 0))
            .action(Kind::CreateInbox(create.into()), [Some(&owner), None])
    };
    for text in [digits.clone(), digits.to_uppercase(), format!("0x{digits}")] {
        // The text to sign shows the key in lower case whatever the identifier looks like.
        assert!(admit(&[], &with(text).build()).is_ok());
    }
    for text in [
        format!("g{}", &digits[1..]),
        digits[1..].to_owned(),
        format!("0X{digits}"),
    ] {
        let mut update = with(digits.clone()).build();
        let Some(Kind::CreateInbox(create)) = &mut update.actions[0].kind else {
            panic!("a creation");
        };
        create.initial_identifier = text;
        refuse(&[], &update, IdentityError::BadPasskeyHex);
    }
}

/// Cases 131 to 133: what lookups ignore, and what no lookup finds.
#[test]
fn identifiers_are_looked_up_in_one_form() {
    use envelope::identity::{IdentifierKind, normalize};
    let (ethereum, passkey) = (IdentifierKind::Ethereum, IdentifierKind::Passkey);
    let cases = [
        (ethereum, "0xABCdef", Some("0xabcdef")),
        (ethereum, "ABC", Some("abc")),
        (ethereum, " 0X\u{c9}", Some(" 0x\u{c9}")),
        (ethereum, "", Some("")),
        (passkey, "04AB", Some("04ab")),
        (passkey, "0x04AB", Some("04ab")),
        (passkey, "", Some("")),
        (passkey, "0X04ab", None),
        (passkey, "04a", None),
        (passkey, "0xg0", None),
    ];
    for (kind, text, expected) in cases {
        assert_eq!(normalize(kind, text).as_deref(), expected, "{text}");
    }
    let kinds = [
        (0, Some(ethereum)),
        (1, Some(ethereum)),
        (2, Some(passkey)),
        (3, None),
        (-1, None),
    ];
    for (number, kind) in kinds {
        assert_eq!(IdentifierKind::from_wire(number), kind);
    }
    assert_eq!((ethereum.number(), passkey.number()), (1, 2));
}
