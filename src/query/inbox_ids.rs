//! Which inbox an identifier currently belongs to (API-120, ARC-065).

use envelope::identity::{IdentifierKind, normalize};

use super::error::within;
use super::{Error, Queries};
use crate::db::{InboxId, Lookup};

/// An identifier as the request names it.
#[derive(Clone, Debug)]
pub struct LookupRequest {
    /// In any spelling that its kind allows.
    pub identifier: String,
    /// The number of its kind: 0 and 1 Ethereum, 2 passkey.
    pub kind: i32,
}

impl Queries {
    /// Looks the identifiers up; answers one entry per request entry, at the same index.
    ///
    /// An identifier that is not well formed for its kind has no inbox.
    ///
    /// # Errors
    ///
    /// Any [`Error`] that concerns identifiers or the database.
    pub async fn inbox_ids(
        &self,
        requests: &[LookupRequest],
    ) -> Result<Vec<Option<InboxId>>, Error> {
        let limit = self.limits.max_lookup_identifiers;
        if !within(requests.len(), limit) {
            return Err(Error::TooManyIdentifiers { limit });
        }
        let mut indices = Vec::with_capacity(requests.len());
        let mut keys = Vec::with_capacity(requests.len());
        for (index, request) in requests.iter().enumerate() {
            let kind =
                IdentifierKind::from_wire(request.kind).ok_or(Error::UnknownIdentifierKind)?;
            if let Some(key) = normalize(kind, &request.identifier).filter(|key| can_be_stored(key))
            {
                indices.push(index);
                keys.push((key, i16::from(kind.number())));
            }
        }
        let mut answers = vec![None; requests.len()];
        if keys.is_empty() {
            return Ok(answers);
        }
        let lookups: Vec<_> = keys
            .iter()
            .map(|(key, kind)| Lookup {
                identifier: key,
                kind: *kind,
            })
            .collect();
        let found = self.database.inbox_ids(&lookups).await?;
        for (index, inbox_id) in indices.into_iter().zip(found) {
            answers[index] = inbox_id;
        }
        Ok(answers)
    }
}

/// Whether storage could hold a key at all. PostgreSQL refuses a text with a zero character, also as
/// a question, and no signer has such an identifier.
fn can_be_stored(key: &str) -> bool {
    !key.contains('\0')
}
