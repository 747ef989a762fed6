//! Storage: one function per operation on PostgreSQL, and the locks that order publishes.
//!
//! This room sees internal records, opaque payload bytes and its own errors. It must never see a
//! wire message, a gRPC status or an HTTP type (ARC-010). All SQL of the server is here.

mod advance_boundary;
mod associations;
mod clock;
mod commit_publish;
mod envelope_row;
mod error;
mod find_duplicates;
mod heads;
mod history;
mod inbox_ids;
mod locks;
mod migrate;
mod newest;
mod pools;
mod publish_transaction;
mod query;
mod records;
mod replica;
mod subscribe;
mod tail;

pub use advance_boundary::Advance;
pub use envelope_row::StoredEnvelope;
pub use error::{Error, ErrorKind, Invariant, SqlState};
pub use inbox_ids::{InboxId, Lookup};
pub use locks::{GlobalLock, LOCK_CLASS, topic_key};
pub use migrate::{MIN_SERVER_VERSION, MigrateError};
pub use newest::{Newest, NewestMetadata};
pub use pools::{Database, Observer, Operation, Pools, Settings};
pub use publish_transaction::{PublishSession, PublishTransaction};
pub use query::{Page, PageRow, TopicCursor};
pub use records::{
    Association, AssociationChange, EnvelopeKey, HistoryEntry, NewEnvelope, SequenceId, StoredMeta,
};
pub use replica::ReplicaState;
pub use subscribe::{Candidate, Heads, Turn, TurnLimits};
pub use tail::{LogPage, LogRow, ServerIdentity, Tail, VisibleBoundary};
