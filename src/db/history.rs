//! The complete identity history of one inbox.

use tracing::{Instrument as _, Span, field, info_span};

use super::{Database, Error, HistoryEntry, Operation, SequenceId};

impl Database {
    /// The bytes of every envelope on an identity topic together: what [`history`](Self::history) would
    /// load. Lengths are read without the payloads.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn history_bytes(&self, topic: &[u8]) -> Result<u64, Error> {
        let bytes = sqlx::query_scalar!(
            r#"
            SELECT coalesce(sum(octet_length(payload)), 0) AS "bytes!"
              FROM envelopes
             WHERE topic = $1
            "#,
            topic,
        )
        .fetch_one(self.pools().route(Operation::Publish))
        .instrument(info_span!("db.history_bytes"))
        .await?;
        Ok(bytes.unsigned_abs())
    }

    /// Every envelope on an identity topic, ascending, from one snapshot of the primary (ARC-064).
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn history(&self, topic: &[u8]) -> Result<Vec<HistoryEntry>, Error> {
        async {
            let entries: Vec<HistoryEntry> = sqlx::query!(
                "SELECT sequence_id, payload FROM envelopes WHERE topic = $1 ORDER BY sequence_id",
                topic,
            )
            .map(|row| HistoryEntry {
                sequence_id: SequenceId::from_column(row.sequence_id),
                payload: row.payload,
            })
            .fetch_all(self.pools().route(Operation::Publish))
            .await?;
            Span::current().record("entries", entries.len());
            Ok(entries)
        }
        .instrument(info_span!("db.history", entries = field::Empty))
        .await
    }
}
