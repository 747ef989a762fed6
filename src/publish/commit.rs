//! From locks to commit: the only writer of envelopes (ARC-030 to ARC-036, ARC-050).
//!
//! One transaction can carry several requests; what becomes of each is decided in
//! [`decide`](super::decide).

use std::collections::{HashMap, HashSet};

use envelope::identity::ProjectedIdentifier;

use super::Retention;
use super::decide::{Answer, Candidate, Survivor, decide};
use super::plan::Planned;
use crate::db::{
    self, Association, AssociationChange, Database, NewEnvelope, PublishSession,
    PublishTransaction, SequenceId, StoredMeta,
};

/// Stores what can be stored of the candidates, in one transaction, and answers each.
pub(super) async fn commit(
    database: &Database,
    session: Option<PublishSession>,
    retention: &Retention,
    candidates: &[Candidate<'_>],
) -> Vec<Answer> {
    let stage = Stage {
        database,
        retention,
    };
    match database
        .within_publish_lifetime(stage.run(session, candidates))
        .await
    {
        Ok(answers) => answers,
        Err(error) => candidates
            .iter()
            .map(|_| Err(error.clone().into()))
            .collect(),
    }
}

struct Stage<'s> {
    database: &'s Database,
    retention: &'s Retention,
}

impl Stage<'_> {
    async fn run(
        &self,
        session: Option<PublishSession>,
        candidates: &[Candidate<'_>],
    ) -> Result<Vec<Answer>, db::Error> {
        let planned: Vec<&Planned> = candidates
            .iter()
            .flat_map(|c| &c.survivors)
            .map(|s| s.planned)
            .collect();
        let updated: Vec<&[u8]> = candidates
            .iter()
            .flat_map(|c| &c.survivors)
            .filter(|survivor| survivor.planned.is_identity_update())
            .map(|survivor| survivor.planned.topic.as_bytes())
            .collect();
        let topics: HashSet<&[u8]> = planned.iter().map(|p| p.topic.as_bytes()).collect();

        let session = match session {
            Some(session) => session,
            None => self.database.publish_session().await?,
        };
        let mut transaction = session
            .begin(!updated.is_empty(), topics.into_iter())
            .await?;
        let keys: Vec<_> = planned.iter().map(|planned| planned.key()).collect();
        let stored = transaction.find_duplicates(&keys).await?;
        let heads = if updated.is_empty() {
            HashMap::new()
        } else {
            updated
                .iter()
                .copied()
                .zip(transaction.heads(&updated).await?)
                .collect()
        };

        let decision = decide(candidates, &stored, &heads);
        if decision.new.is_empty() {
            transaction.rollback().await?;
            return Ok(decision.answer(&[]));
        }
        let inserted = self.store(&mut transaction, &decision.new).await?;
        transaction.commit().await?;
        Ok(decision.answer(&inserted))
    }

    async fn store(
        &self,
        transaction: &mut PublishTransaction,
        new: &[&Survivor<'_>],
    ) -> Result<Vec<StoredMeta>, db::Error> {
        let envelopes: Vec<_> = new
            .iter()
            .map(|survivor| {
                let planned = survivor.planned;
                let is_commit_or_proposal = planned.is_commit_or_proposal;
                NewEnvelope {
                    key: planned.key(),
                    retention_ns: self
                        .retention
                        .of(planned.topic.kind(), is_commit_or_proposal),
                    is_commit_or_proposal,
                    payload: &planned.canonical,
                }
            })
            .collect();
        let inserted = transaction.insert(&envelopes).await?;

        let mut added = Vec::new();
        let mut removed = Vec::new();
        for (survivor, meta) in new.iter().zip(&inserted) {
            let Ok(changes) = &survivor.checked.verdict else {
                continue;
            };
            let inbox_id = survivor.planned.topic.identifier();
            let change = |identifier| changed(inbox_id, identifier, meta.sequence_id);
            added.extend(changes.added.iter().map(change));
            removed.extend(changes.removed.iter().map(change));
        }
        if !added.is_empty() {
            transaction.associate(&added).await?;
        }
        if !removed.is_empty() {
            transaction.dissociate(&removed).await?;
        }
        Ok(inserted)
    }
}

fn changed<'p>(
    inbox_id: &'p [u8],
    identifier: &'p ProjectedIdentifier,
    sequence_id: SequenceId,
) -> AssociationChange<'p> {
    AssociationChange {
        association: Association {
            identifier: &identifier.key,
            kind: identifier.kind.number().into(),
            inbox_id,
        },
        sequence_id,
    }
}
