//! Which envelopes are already stored.

use sqlx::PgConnection;
use tracing::{Instrument as _, info_span};

use super::records::index_of;
use super::{EnvelopeKey, Error, PublishSession, PublishTransaction, StoredMeta};

struct Row {
    index: i64,
    sequence_id: i64,
    server_ns: i64,
    expiry_ns: Option<i64>,
    is_commit_or_proposal: bool,
}

impl From<&Row> for StoredMeta {
    fn from(row: &Row) -> Self {
        Self::from_columns(
            row.sequence_id,
            row.server_ns,
            row.expiry_ns,
            row.is_commit_or_proposal,
        )
    }
}

impl PublishSession {
    /// Reads what is stored under these keys, without locks: a first look (ARC-036).
    ///
    /// Answers one entry per key, at the same index.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn find_duplicates(
        &mut self,
        keys: &[EnvelopeKey<'_>],
    ) -> Result<Vec<Option<StoredMeta>>, Error> {
        find(self.connection(), keys).await
    }
}

impl PublishTransaction {
    /// Reads what is stored under these keys now that their topics are locked: the last word.
    ///
    /// Answers one entry per key, at the same index.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn find_duplicates(
        &mut self,
        keys: &[EnvelopeKey<'_>],
    ) -> Result<Vec<Option<StoredMeta>>, Error> {
        find(self.connection(), keys).await
    }
}

async fn find(
    connection: &mut PgConnection,
    keys: &[EnvelopeKey<'_>],
) -> Result<Vec<Option<StoredMeta>>, Error> {
    let topics: Vec<&[u8]> = keys.iter().map(|key| key.topic).collect();
    let hashes: Vec<&[u8]> = keys.iter().map(|key| key.hash.as_slice()).collect();
    let rows = sqlx::query_as!(
        Row,
        r#"
        SELECT wanted.index AS "index!", e.sequence_id, e.server_ns, e.expiry_ns,
               e.is_commit_or_proposal
          FROM unnest($1::bytea[], $2::bytea[]) WITH ORDINALITY AS wanted (topic, hash, index)
          JOIN envelopes e ON e.topic = wanted.topic AND e.message_hash = wanted.hash
        "#,
        &topics as &[&[u8]],
        &hashes as &[&[u8]],
    )
    .fetch_all(connection)
    .instrument(info_span!("db.find_duplicates", candidates = keys.len()))
    .await?;

    let mut found = vec![None; keys.len()];
    for row in &rows {
        found[index_of(row.index)] = Some(row.into());
    }
    Ok(found)
}
