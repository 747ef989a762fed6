//! From the wire form of an update to one in which everything that must be there is.
//!
//! All actions are converted before any signature is looked at, and the first failure refuses the
//! update. Addresses stay unchecked text, and an update without actions converts (ARC-013).

use bytes::Bytes;
use ed25519_dalek::VerifyingKey;

use super::ident::{Identifier, MemberIdentifier};
use crate::error::IdentityError;
use crate::scw::AccountId;
use crate::wire::xmtp::identity::associations as wire;
use crate::wire::xmtp::message_contents::SignedPublicKey;

/// An update whose signatures are in state `S`: as carried, verified where possible, or verified.
pub(super) struct Update<S> {
    pub(super) inbox_id: String,
    pub(super) client_timestamp_ns: u64,
    pub(super) actions: Vec<Action<S>>,
}

/// One change to an inbox.
pub(super) enum Action<S> {
    CreateInbox {
        initial: Identifier,
        nonce: u64,
        signature: S,
    },
    AddAssociation {
        member: MemberIdentifier,
        by_new: S,
        by_existing: S,
    },
    RevokeAssociation {
        member: MemberIdentifier,
        by_recovery: S,
    },
    ChangeRecovery {
        recovery: Identifier,
        by_recovery: S,
    },
}

/// A signature as an update carries it, complete but not verified.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Signature {
    Ecdsa(Bytes),
    Contract(ContractSignature),
    Installation {
        key: VerifyingKey,
        signature: Bytes,
    },
    Delegated {
        delegated_key: SignedPublicKey,
        signature: Bytes,
    },
    Passkey(wire::RecoverablePasskeySignature),
}

/// A signature that a smart-contract wallet has to judge.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct ContractSignature {
    pub(super) account: AccountId,
    pub(super) block_number: u64,
    pub(super) signature: Bytes,
}

/// Converts an update whose signatures must all be there.
pub(super) fn convert(update: wire::IdentityUpdate) -> Result<Update<Signature>, IdentityError> {
    convert_with(update, signature)
}

/// Converts an update and hands its signature fields, set or not, to `signature`.
pub(super) fn convert_with<S>(
    update: wire::IdentityUpdate,
    mut signature: impl FnMut(Option<wire::Signature>) -> Result<S, IdentityError>,
) -> Result<Update<S>, IdentityError> {
    let actions = update
        .actions
        .into_iter()
        .map(|action| convert_action(action, &mut signature))
        .collect::<Result<_, _>>()?;
    Ok(Update {
        inbox_id: update.inbox_id,
        client_timestamp_ns: update.client_timestamp_ns,
        actions,
    })
}

fn convert_action<S>(
    action: wire::IdentityAction,
    signature: &mut impl FnMut(Option<wire::Signature>) -> Result<S, IdentityError>,
) -> Result<Action<S>, IdentityError> {
    use wire::identity_action::Kind;
    Ok(match action.kind.ok_or(IdentityError::MissingField)? {
        Kind::CreateInbox(create) => Action::CreateInbox {
            initial: Identifier::from_text(
                create.initial_identifier,
                create.initial_identifier_kind,
            )?,
            nonce: create.nonce,
            signature: signature(create.initial_identifier_signature)?,
        },
        Kind::Add(add) => Action::AddAssociation {
            member: member(add.new_member_identifier)?,
            by_new: signature(add.new_member_signature)?,
            by_existing: signature(add.existing_member_signature)?,
        },
        Kind::Revoke(revoke) => Action::RevokeAssociation {
            member: member(revoke.member_to_revoke)?,
            by_recovery: signature(revoke.recovery_identifier_signature)?,
        },
        Kind::ChangeRecoveryAddress(change) => Action::ChangeRecovery {
            recovery: Identifier::from_text(
                change.new_recovery_identifier,
                change.new_recovery_identifier_kind,
            )?,
            by_recovery: signature(change.existing_recovery_identifier_signature)?,
        },
    })
}

fn member(member: Option<wire::MemberIdentifier>) -> Result<MemberIdentifier, IdentityError> {
    use wire::member_identifier::Kind;
    let kind = member.and_then(|member| member.kind);
    Ok(match kind.ok_or(IdentityError::MissingField)? {
        Kind::EthereumAddress(address) => MemberIdentifier::Ethereum(address),
        Kind::InstallationPublicKey(key) => MemberIdentifier::Installation(key),
        Kind::Passkey(passkey) => MemberIdentifier::Passkey(passkey.key),
    })
}

fn signature(signature: Option<wire::Signature>) -> Result<Signature, IdentityError> {
    use wire::signature::Signature as Kind;
    let kind = signature.and_then(|signature| signature.signature);
    Ok(match kind.ok_or(IdentityError::MissingField)? {
        Kind::Erc191(signature) => Signature::Ecdsa(signature.bytes),
        Kind::Erc6492(signature) => Signature::Contract(ContractSignature {
            account: AccountId::parse(&signature.account_id)
                .map_err(|_| IdentityError::BadAccountId)?,
            block_number: signature.block_number,
            signature: signature.signature,
        }),
        Kind::InstallationKey(signature) => Signature::Installation {
            key: VerifyingKey::try_from(signature.public_key.as_ref())
                .map_err(|_| IdentityError::BadInstallationKey)?,
            signature: signature.bytes,
        },
        Kind::DelegatedErc191(signature) => Signature::Delegated {
            delegated_key: signature.delegated_key.ok_or(IdentityError::MissingField)?,
            signature: signature
                .signature
                .ok_or(IdentityError::MissingField)?
                .bytes,
        },
        Kind::Passkey(signature) => Signature::Passkey(*signature),
    })
}

impl<S> Update<S> {
    /// Takes every signature to its next state, in the order in which failures are reported:
    /// action by action, and the new member before the existing one.
    pub(super) fn try_map<T, E>(
        self,
        mut next: impl FnMut(S) -> Result<T, E>,
    ) -> Result<Update<T>, E> {
        let actions = self
            .actions
            .into_iter()
            .map(|action| action.try_map(&mut next))
            .collect::<Result<_, _>>()?;
        Ok(Update {
            inbox_id: self.inbox_id,
            client_timestamp_ns: self.client_timestamp_ns,
            actions,
        })
    }
}

impl<S> Action<S> {
    fn try_map<T, E>(self, next: &mut impl FnMut(S) -> Result<T, E>) -> Result<Action<T>, E> {
        Ok(match self {
            Self::CreateInbox {
                initial,
                nonce,
                signature,
            } => Action::CreateInbox {
                initial,
                nonce,
                signature: next(signature)?,
            },
            Self::AddAssociation {
                member,
                by_new,
                by_existing,
            } => Action::AddAssociation {
                member,
                by_new: next(by_new)?,
                by_existing: next(by_existing)?,
            },
            Self::RevokeAssociation {
                member,
                by_recovery,
            } => Action::RevokeAssociation {
                member,
                by_recovery: next(by_recovery)?,
            },
            Self::ChangeRecovery {
                recovery,
                by_recovery,
            } => Action::ChangeRecovery {
                recovery,
                by_recovery: next(by_recovery)?,
            },
        })
    }
}
