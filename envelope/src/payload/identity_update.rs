//! Identity updates, as far as no history is needed: the inbox's topic and a count of the signatures
//! that cost a chain call each.
//!
//! An update with unset actions or missing signatures is well formed; it fails in validation
//! (see [`crate::identity`]).

use crate::error::Malformed;
use crate::topic::{KEY_BYTES, Topic, TopicKind};
use crate::wire::xmtp::identity::associations::identity_action::Kind;
use crate::wire::xmtp::identity::associations::signature::Signature as SignatureKind;
use crate::wire::xmtp::identity::associations::{IdentityAction, IdentityUpdate, Signature};

/// The topic of the inbox that an update names.
///
/// Upper-case digits name the same topic; such an update fails later, because its text is not that
/// of the derived inbox id.
///
/// # Errors
///
/// [`Malformed::InboxId`] unless `inbox_id` is exactly 64 hexadecimal digits.
pub fn topic(update: &IdentityUpdate) -> Result<Topic, Malformed> {
    let mut inbox_id = [0; KEY_BYTES];
    hex::decode_to_slice(&update.inbox_id, &mut inbox_id).map_err(|_| Malformed::InboxId)?;
    Topic::new(TopicKind::IdentityUpdate, &inbox_id).map_err(|_| Malformed::InboxId)
}

/// How many of an update's signatures a smart-contract wallet has to judge, repeats counted.
#[must_use]
pub fn contract_signatures(update: &IdentityUpdate) -> usize {
    update
        .actions
        .iter()
        .flat_map(signatures)
        .flatten()
        .filter(|signature| matches!(signature.signature, Some(SignatureKind::Erc6492(_))))
        .count()
}

/// The one or two signature fields of an action.
fn signatures(action: &IdentityAction) -> [Option<&Signature>; 2] {
    match &action.kind {
        None => [None, None],
        Some(Kind::CreateInbox(create)) => [create.initial_identifier_signature.as_ref(), None],
        Some(Kind::Add(add)) => [
            add.new_member_signature.as_ref(),
            add.existing_member_signature.as_ref(),
        ],
        Some(Kind::Revoke(revoke)) => [revoke.recovery_identifier_signature.as_ref(), None],
        Some(Kind::ChangeRecoveryAddress(change)) => {
            [change.existing_recovery_identifier_signature.as_ref(), None]
        }
    }
}
