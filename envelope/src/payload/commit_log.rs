//! Commit-log entries: the group that one speaks of.
//!
//! The signature beside the entry is stored and returned, and never verified (ARC-092).

use prost::Message;

use crate::error::Malformed;
use crate::topic::{Topic, TopicKind};
use crate::wire::xmtp::mls::message_contents::PlaintextCommitLogEntry;

/// The topic of the group that a serialized entry names.
///
/// # Errors
///
/// [`Malformed::CommitLogEntry`] when the bytes are no entry, [`Malformed::GroupId`] when its group id
/// is not 16 bytes.
pub fn topic(serialized_entry: &[u8]) -> Result<Topic, Malformed> {
    let entry =
        PlaintextCommitLogEntry::decode(serialized_entry).map_err(|_| Malformed::CommitLogEntry)?;
    Topic::new(TopicKind::CommitLogEntry, &entry.group_id).map_err(|_| Malformed::GroupId)
}
