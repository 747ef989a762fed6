//! What one update changes in the projection from identifiers to inboxes.
//!
//! Only Ethereum and passkey members are projected, under their lookup keys; a recovery identifier
//! that is not a member is not.

use std::fmt;

use super::ident::{IdentifierKind, MemberIdentifier};
use super::state::AssociationState;

/// An identifier as it is projected. `Debug` shows its kind only (ARC-101).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProjectedIdentifier {
    /// What kind of identifier it is.
    pub kind: IdentifierKind,
    /// Its lookup key, see [`normalize`](super::normalize).
    pub key: String,
}

/// What an update adds to an inbox and what it removes from it, each without repeats.
///
/// A member that one update removes and adds again is in neither list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectionChanges {
    /// Members after the update that were none before.
    pub added: Vec<ProjectedIdentifier>,
    /// Members before the update that are none after it.
    pub removed: Vec<ProjectedIdentifier>,
}

impl ProjectionChanges {
    /// The changes from one state of an inbox to the next; none before means it did not exist.
    #[must_use]
    pub fn between(before: Option<&AssociationState>, after: &AssociationState) -> Self {
        let absent_from = |state: Option<&AssociationState>, member: &MemberIdentifier| {
            state.is_none_or(|state| state.member(member).is_none())
        };
        Self {
            added: after
                .members()
                .filter(|(member, _)| absent_from(before, member))
                .filter_map(|(member, _)| projected(member))
                .collect(),
            removed: before
                .into_iter()
                .flat_map(AssociationState::members)
                .filter(|(member, _)| absent_from(Some(after), member))
                .filter_map(|(member, _)| projected(member))
                .collect(),
        }
    }
}

impl fmt::Debug for ProjectedIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProjectedIdentifier")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

fn projected(member: &MemberIdentifier) -> Option<ProjectedIdentifier> {
    match member {
        MemberIdentifier::Ethereum(address) => Some(ProjectedIdentifier {
            kind: IdentifierKind::Ethereum,
            key: address.to_ascii_lowercase(),
        }),
        MemberIdentifier::Passkey(key) => Some(ProjectedIdentifier {
            kind: IdentifierKind::Passkey,
            key: hex::encode(key),
        }),
        MemberIdentifier::Installation(_) => None,
    }
}
