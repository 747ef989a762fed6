//! Who follows which topic: one registry for all sessions of a generation (ARC-070, ARC-072).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use envelope::Topic;
use smallvec::SmallVec;

use super::frame::Delivery;
use super::inbox::{Inbox, Registration};

/// Topics that are registered under one hold of the lock, so that a large Update does not make the
/// tailer wait.
const CHUNK: usize = 1024;

#[derive(Debug)]
struct Follower {
    inbox: Arc<Inbox>,
    registration: Registration,
}

/// Most topics of a large stream have one follower, which then needs no allocation of its own.
type Followers = SmallVec<[Follower; 1]>;

/// The registry of one generation.
#[derive(Debug, Default)]
pub(super) struct Registry {
    topics: Mutex<HashMap<Topic, Followers>>,
}

impl Registry {
    /// Adds a session to the followers of these topics. From here on every row is noticed.
    pub(super) fn register(&self, inbox: &Arc<Inbox>, added: &[(Topic, Registration)]) {
        for chunk in added.chunks(CHUNK) {
            let mut topics = self.lock();
            for (topic, registration) in chunk {
                topics.entry(*topic).or_default().push(Follower {
                    inbox: Arc::clone(inbox),
                    registration: *registration,
                });
            }
        }
    }

    /// Takes a session from the followers of these topics.
    pub(super) fn deregister(&self, inbox: &Arc<Inbox>, removed: &[(Topic, Registration)]) {
        for chunk in removed.chunks(CHUNK) {
            let mut topics = self.lock();
            for (topic, registration) in chunk {
                let Some(followers) = topics.get_mut(topic) else {
                    continue;
                };
                let found = followers.iter().position(|follower| {
                    follower.registration == *registration && Arc::ptr_eq(&follower.inbox, inbox)
                });
                if let Some(found) = found {
                    followers.swap_remove(found);
                }
                if followers.is_empty() {
                    topics.remove(topic);
                }
            }
        }
    }

    /// Which of these topics somebody follows, each at the index of its topic.
    pub(super) fn followed(&self, topics: &[Option<Topic>]) -> Vec<bool> {
        let followed = self.lock();
        topics
            .iter()
            .map(|topic| topic.is_some_and(|topic| followed.contains_key(&topic)))
            .collect()
    }

    /// Leaves each row with everybody who follows its topic, and then wakes them, once each
    /// (ARC-073). Rows ascend per topic.
    pub(super) fn dispatch(&self, rows: &[(Topic, Arc<Delivery>)]) {
        let mut filled: HashMap<*const Inbox, Arc<Inbox>> = HashMap::new();
        {
            let topics = self.lock();
            for (topic, delivery) in rows {
                for follower in topics.get(topic).into_iter().flatten() {
                    follower.inbox.put(follower.registration, delivery);
                    filled
                        .entry(Arc::as_ptr(&follower.inbox))
                        .or_insert_with(|| Arc::clone(&follower.inbox));
                }
            }
        }
        for inbox in filled.values() {
            inbox.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Topic, Followers>> {
        // A panic under this lock can only come from memory running out.
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
