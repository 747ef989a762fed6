//! The topics of one session: how far each was delivered, how far it is known to reach, and whose
//! turn it is (ARC-074 to ARC-078, ARC-086, ARC-088).
//!
//! Pure state. It decides what may be delivered; the session delivers it and says so.

use std::collections::{HashMap, VecDeque};

use envelope::Topic;

use super::inbox::Registration;
use crate::db::SequenceId;

/// Where a registration stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its `Applied` is not queued yet: nothing of it may be delivered.
    Pending,
    /// Waits for its turn in the ready queue.
    Ready,
    /// Part of the turn that is being fetched or delivered.
    Served,
    /// Nothing is known to be missing: live rows are delivered as they come.
    Current,
}

#[derive(Debug)]
struct Interest {
    topic: Topic,
    /// Everything up to here was delivered or is not wanted (ARC-075).
    floor: SequenceId,
    /// The greatest id known to exist (ARC-078).
    needed: SequenceId,
    /// The client's catch-up target; never changes (ARC-074).
    target: SequenceId,
    phase: Phase,
}

/// A topic's part of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TurnTopic {
    /// Which registration.
    pub(super) registration: Registration,
    /// Its topic.
    pub(super) topic: Topic,
    /// Where to go on.
    pub(super) after: SequenceId,
    /// An id that must be found, or a greater one.
    pub(super) needed: SequenceId,
}

/// What to do with a live row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Live {
    /// Deliver it now, or say [`Interests::fall_behind`].
    Deliver,
    /// It is remembered: history will bring it.
    Remembered,
    /// It is not wanted.
    Dropped,
}

/// All registrations of one session.
#[derive(Debug, Default)]
pub(super) struct Interests {
    by_topic: HashMap<Topic, Registration>,
    interests: HashMap<Registration, Interest>,
    /// Registrations whose turn has not come; each at most once, removed ones may linger.
    ready: VecDeque<Registration>,
    last: u64,
}

impl Interests {
    /// Number of registered topics.
    pub(super) fn len(&self) -> usize {
        self.by_topic.len()
    }

    /// Whether this topic is registered.
    pub(super) fn contains(&self, topic: &Topic) -> bool {
        self.by_topic.contains_key(topic)
    }

    /// Registers a topic that is not registered, to be activated later.
    pub(super) fn add(&mut self, topic: Topic, after: SequenceId) -> Registration {
        self.last += 1;
        let registration = Registration(self.last);
        self.by_topic.insert(topic, registration);
        let interest = Interest {
            topic,
            floor: after,
            needed: SequenceId::START,
            target: SequenceId::START,
            phase: Phase::Pending,
        };
        self.interests.insert(registration, interest);
        registration
    }

    /// Forgets a topic. What was fetched for it is void from here on.
    pub(super) fn remove(&mut self, topic: &Topic) -> Option<Registration> {
        let registration = self.by_topic.remove(topic)?;
        self.interests.remove(&registration);
        // Removed registrations linger in the queue; they must not outnumber the others.
        if self.ready.len() > 2 * self.interests.len() + 64 {
            self.ready
                .retain(|registration| self.interests.contains_key(registration));
        }
        Some(registration)
    }

    /// Every registration with its topic.
    pub(super) fn all(&self) -> Vec<(Topic, Registration)> {
        self.by_topic
            .iter()
            .map(|(topic, registration)| (*topic, *registration))
            .collect()
    }

    /// Begins delivery of a registration whose head was read and whose `Applied` is queued (ARC-076).
    pub(super) fn activate(&mut self, registration: Registration, head: SequenceId) {
        let Some(interest) = self.interests.get_mut(&registration) else {
            return;
        };
        interest.target = head;
        // Rows may have been noticed since the registration.
        interest.needed = interest.needed.max(head);
        self.settle(registration);
    }

    /// Decides about a live row.
    pub(super) fn live(&mut self, registration: Registration, id: SequenceId) -> Live {
        let Some(interest) = self.interests.get_mut(&registration) else {
            return Live::Dropped;
        };
        if id <= interest.floor {
            return Live::Dropped;
        }
        match interest.phase {
            Phase::Current => Live::Deliver,
            Phase::Pending | Phase::Ready | Phase::Served => {
                interest.needed = interest.needed.max(id);
                Live::Remembered
            }
        }
    }

    /// Remembers that a row up to this id exists and was not delivered: history will bring it.
    pub(super) fn fall_behind(&mut self, registration: Registration, id: SequenceId) {
        let Some(interest) = self.interests.get_mut(&registration) else {
            return;
        };
        interest.needed = interest.needed.max(id);
        if interest.phase == Phase::Current {
            self.settle(registration);
        }
    }

    /// Whether this registration still wants the row: it is not removed, and the row is new.
    pub(super) fn wants(&self, registration: Registration, id: SequenceId) -> bool {
        self.interests
            .get(&registration)
            .is_some_and(|interest| id > interest.floor)
    }

    /// Raises the floor to a row that was queued. Tells whether it belongs to the history that the
    /// client was promised, rather than having come later.
    pub(super) fn delivered(&mut self, registration: Registration, id: SequenceId) -> bool {
        let Some(interest) = self.interests.get_mut(&registration) else {
            return false;
        };
        interest.floor = id;
        id <= interest.target
    }

    /// Takes the next registrations from the ready queue for a turn.
    pub(super) fn next_turn(&mut self, max_topics: usize) -> Vec<TurnTopic> {
        let mut turn = Vec::new();
        while turn.len() < max_topics {
            let Some(registration) = self.ready.pop_front() else {
                break;
            };
            let Some(interest) = self.interests.get_mut(&registration) else {
                continue;
            };
            interest.phase = Phase::Served;
            turn.push(TurnTopic {
                registration,
                topic: interest.topic,
                after: interest.floor,
                needed: interest.needed,
            });
        }
        turn
    }

    /// Puts registrations that the turn did not reach back to the front, in their order (ARC-087).
    pub(super) fn not_reached(&mut self, registrations: &[Registration]) {
        for registration in registrations.iter().rev() {
            if let Some(interest) = self.interests.get_mut(registration) {
                interest.phase = Phase::Ready;
                self.ready.push_front(*registration);
            }
        }
    }

    /// Ends a registration's part of a turn, once its rows are queued: it joins the back of the ready
    /// queue or is current (ARC-088).
    pub(super) fn served(&mut self, registration: Registration) {
        self.settle(registration);
    }

    fn settle(&mut self, registration: Registration) {
        let Some(interest) = self.interests.get_mut(&registration) else {
            return;
        };
        if interest.floor < interest.needed {
            interest.phase = Phase::Ready;
            self.ready.push_back(registration);
        } else {
            interest.phase = Phase::Current;
        }
    }
}

#[cfg(test)]
mod tests;
