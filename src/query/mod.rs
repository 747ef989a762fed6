//! Reads of stored envelopes and of the identifier projection: their rules and limits.
//!
//! Requests come in as plain values and answers go out as records; messages and statuses belong to
//! the API room. Every check happens before the database is asked.

mod error;
mod inbox_ids;
mod newest;
mod pages;

pub use error::Error;
pub use inbox_ids::LookupRequest;
pub use newest::{NewestAnswer, NewestEnvelope};
pub use pages::{PageAnswer, Position};

use crate::config::Limits;
use crate::db::Database;

/// Answers reads.
#[derive(Clone, Debug)]
pub struct Queries {
    database: Database,
    limits: Limits,
}

impl Queries {
    /// Reads from this database, within these limits.
    #[must_use]
    pub fn new(database: Database, limits: Limits) -> Self {
        Self { database, limits }
    }
}
