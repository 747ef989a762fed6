//! The newest id of topics, under their locks.

use super::records::index_of;
use super::{Error, PublishTransaction, SequenceId};

struct Row {
    index: i64,
    last_sequence_id: i64,
}

impl PublishTransaction {
    /// The newest id of each topic, [`SequenceId::START`] for an empty one, at the same index.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn heads(&mut self, topics: &[&[u8]]) -> Result<Vec<SequenceId>, Error> {
        let rows = sqlx::query_as!(
            Row,
            r#"
            SELECT wanted.index AS "index!", w.last_sequence_id
              FROM unnest($1::bytea[]) WITH ORDINALITY AS wanted (topic, index)
              JOIN topic_watermark w ON w.topic = wanted.topic
            "#,
            topics as &[&[u8]],
        )
        .fetch_all(self.connection())
        .await?;

        let mut heads = vec![SequenceId::START; topics.len()];
        for row in rows {
            heads[index_of(row.index)] = SequenceId::from_column(row.last_sequence_id);
        }
        Ok(heads)
    }
}
