//! Who may change an inbox, and how (XIP-46).
//!
//! Each rule stands where existing validators have it. Two that look like oversights are kept on
//! purpose: adding a present member overwrites its record, and a recovery identifier that is not a
//! member is bound to no chain (ARC-013, ARC-092).

use bytes::Bytes;

use super::convert::{Action, Update};
use super::ident::{Identifier, MemberIdentifier, inbox_id};
use super::signature::{SignatureKind, VerifiedSignature};
use super::state::{AssociationState, Member};
use crate::error::IdentityError;

type Verdict<T = ()> = Result<T, IdentityError>;

/// Applies all actions of an update, in order, to the state before it; none means no inbox yet.
///
/// # Errors
///
/// The [`IdentityError`] of the first action that fails. The whole update is refused with it.
pub(super) fn apply(
    state: Option<AssociationState>,
    update: Update<VerifiedSignature>,
) -> Verdict<AssociationState> {
    let mut state = state;
    // Collected now and noted at the end: within one update a signature may serve several actions.
    let mut replays = Vec::new();
    for action in update.actions {
        state = Some(apply_action(
            state,
            action,
            update.client_timestamp_ns,
            &mut replays,
        )?);
    }
    let mut state = state.ok_or(IdentityError::NotCreated)?;
    if state.inbox_id() != update.inbox_id {
        return Err(IdentityError::WrongInboxId);
    }
    for replay in replays {
        state.mark_seen(replay);
    }
    Ok(state)
}

fn apply_action(
    state: Option<AssociationState>,
    action: Action<VerifiedSignature>,
    client_timestamp_ns: u64,
    replays: &mut Vec<Bytes>,
) -> Verdict<AssociationState> {
    let existing = |state: Option<AssociationState>| state.ok_or(IdentityError::NotCreated);
    match action {
        Action::CreateInbox {
            initial,
            nonce,
            signature,
        } => {
            if state.is_some() {
                return Err(IdentityError::MultipleCreate);
            }
            let state = create(initial, nonce, &signature)?;
            replays.push(signature.replay);
            Ok(state)
        }
        Action::AddAssociation {
            member,
            by_new,
            by_existing,
        } => {
            let mut state = existing(state)?;
            add(
                &mut state,
                member,
                &by_new,
                &by_existing,
                client_timestamp_ns,
            )?;
            replays.extend([by_existing.replay, by_new.replay]);
            Ok(state)
        }
        Action::RevokeAssociation {
            member,
            by_recovery,
        } => {
            let mut state = existing(state)?;
            check_recovery(&state, &by_recovery)?;
            state.revoke(&member);
            replays.push(by_recovery.replay);
            Ok(state)
        }
        Action::ChangeRecovery {
            recovery,
            by_recovery,
        } => {
            let mut state = existing(state)?;
            check_recovery(&state, &by_recovery)?;
            state.set_recovery(recovery);
            replays.push(by_recovery.replay);
            Ok(state)
        }
    }
}

fn create(
    initial: Identifier,
    nonce: u64,
    signature: &VerifiedSignature,
) -> Verdict<AssociationState> {
    if signature.signer != initial {
        return Err(IdentityError::SignerMismatch);
    }
    check_kind(&signature.signer, signature.kind)?;
    if signature.kind == SignatureKind::LegacyDelegated && nonce != 0 {
        return Err(IdentityError::LegacyReuse);
    }
    let inbox_id = inbox_id(&initial, nonce)?;
    Ok(AssociationState::new(inbox_id, initial, signature.chain_id))
}

fn add(
    state: &mut AssociationState,
    member: MemberIdentifier,
    by_new: &VerifiedSignature,
    by_existing: &VerifiedSignature,
    client_timestamp_ns: u64,
) -> Verdict {
    check_replay(state, by_existing)?;
    check_replay(state, by_new)?;
    if by_new.signer != member {
        return Err(IdentityError::SignerMismatch);
    }
    if by_new.signer == by_existing.signer {
        return Err(IdentityError::SelfAdd);
    }
    check_legacy_add(state, by_new, by_existing)?;
    check_kind(&member, by_new.kind)?;
    check_chain(state, by_existing)?;
    let adder = adder(state, by_existing)?;
    check_kind(&adder, by_existing.kind)?;
    if adder.is_installation() && member.is_installation() {
        return Err(IdentityError::MemberPairNotAllowed);
    }
    state.insert(
        member,
        Member {
            added_by: Some(adder),
            client_timestamp_ns: Some(client_timestamp_ns),
            chain_id: by_new.chain_id,
        },
    );
    Ok(())
}

/// The member that adds another, or the recovery identifier, which may be no member. A legacy
/// signature never speaks for a recovery identifier that is no member.
fn adder(state: &AssociationState, by_existing: &VerifiedSignature) -> Verdict<MemberIdentifier> {
    let signer = &by_existing.signer;
    let may_recover =
        signer == state.recovery() && by_existing.kind != SignatureKind::LegacyDelegated;
    if state.member(signer).is_some() || may_recover {
        Ok(signer.clone())
    } else {
        Err(IdentityError::MissingExistingMember)
    }
}

/// Legacy signatures serve only inboxes that the existing signer created with nonce 0. Not asked
/// of installations, which create none.
fn check_legacy_add(
    state: &AssociationState,
    by_new: &VerifiedSignature,
    by_existing: &VerifiedSignature,
) -> Verdict {
    let is_legacy = [by_new, by_existing]
        .iter()
        .any(|signature| signature.kind == SignatureKind::LegacyDelegated);
    match by_existing.signer.identifier() {
        Some(identifier) if is_legacy => {
            if inbox_id(&identifier, 0)? == state.inbox_id() {
                Ok(())
            } else {
                Err(IdentityError::LegacyReuse)
            }
        }
        Some(_) | None => Ok(()),
    }
}

/// Revoking, and naming another recovery identifier, is up to the recovery identifier alone.
fn check_recovery(state: &AssociationState, signature: &VerifiedSignature) -> Verdict {
    check_replay(state, signature)?;
    check_chain(state, signature)?;
    if signature.kind == SignatureKind::LegacyDelegated {
        return Err(IdentityError::LegacyReuse);
    }
    if signature.signer != *state.recovery() {
        return Err(IdentityError::MissingExistingMember);
    }
    Ok(())
}

fn check_replay(state: &AssociationState, signature: &VerifiedSignature) -> Verdict {
    if state.has_seen(&signature.replay) {
        Err(IdentityError::Replay)
    } else {
        Ok(())
    }
}

/// A member signs on the chain on which it was added, or on none if it was added on none.
fn check_chain(state: &AssociationState, signature: &VerifiedSignature) -> Verdict {
    match state.member(&signature.signer) {
        Some(member) if member.chain_id != signature.chain_id => {
            Err(IdentityError::ChainIdMismatch)
        }
        Some(_) | None => Ok(()),
    }
}

/// Which kinds of signature a member of some kind can make.
fn check_kind(member: &MemberIdentifier, kind: SignatureKind) -> Verdict {
    let fits = match kind {
        SignatureKind::Erc191 | SignatureKind::Erc1271 | SignatureKind::LegacyDelegated => {
            matches!(member, MemberIdentifier::Ethereum(_))
        }
        SignatureKind::InstallationKey => member.is_installation(),
        SignatureKind::P256 => matches!(member, MemberIdentifier::Passkey(_)),
    };
    if fits {
        Ok(())
    } else {
        Err(IdentityError::SignatureKindNotAllowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(signer: MemberIdentifier, kind: SignatureKind, replay: u8) -> VerifiedSignature {
        VerifiedSignature {
            signer,
            kind,
            replay: Bytes::from(vec![replay]),
            chain_id: None,
        }
    }

    fn address(last: char) -> MemberIdentifier {
        MemberIdentifier::Ethereum(format!("0x{}{last}", "0".repeat(39)))
    }

    fn key(byte: u8) -> Bytes {
        Bytes::from(vec![byte; 32])
    }

    fn update(actions: Vec<Action<VerifiedSignature>>) -> Update<VerifiedSignature> {
        let owner = Identifier::Ethereum(address('1').text());
        Update {
            inbox_id: inbox_id(&owner, 0).unwrap(),
            client_timestamp_ns: 1,
            actions,
        }
    }

    fn create(kind: SignatureKind) -> Action<VerifiedSignature> {
        Action::CreateInbox {
            initial: Identifier::Ethereum(address('1').text()),
            nonce: 0,
            signature: signature(address('1'), kind, 1),
        }
    }

    /// Which kinds of signature each kind of member can make, all fifteen pairs. No signature that
    /// verifies has another signer today; the rules do not rely on it.
    #[test]
    fn members_sign_with_their_own_kinds_of_signature() {
        use SignatureKind::{Erc191, Erc1271, InstallationKey, LegacyDelegated, P256};
        let all = [Erc191, Erc1271, InstallationKey, LegacyDelegated, P256];
        let cases = [
            (address('1'), [true, true, false, true, false]),
            (
                MemberIdentifier::Installation(key(1)),
                [false, false, true, false, false],
            ),
            (
                MemberIdentifier::Passkey(key(1)),
                [false, false, false, false, true],
            ),
        ];
        for (member, expected) in cases {
            for (kind, expected) in all.into_iter().zip(expected) {
                assert_eq!(
                    check_kind(&member, kind).is_ok(),
                    expected,
                    "{member:?} {kind:?}"
                );
            }
        }
    }

    /// Every place that names a signer checks the kind of its signature.
    #[test]
    fn every_action_checks_the_kind_of_its_signatures() {
        let refused = Err(IdentityError::SignatureKindNotAllowed);
        let outcome = |actions| apply(None, update(actions)).map(|_| ());
        assert_eq!(outcome(vec![create(SignatureKind::Erc191)]), Ok(()));
        assert_eq!(outcome(vec![create(SignatureKind::P256)]), refused);
        let app = MemberIdentifier::Installation(key(1));
        let add = |by_existing, by_new| {
            vec![
                create(SignatureKind::Erc191),
                Action::AddAssociation {
                    member: app.clone(),
                    by_new: signature(app.clone(), by_new, 2),
                    by_existing: signature(address('1'), by_existing, 3),
                },
            ]
        };
        let (wallet, installation) = (SignatureKind::Erc191, SignatureKind::InstallationKey);
        assert_eq!(outcome(add(wallet, installation)), Ok(()));
        assert_eq!(outcome(add(wallet, wallet)), refused);
        assert_eq!(outcome(add(installation, installation)), refused);
    }
}
