//! From locks to commit: the only writer of envelopes (ARC-030 to ARC-036, ARC-050).
//!
//! One transaction can carry several requests. Each of them is decided by itself: what one lacks
//! does not touch the others.

use std::collections::{HashMap, HashSet};

use envelope::identity::ProjectedIdentifier;
use envelope::{MessageHash, Topic};

use super::check::{Checked, Failure};
use super::plan::Planned;
use super::{Error, Rejection, Retention};
use crate::db::{
    self, Association, AssociationChange, Database, NewEnvelope, PublishSession,
    PublishTransaction, SequenceId, StoredMeta,
};

/// An envelope that was not stored when the request was read, and what the check said of it.
#[derive(Debug)]
pub(super) struct Survivor<'p> {
    /// The envelope.
    pub(super) planned: &'p Planned,
    /// The outcome of its check, which a concurrent duplicate can still make irrelevant.
    pub(super) checked: Checked,
}

/// The survivors of one request, in request order.
#[derive(Debug)]
pub(super) struct Candidate<'p> {
    /// At least one.
    pub(super) survivors: Vec<Survivor<'p>>,
}

/// How an envelope ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// Stored now.
    Stored(StoredMeta),
    /// Somebody else had stored it.
    Duplicate(StoredMeta),
}

/// The answer to one request: one entry per survivor, in order.
pub(super) type Answer = Result<Vec<Settled>, Error>;

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

        let decision = self.decide(candidates, &stored, &heads);
        if decision.new.is_empty() {
            transaction.rollback().await?;
            return Ok(decision.answer(&[]));
        }
        let inserted = self.store(&mut transaction, &decision.new).await?;
        transaction.commit().await?;
        Ok(decision.answer(&inserted))
    }

    /// Decides each request under the locks. Pure: what it needs to know is in its arguments.
    fn decide<'c>(
        &self,
        candidates: &'c [Candidate<'_>],
        stored: &[Option<StoredMeta>],
        heads: &HashMap<&[u8], SequenceId>,
    ) -> Decision<'c> {
        let mut decision = Decision::default();
        let mut stored = stored.iter();
        for candidate in candidates {
            let of_request = stored.by_ref().take(candidate.survivors.len());
            let survivors: Vec<_> = candidate
                .survivors
                .iter()
                .zip(of_request.copied())
                .collect();
            let outcome = self.decide_request(&survivors, heads, &mut decision);
            decision.outcomes.push(outcome);
        }
        decision
    }

    fn decide_request<'c>(
        &self,
        survivors: &[(&'c Survivor<'_>, Option<StoredMeta>)],
        heads: &HashMap<&[u8], SequenceId>,
        decision: &mut Decision<'c>,
    ) -> Result<Vec<Place>, Error> {
        let open: Vec<_> = survivors
            .iter()
            .filter(|(survivor, stored)| stored.is_none() && !decision.has(survivor))
            .map(|(survivor, _)| *survivor)
            .collect();
        if open.iter().any(|survivor| decision.moved(survivor, heads)) {
            return Err(Error::HistoryMoved);
        }
        if let Some(error) = open.iter().find_map(|survivor| failure(survivor)) {
            return Err(error);
        }
        for survivor in &open {
            decision.accept(survivor);
        }
        let places = survivors.iter().map(|(survivor, stored)| match stored {
            Some(meta) => Place::Stored(*meta),
            None => Place::New {
                index: decision.accepted[&survivor.planned.hash],
                first: open.iter().any(|new| std::ptr::eq(*new, *survivor)),
            },
        });
        Ok(places.collect())
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

/// What keeps a new envelope out, now that its history is known to be current.
fn failure(survivor: &Survivor<'_>) -> Option<Error> {
    let failure = survivor.checked.verdict.as_ref().err()?;
    Some(match failure {
        Failure::Rejected { reason, message } => {
            Rejection::at(survivor.planned.index, *reason, message.as_str()).into()
        }
        Failure::VerifierUnavailable => Error::VerifierUnavailable,
        Failure::StoredHistory => Error::StoredHistory,
    })
}

/// What becomes of the requests of one transaction.
#[derive(Debug, Default)]
struct Decision<'c> {
    /// What to insert, in request order.
    new: Vec<&'c Survivor<'c>>,
    /// Where each new envelope stands in `new`.
    accepted: HashMap<MessageHash, usize>,
    /// Inboxes that an accepted update of this transaction changes.
    changed_inboxes: HashSet<Topic>,
    /// One per request.
    outcomes: Vec<Result<Vec<Place>, Error>>,
}

/// Where the answer for one survivor comes from.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// A row that was there before.
    Stored(StoredMeta),
    /// A row of this transaction.
    New {
        /// Its place among the inserted rows.
        index: usize,
        /// Whether this request brought it, rather than an earlier one.
        first: bool,
    },
}

impl<'c> Decision<'c> {
    /// Whether an earlier request of the transaction brings the same envelope.
    fn has(&self, survivor: &Survivor<'_>) -> bool {
        self.accepted.contains_key(&survivor.planned.hash)
    }

    /// Whether an update was checked against a history that is not the current one any more.
    fn moved(&self, survivor: &Survivor<'_>, heads: &HashMap<&[u8], SequenceId>) -> bool {
        let topic = &survivor.planned.topic;
        survivor.checked.position.is_some_and(|position| {
            self.changed_inboxes.contains(topic) || heads.get(topic.as_bytes()) != Some(&position)
        })
    }

    fn accept(&mut self, survivor: &'c Survivor<'c>) {
        let planned = survivor.planned;
        self.accepted.insert(planned.hash, self.new.len());
        if survivor.checked.position.is_some() {
            self.changed_inboxes.insert(planned.topic);
        }
        self.new.push(survivor);
    }

    fn answer(self, inserted: &[StoredMeta]) -> Vec<Answer> {
        let settled = |place| match place {
            Place::Stored(meta) => Settled::Duplicate(meta),
            Place::New { index, first: true } => Settled::Stored(inserted[index]),
            Place::New {
                index,
                first: false,
            } => Settled::Duplicate(inserted[index]),
        };
        self.outcomes
            .into_iter()
            .map(|places| places.map(|places| places.into_iter().map(settled).collect()))
            .collect()
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
