//! The projection of identifiers onto inboxes, kept by identity publishes (ARC-022).

use super::{AssociationChange, Error, PublishTransaction};

struct Columns<'a> {
    identifiers: Vec<&'a str>,
    kinds: Vec<i16>,
    inbox_ids: Vec<&'a [u8]>,
    sequence_ids: Vec<i64>,
}

impl<'a> Columns<'a> {
    fn of(changes: &[AssociationChange<'a>]) -> Self {
        Self {
            identifiers: changes.iter().map(|c| c.association.identifier).collect(),
            kinds: changes.iter().map(|c| c.association.kind).collect(),
            inbox_ids: changes.iter().map(|c| c.association.inbox_id).collect(),
            sequence_ids: changes.iter().map(|c| c.sequence_id.to_column()).collect(),
        }
    }
}

impl PublishTransaction {
    /// Records identifiers that joined an inbox. An older update never replaces newer state.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn associate(&mut self, added: &[AssociationChange<'_>]) -> Result<(), Error> {
        let columns = Columns::of(added);
        sqlx::query!(
            r#"
            INSERT INTO identifier_association AS current
                   (identifier, identifier_kind, inbox_id, association_sequence_id)
            SELECT identifier, kind, inbox_id, sequence_id
              FROM unnest($1::text[], $2::smallint[], $3::bytea[], $4::bigint[])
                       AS added (identifier, kind, inbox_id, sequence_id)
            ON CONFLICT (identifier, identifier_kind, inbox_id) DO UPDATE
               SET association_sequence_id = EXCLUDED.association_sequence_id,
                   revocation_sequence_id = NULL
             WHERE current.association_sequence_id < EXCLUDED.association_sequence_id
               AND (current.revocation_sequence_id IS NULL
                    OR current.revocation_sequence_id < EXCLUDED.association_sequence_id)
            "#,
            &columns.identifiers as &[&str],
            &columns.kinds,
            &columns.inbox_ids as &[&[u8]],
            &columns.sequence_ids,
        )
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// Records identifiers that left an inbox. An older update never replaces newer state.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn dissociate(&mut self, removed: &[AssociationChange<'_>]) -> Result<(), Error> {
        let columns = Columns::of(removed);
        sqlx::query!(
            r#"
            UPDATE identifier_association AS current
               SET revocation_sequence_id = removed.sequence_id
              FROM unnest($1::text[], $2::smallint[], $3::bytea[], $4::bigint[])
                       AS removed (identifier, kind, inbox_id, sequence_id)
             WHERE current.identifier = removed.identifier
               AND current.identifier_kind = removed.kind
               AND current.inbox_id = removed.inbox_id
               AND current.association_sequence_id < removed.sequence_id
               AND (current.revocation_sequence_id IS NULL
                    OR current.revocation_sequence_id < removed.sequence_id)
            "#,
            &columns.identifiers as &[&str],
            &columns.kinds,
            &columns.inbox_ids as &[&[u8]],
            &columns.sequence_ids,
        )
        .execute(self.connection())
        .await?;
        Ok(())
    }
}
