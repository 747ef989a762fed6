//! What an Update or the request for a static stream must be (API-102 to API-110).

use std::collections::HashSet;

use envelope::Topic;

use super::end::Invalid;
use super::frame::{Add, Update};
use super::interests::Interests;
use crate::config::Limits;
use crate::db::SequenceId;

/// An Update whose every part holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    /// Topics that are not registered yet, in the order of the Update, and where each starts.
    pub(super) adds: Vec<(Topic, SequenceId)>,
    /// Topics that are registered.
    pub(super) removes: Vec<Topic>,
}

/// Checks an Update against the stream as it is. Nothing has changed when this fails.
pub(super) fn check_update(
    update: &Update,
    last_id: u64,
    interests: &Interests,
    limits: &Limits,
) -> Result<Change, Invalid> {
    if update.id <= last_id {
        return Err(Invalid::UpdateId);
    }
    let (max_adds, max_removes) = (limits.max_update_adds, limits.max_update_removes);
    if exceeds(update.adds.len(), max_adds) {
        return Err(Invalid::TooManyAdds { max: max_adds });
    }
    if exceeds(update.removes.len(), max_removes) {
        return Err(Invalid::TooManyRemoves { max: max_removes });
    }
    let mut seen = HashSet::with_capacity(update.adds.len() + update.removes.len());
    let mut adds = check_adds(&update.adds, &mut seen)?;
    adds.retain(|(topic, _)| !interests.contains(topic));
    let mut removes = Vec::new();
    for topic in &update.removes {
        let topic = Topic::parse(topic).map_err(|_| Invalid::Topic)?;
        if !seen.insert(topic) {
            return Err(Invalid::RepeatedTopic);
        }
        if interests.contains(&topic) {
            removes.push(topic);
        }
    }
    let max = limits.max_stream_topics;
    if exceeds(interests.len() - removes.len() + adds.len(), max) {
        return Err(Invalid::TooManyTopics { max });
    }
    Ok(Change { adds, removes })
}

/// Checks the topics of a static stream.
pub(super) fn check_static(
    topics: &[Add],
    limits: &Limits,
) -> Result<Vec<(Topic, SequenceId)>, Invalid> {
    let max = limits.max_static_topics;
    if topics.is_empty() {
        return Err(Invalid::NoTopics);
    }
    if exceeds(topics.len(), max) {
        return Err(Invalid::TooManyTopics { max });
    }
    check_adds(topics, &mut HashSet::with_capacity(topics.len()))
}

fn check_adds(
    adds: &[Add],
    seen: &mut HashSet<Topic>,
) -> Result<Vec<(Topic, SequenceId)>, Invalid> {
    let mut checked = Vec::with_capacity(adds.len());
    for add in adds {
        let topic = Topic::parse(&add.topic).map_err(|_| Invalid::Topic)?;
        let after = SequenceId::from_wire(add.after).ok_or(Invalid::Cursor)?;
        if !seen.insert(topic) {
            return Err(Invalid::RepeatedTopic);
        }
        checked.push((topic, after));
    }
    Ok(checked)
}

fn exceeds(number: usize, max: u32) -> bool {
    u32::try_from(number).map_or(true, |number| number > max)
}

#[cfg(test)]
mod tests;
