//! Which inbox an identifier belongs to (ARC-065).

use tracing::{Instrument as _, info_span};

use super::records::index_of;
use super::{Database, Error, Operation};

/// An identifier to look up.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// Normalized for its kind.
    pub identifier: &'a str,
    /// 1 Ethereum address, 2 passkey.
    pub kind: i16,
}

/// The 32 bytes of an inbox id.
pub type InboxId = [u8; 32];

impl Database {
    /// The inbox of the greatest live association of each identifier, at the same index.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn inbox_ids(&self, lookups: &[Lookup<'_>]) -> Result<Vec<Option<InboxId>>, Error> {
        let identifiers: Vec<&str> = lookups.iter().map(|lookup| lookup.identifier).collect();
        let kinds: Vec<i16> = lookups.iter().map(|lookup| lookup.kind).collect();
        let rows = sqlx::query!(
            r#"
            SELECT wanted.index AS "index!", live.inbox_id AS "inbox_id: InboxId"
              FROM unnest($1::text[], $2::smallint[]) WITH ORDINALITY
                       AS wanted (identifier, kind, index)
             CROSS JOIN LATERAL (
                   SELECT inbox_id
                     FROM identifier_association
                    WHERE identifier = wanted.identifier AND identifier_kind = wanted.kind
                      AND revocation_sequence_id IS NULL
                    ORDER BY association_sequence_id DESC
                    LIMIT 1
                   ) AS live
            "#,
            &identifiers as &[&str],
            &kinds,
        )
        .fetch_all(self.pools().route(Operation::InboxIds))
        .instrument(info_span!("db.inbox_ids", identifiers = lookups.len()))
        .await?;

        let mut found = vec![None; lookups.len()];
        for row in rows {
            found[index_of(row.index)] = Some(row.inbox_id);
        }
        Ok(found)
    }
}
