//! The association rules (cases 27, 78 to 81, 83 and 85 to 101).

use envelope::error::IdentityError;
use envelope::fixtures::identity::inbox_of;
use envelope::fixtures::{Installation, Passkey, Signer, UpdateBuilder, Wallet};
use envelope::identity::{Identifier, IdentifierKind};
use envelope::wire::xmtp::identity::associations::identity_action::Kind;
use envelope::wire::xmtp::identity::associations::member_identifier::Kind as MemberKind;
use envelope::wire::xmtp::identity::associations::{IdentityUpdate, MemberIdentifier};
use envelope::{Error, Reason};

use crate::signature_cases::Forged;
use crate::support::{admit, members};

pub(crate) fn wallet(number: u64) -> Wallet {
    Wallet::numbered(number)
}

pub(crate) fn app(number: u64) -> Installation {
    Installation::numbered(number)
}

/// The inbox of wallet 0 with installation 0, whose id is the second value.
pub(crate) fn inbox() -> (Vec<IdentityUpdate>, String) {
    let owner = wallet(0);
    let create = UpdateBuilder::creating(&owner, 0)
        .add(&owner, &app(0))
        .build();
    let id = create.inbox_id.clone();
    (vec![create], id)
}

/// Applies an update that must be accepted to a history, and returns the member texts after it.
pub(crate) fn accept(history: &mut Vec<IdentityUpdate>, update: IdentityUpdate) -> Vec<String> {
    let admission = admit(history, &update).unwrap();
    history.push(update);
    members(&admission.after)
}

#[track_caller]
pub(crate) fn refuse(history: &[IdentityUpdate], update: &IdentityUpdate, expected: IdentityError) {
    let error = admit(history, update).unwrap_err();
    assert_eq!(error, Error::Identity(expected));
    assert_eq!(error.reason(), Some(Reason::InvalidIdentityUpdate));
}

/// Case 78: an inbox is created once.
#[test]
fn an_inbox_is_created_once() {
    let (history, id) = inbox();
    let owner = wallet(0);
    let again = UpdateBuilder::new(&id).at(1).create(&owner, 0).build();
    refuse(&history, &again, IdentityError::MultipleCreate);
    let twice = UpdateBuilder::creating(&owner, 0).create(&owner, 0).build();
    refuse(&[], &twice, IdentityError::MultipleCreate);
}

/// Cases 79 and 80: nothing happens before the creation, not even nothing.
#[test]
fn an_inbox_begins_with_its_creation() {
    let (owner, id) = (wallet(0), inbox_of(&wallet(0), 0));
    let early = UpdateBuilder::new(&id)
        .add(&owner, &app(0))
        .create(&owner, 0)
        .build();
    refuse(&[], &early, IdentityError::NotCreated);
    let empty = UpdateBuilder::new(&id).build();
    refuse(&[], &empty, IdentityError::NotCreated);
    let revoke = UpdateBuilder::new(&id)
        .revoke(&owner, app(0).member())
        .build();
    refuse(&[], &revoke, IdentityError::NotCreated);
    let change = UpdateBuilder::new(&id).change_recovery(&owner, "x").build();
    refuse(&[], &change, IdentityError::NotCreated);
}

/// Case 81: an update without actions succeeds and changes nothing (kept limit).
#[test]
fn an_empty_update_changes_nothing() {
    let (history, id) = inbox();
    let admission = admit(&history, &UpdateBuilder::new(&id).build()).unwrap();
    assert_eq!(admission.before.as_ref(), Some(&admission.after));
    assert_eq!(admission.changes, Default::default());
}

/// Cases 27 and 83: an update is for the inbox it belongs to, in lower case.
#[test]
fn an_update_names_its_own_inbox() {
    let owner = wallet(0);
    let other = inbox_of(&wallet(1), 0);
    let upper = inbox_of(&owner, 0).to_uppercase();
    for id in [other.clone(), upper] {
        let create = UpdateBuilder::new(&id).create(&owner, 0).build();
        refuse(&[], &create, IdentityError::WrongInboxId);
    }
    let (history, _) = inbox();
    let add = UpdateBuilder::new(&other).add(&owner, &app(1)).build();
    refuse(&history, &add, IdentityError::WrongInboxId);
}

/// Cases 85, 86 and 87: who may add whom.
#[test]
fn members_add_members_but_installations_no_installations() {
    let (mut history, id) = inbox();
    let (owner, first_app, passkey) = (wallet(0), app(0), Passkey::numbered(0));
    let add = |existing: &dyn Signer, new: &dyn Signer| {
        UpdateBuilder::new(&id).add(existing, new).build()
    };
    accept(&mut history, add(&owner, &app(1)));
    accept(&mut history, add(&owner, &wallet(1)));
    accept(&mut history, add(&owner, &passkey));
    accept(&mut history, add(&first_app, &wallet(2)));
    accept(&mut history, add(&first_app, &Passkey::numbered(1)));
    accept(&mut history, add(&passkey, &app(2)));
    let all = accept(&mut history, add(&passkey, &wallet(3)));
    assert_eq!(all.len(), 9);
    refuse(
        &history,
        &add(&first_app, &app(3)),
        IdentityError::MemberPairNotAllowed,
    );
    let again = UpdateBuilder::new(&id)
        .at(5)
        .add(&first_app, &app(1))
        .build();
    refuse(&history, &again, IdentityError::MemberPairNotAllowed);
}

/// Cases 88 to 90: nobody adds itself, is added by a stranger, or is added unasked.
#[test]
fn adding_takes_a_member_and_the_one_added() {
    let (history, id) = inbox();
    let (owner, stranger) = (wallet(0), wallet(9));
    let add = |existing: &dyn Signer, new: &dyn Signer| {
        UpdateBuilder::new(&id).add(existing, new).build()
    };
    refuse(&history, &add(&owner, &owner), IdentityError::SelfAdd);
    refuse(
        &history,
        &add(&stranger, &app(1)),
        IdentityError::MissingExistingMember,
    );
    refuse(
        &history,
        &add(&app(9), &wallet(1)),
        IdentityError::MissingExistingMember,
    );
    let unasked = UpdateBuilder::new(&id)
        .add_as(app(1).member(), &owner, &app(2))
        .build();
    refuse(&history, &unasked, IdentityError::SignerMismatch);
    // A member's bytes under another kind are another member.
    let key = app(1).public_key().to_vec();
    let as_passkey = MemberIdentifier {
        kind: Some(MemberKind::Passkey(
            envelope::wire::xmtp::identity::associations::Passkey {
                key: key.into(),
                relying_party: None,
            },
        )),
    };
    let disguised = UpdateBuilder::new(&id)
        .add_as(as_passkey, &owner, &app(1))
        .build();
    refuse(&history, &disguised, IdentityError::SignerMismatch);
}

/// Cases 91, 92 and 99: a signature serves one update, however often, and never another.
#[test]
fn signatures_are_used_up_by_their_update() {
    let (mut history, id) = inbox();
    let owner = wallet(0);
    let add = UpdateBuilder::new(&id)
        .add(&owner, &app(1))
        .add(&owner, &app(2))
        .build();
    assert_eq!(accept(&mut history, add.clone()).len(), 4);
    refuse(&history, &add, IdentityError::Replay);
    // A member's own signature counts like the adder's.
    let text = UpdateBuilder::new(&id)
        .add(&owner, &app(1))
        .add(&owner, &app(2))
        .text();
    let fresh = Forged {
        named: &owner,
        sign: |_: &str| {
            let mut bytes = owner.sign_text(&text);
            bytes[64] -= 27;
            envelope::fixtures::keys::erc_191(&bytes)
        },
    };
    let mut reused = add.clone();
    for action in &mut reused.actions {
        if let Some(Kind::Add(add)) = &mut action.kind {
            add.existing_member_signature = fresh.sign("");
        }
    }
    refuse(&history, &reused, IdentityError::Replay);
    // Revoking does not give it back.
    let revoke = UpdateBuilder::new(&id)
        .revoke(&owner, app(1).member())
        .build();
    assert_eq!(accept(&mut history, revoke.clone()).len(), 3);
    refuse(&history, &add, IdentityError::Replay);
    refuse(&history, &revoke, IdentityError::Replay);
}

/// Case 93: adding a present member overwrites its record and changes no projection (kept limit).
#[test]
fn adding_a_member_again_overwrites_it() {
    let (mut history, id) = inbox();
    let (owner, second, app) = (wallet(0), wallet(1), app(0));
    accept(
        &mut history,
        UpdateBuilder::new(&id).add(&owner, &second).build(),
    );
    let again = UpdateBuilder::new(&id)
        .at(5)
        .add(&second, &app)
        .add(&app, &second)
        .build();
    let admission = admit(&history, &again).unwrap();
    assert_eq!(members(&admission.after).len(), 3);
    assert_eq!(admission.changes, Default::default());
    let adder = |text: &str| {
        let (_, member) = admission
            .after
            .members()
            .find(|(member, _)| member.text() == text)
            .unwrap();
        (
            member.added_by.as_ref().unwrap().text(),
            member.client_timestamp_ns,
        )
    };
    assert_eq!(
        adder(&hex::encode(app.public_key())),
        (second.address(), Some(5))
    );
    history.push(again);
    // The installation now goes with its new adder, not with its old one.
    let old = UpdateBuilder::new(&id)
        .at(6)
        .revoke(&owner, owner.member())
        .build();
    assert_eq!(accept(&mut history, old).len(), 2);
    let new = UpdateBuilder::new(&id)
        .at(7)
        .revoke(&owner, second.member())
        .build();
    assert_eq!(accept(&mut history, new), Vec::<String>::new());
}

/// Cases 94 and 95: only the recovery identifier revokes, and installations go with their adder.
#[test]
fn revoking_takes_the_installations_along() {
    let (mut history, id) = inbox();
    let (owner, second, passkey) = (wallet(0), wallet(1), Passkey::numbered(0));
    let add = UpdateBuilder::new(&id)
        .add(&owner, &second)
        .add(&second, &app(1))
        .add(&second, &passkey)
        .build();
    accept(&mut history, add);
    for stranger in [&second as &dyn Signer, &app(0), &passkey, &wallet(9)] {
        let revoke = UpdateBuilder::new(&id)
            .revoke(stranger, app(0).member())
            .build();
        refuse(&history, &revoke, IdentityError::MissingExistingMember);
    }
    let revoke = UpdateBuilder::new(&id)
        .revoke(&owner, second.member())
        .build();
    let admission = admit(&history, &revoke).unwrap();
    let mut left = vec![
        owner.address(),
        hex::encode(app(0).public_key()),
        hex::encode(passkey.public_key(false)),
    ];
    left.sort();
    assert_eq!(members(&admission.after), left);
    let removed: Vec<_> = admission.changes.removed.iter().collect();
    assert_eq!(removed.len(), 1);
    assert_eq!(removed[0].kind, IdentifierKind::Ethereum);
    assert_eq!(removed[0].key, second.address());
    assert!(admission.changes.added.is_empty());
}

/// Case 96: revoking a stranger succeeds, removes nobody, and uses the signature up.
#[test]
fn revoking_a_stranger_removes_nobody() {
    let (mut history, id) = inbox();
    let revoke = UpdateBuilder::new(&id)
        .revoke(&wallet(0), wallet(9).member())
        .build();
    assert_eq!(accept(&mut history, revoke.clone()).len(), 2);
    refuse(&history, &revoke, IdentityError::Replay);
}

/// Cases 97 and 98: a recovery identifier that revokes itself still recovers.
#[test]
fn a_recovery_identifier_need_not_be_a_member() {
    let (mut history, id) = inbox();
    let owner = wallet(0);
    let leave = UpdateBuilder::new(&id)
        .revoke(&owner, owner.member())
        .build();
    let admission = admit(&history, &leave).unwrap();
    assert_eq!(members(&admission.after), Vec::<String>::new());
    assert_eq!(
        *admission.after.recovery(),
        Identifier::Ethereum(owner.address())
    );
    assert_eq!(admission.changes.removed.len(), 1);
    history.push(leave);
    let add = UpdateBuilder::new(&id).at(5).add(&owner, &app(1)).build();
    let admission = admit(&history, &add).unwrap();
    let (_, member) = admission.after.members().next().unwrap();
    assert_eq!(member.added_by.as_ref().unwrap().text(), owner.address());
    assert_eq!(admission.changes, Default::default());
    history.push(add);
    // Revoking the stranger that it now is takes its installations along all the same.
    let revoke = UpdateBuilder::new(&id)
        .at(6)
        .revoke(&owner, owner.member())
        .build();
    assert_eq!(accept(&mut history, revoke), Vec::<String>::new());
}

/// Cases 100 and 101: the successor recovers, if it can sign at all.
#[test]
fn recovery_passes_to_the_successor() {
    let (owner, second) = (wallet(0), wallet(1));
    let (history, id) = inbox();
    let revoke = |by: &dyn Signer| UpdateBuilder::new(&id).revoke(by, app(0).member()).build();
    let mut passed = history.clone();
    accept(
        &mut passed,
        UpdateBuilder::new(&id)
            .change_recovery(&owner, &second.address())
            .build(),
    );
    refuse(
        &passed,
        &revoke(&owner),
        IdentityError::MissingExistingMember,
    );
    assert_eq!(accept(&mut passed, revoke(&second)), [owner.address()]);

    let mut lost = history;
    let upper = second.address().to_uppercase();
    accept(
        &mut lost,
        UpdateBuilder::new(&id)
            .change_recovery(&owner, &upper)
            .build(),
    );
    refuse(
        &lost,
        &revoke(&second),
        IdentityError::MissingExistingMember,
    );
    refuse(&lost, &revoke(&owner), IdentityError::MissingExistingMember);
    // Members still add.
    accept(
        &mut lost,
        UpdateBuilder::new(&id).add(&owner, &second).build(),
    );
}
