//! Stored envelopes by id, for readers that know the topic already.

use bytes::Bytes;
use sqlx::PgConnection;

use super::{Error, SequenceId, StoredMeta};

/// A stored envelope without its topic.
#[derive(Clone, Debug)]
pub struct StoredEnvelope {
    /// SHA-256 of the payload.
    pub hash: [u8; 32],
    /// The rest of its metadata.
    pub meta: StoredMeta,
    /// The canonical encoding. Clones share it.
    pub payload: Bytes,
}

/// Loads these envelopes in the order of `ids`. Ids of which there is no row are left out.
pub(super) async fn load_envelopes(
    connection: &mut PgConnection,
    ids: &[SequenceId],
) -> Result<Vec<StoredEnvelope>, Error> {
    let ids: Vec<i64> = ids.iter().map(|id| id.to_column()).collect();
    let rows = sqlx::query!(
        r#"
        SELECT e.sequence_id, e.server_ns, e.expiry_ns, e.is_commit_or_proposal,
               e.message_hash AS "message_hash: [u8; 32]", e.payload
          FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (id, index)
          JOIN envelopes e ON e.sequence_id = wanted.id
         ORDER BY wanted.index
        "#,
        &ids,
    )
    .fetch_all(connection)
    .await?;
    let envelopes = rows.into_iter().map(|row| StoredEnvelope {
        hash: row.message_hash,
        meta: StoredMeta::from_columns(
            row.sequence_id,
            row.server_ns,
            row.expiry_ns,
            row.is_commit_or_proposal,
        ),
        payload: row.payload.into(),
    });
    Ok(envelopes.collect())
}
