//! What an inbox is after its updates: members, recovery identifier, and signatures already used.
//!
//! The state only stores; which action may change it how is decided by the association rules.
//! `Debug` prints counts only (ARC-101).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bytes::Bytes;

use super::ident::{Identifier, MemberIdentifier};

/// A member of an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Who added it; none for the identifier that created the inbox.
    pub added_by: Option<MemberIdentifier>,
    /// The time that the adding update claims, in nanoseconds; none for the creator. Unchecked.
    pub client_timestamp_ns: Option<u64>,
    /// The chain of a smart-contract wallet; none for every other member.
    pub chain_id: Option<u64>,
}

/// The associations of one inbox.
#[derive(Clone, PartialEq, Eq)]
pub struct AssociationState {
    inbox_id: String,
    members: BTreeMap<MemberIdentifier, Member>,
    recovery: Identifier,
    seen: BTreeSet<Bytes>,
    /// The installations among the members by who added them, so that a revocation need not search.
    installations: BTreeMap<MemberIdentifier, BTreeSet<MemberIdentifier>>,
}

impl AssociationState {
    /// An inbox that was just created: the creator is the only member and the recovery identifier.
    pub(super) fn new(inbox_id: String, creator: Identifier, chain_id: Option<u64>) -> Self {
        let member = Member {
            added_by: None,
            client_timestamp_ns: None,
            chain_id,
        };
        Self {
            inbox_id,
            members: BTreeMap::from([(creator.clone().into(), member)]),
            recovery: creator,
            seen: BTreeSet::new(),
            installations: BTreeMap::new(),
        }
    }

    /// The id of the inbox, 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn inbox_id(&self) -> &str {
        &self.inbox_id
    }

    /// The identifier that alone may revoke members and name its successor. Need not be a member.
    #[must_use]
    pub fn recovery(&self) -> &Identifier {
        &self.recovery
    }

    /// All members, in a fixed order.
    pub fn members(&self) -> impl ExactSizeIterator<Item = (&MemberIdentifier, &Member)> {
        self.members.iter()
    }

    /// A member, if it is one.
    #[must_use]
    pub fn member(&self, identifier: &MemberIdentifier) -> Option<&Member> {
        self.members.get(identifier)
    }

    /// How many signatures can never be used again for this inbox.
    #[must_use]
    pub fn seen_signatures(&self) -> usize {
        self.seen.len()
    }

    /// Whether an earlier update used a signature of these replay bytes.
    pub(super) fn has_seen(&self, replay: &Bytes) -> bool {
        self.seen.contains(replay)
    }

    /// Notes that a signature was used.
    pub(super) fn mark_seen(&mut self, replay: Bytes) {
        self.seen.insert(replay);
    }

    /// Replaces the recovery identifier, whatever it is.
    pub(super) fn set_recovery(&mut self, recovery: Identifier) {
        self.recovery = recovery;
    }

    /// Adds a member, or overwrites its record.
    pub(super) fn insert(&mut self, identifier: MemberIdentifier, member: Member) {
        self.remove(&identifier);
        if identifier.is_installation()
            && let Some(adder) = &member.added_by
        {
            self.installations
                .entry(adder.clone())
                .or_default()
                .insert(identifier.clone());
        }
        self.members.insert(identifier, member);
    }

    /// Removes a member, if it is one, and every installation that it added.
    pub(super) fn revoke(&mut self, identifier: &MemberIdentifier) {
        let installations = self.installations.remove(identifier).unwrap_or_default();
        self.remove(identifier);
        for installation in installations {
            self.members.remove(&installation);
        }
    }

    fn remove(&mut self, identifier: &MemberIdentifier) {
        let Some(member) = self.members.remove(identifier) else {
            return;
        };
        let Some(adder) = member.added_by else {
            return;
        };
        if let Some(installations) = self.installations.get_mut(&adder) {
            installations.remove(identifier);
            if installations.is_empty() {
                self.installations.remove(&adder);
            }
        }
    }
}

impl fmt::Debug for AssociationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AssociationState")
            .field("members", &self.members.len())
            .field("recovery", &self.recovery)
            .field("seen_signatures", &self.seen.len())
            .finish_non_exhaustive()
    }
}
