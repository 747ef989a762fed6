//! What becomes of the requests of one transaction, under its locks (ARC-050, ARC-111).
//!
//! Pure: what is stored and how far each inbox has come are arguments. Every request is decided by
//! itself, in order: what one lacks does not touch the others. Concurrent duplicates come first,
//! then moved histories, then failed checks.

use std::collections::{HashMap, HashSet};

use envelope::{MessageHash, Topic};

use super::check::{Checked, Failure};
use super::plan::Planned;
use super::{Error, Rejection};
use crate::db::{SequenceId, StoredMeta};

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
    /// At least one, and no two alike.
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

/// What becomes of the requests of one transaction.
#[derive(Debug, Default)]
pub(super) struct Decision<'c> {
    /// What to insert, in request order.
    pub(super) new: Vec<&'c Survivor<'c>>,
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

/// Decides every request.
///
/// `stored` has one entry per survivor, over all candidates; `heads` one per inbox that a survivor
/// updates.
pub(super) fn decide<'c>(
    candidates: &'c [Candidate<'_>],
    stored: &[Option<StoredMeta>],
    heads: &HashMap<&[u8], SequenceId>,
) -> Decision<'c> {
    let mut decision = Decision::default();
    let mut stored = stored.iter().copied();
    for candidate in candidates {
        let of_request = stored.by_ref().take(candidate.survivors.len());
        let survivors: Vec<_> = candidate.survivors.iter().zip(of_request).collect();
        let outcome = decision.add(&survivors, heads);
        decision.outcomes.push(outcome);
    }
    decision
}

impl<'c> Decision<'c> {
    /// Takes a request in, whole or not at all.
    fn add(
        &mut self,
        survivors: &[(&'c Survivor<'_>, Option<StoredMeta>)],
        heads: &HashMap<&[u8], SequenceId>,
    ) -> Result<Vec<Place>, Error> {
        let open: Vec<_> = survivors
            .iter()
            .filter(|(survivor, stored)| stored.is_none() && !self.has(survivor))
            .map(|(survivor, _)| *survivor)
            .collect();
        if open.iter().any(|survivor| self.moved(survivor, heads)) {
            return Err(Error::HistoryMoved);
        }
        if let Some(error) = open.iter().find_map(|survivor| failure(survivor)) {
            return Err(error);
        }
        let earlier = self.new.len();
        for survivor in open {
            self.accept(survivor);
        }
        let places = survivors.iter().map(|(survivor, stored)| match stored {
            Some(meta) => Place::Stored(*meta),
            None => {
                let index = self.accepted[&survivor.planned.hash];
                Place::New {
                    index,
                    first: index >= earlier,
                }
            }
        });
        Ok(places.collect())
    }

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

    /// The answers, once the new rows are inserted: one entry of `inserted` per entry of
    /// [`new`](Self::new).
    pub(super) fn answer(self, inserted: &[StoredMeta]) -> Vec<Answer> {
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use envelope::identity::ProjectionChanges;
    use envelope::{Reason, TopicKind};

    use super::*;

    fn message(index: u32, content: &'static [u8]) -> Planned {
        planned(index, TopicKind::Welcome, content)
    }

    fn update(index: u32, content: &'static [u8]) -> Planned {
        planned(index, TopicKind::IdentityUpdate, content)
    }

    /// All messages are on one topic, and all updates of one inbox.
    fn planned(index: u32, kind: TopicKind, content: &'static [u8]) -> Planned {
        Planned {
            index,
            topic: Topic::new(kind, &[7; 32]).unwrap(),
            hash: MessageHash::of(content),
            is_commit_or_proposal: false,
            canonical: Bytes::from_static(content),
        }
    }

    fn good(planned: &Planned) -> Survivor<'_> {
        let verdict = Ok(ProjectionChanges::default());
        Survivor {
            planned,
            checked: Checked {
                position: None,
                verdict,
            },
        }
    }

    fn bad(planned: &Planned) -> Survivor<'_> {
        let message = "no".to_owned();
        let failure = Failure::Rejected {
            reason: Reason::InvalidKeyPackage,
            message,
        };
        Survivor {
            planned,
            checked: Checked {
                position: None,
                verdict: Err(failure),
            },
        }
    }

    fn at(position: u64, mut survivor: Survivor<'_>) -> Survivor<'_> {
        survivor.checked.position = SequenceId::from_wire(position);
        survivor
    }

    fn meta(id: u64) -> StoredMeta {
        StoredMeta {
            sequence_id: SequenceId::from_wire(id).unwrap(),
            server_ns: 1,
            expiry_ns: None,
            is_commit_or_proposal: false,
        }
    }

    /// Decides requests under an inbox whose head is 5; the inserted rows get the ids from 100 on.
    fn answers(requests: Vec<Vec<Survivor<'_>>>, stored: &[Option<StoredMeta>]) -> Vec<Answer> {
        let candidates: Vec<_> = requests
            .into_iter()
            .map(|survivors| Candidate { survivors })
            .collect();
        let inbox = update(0, b"");
        let heads = HashMap::from([(inbox.topic.as_bytes(), SequenceId::from_wire(5).unwrap())]);
        let decision = decide(&candidates, stored, &heads);
        let inserted: Vec<_> = (100..).map(meta).take(decision.new.len()).collect();
        decision.answer(&inserted)
    }

    /// Two requests of one transaction that bring the same envelope store it once (API-033).
    #[test]
    fn an_envelope_of_two_requests_is_stored_by_the_first() {
        let (one, two) = (message(0, b"one"), message(1, b"two"));
        let requests = vec![vec![good(&one)], vec![good(&one), good(&two)]];
        assert_eq!(
            answers(requests, &[None; 3]),
            [
                Ok(vec![Settled::Stored(meta(100))]),
                Ok(vec![
                    Settled::Duplicate(meta(100)),
                    Settled::Stored(meta(101))
                ]),
            ]
        );
    }

    /// A request that fails takes nothing of the others with it, and leaves nothing behind.
    #[test]
    fn a_failed_request_does_not_touch_the_others() {
        let (one, two, three) = (message(0, b"one"), message(1, b"two"), message(0, b"three"));
        let requests = vec![
            vec![good(&one), bad(&two)],
            vec![good(&three)],
            vec![good(&one)],
        ];
        let answers = answers(requests, &[None; 4]);
        let rejection = Rejection::at(1, Reason::InvalidKeyPackage, "no");
        assert_eq!(answers[0], Err(rejection.into()));
        assert_eq!(answers[1], Ok(vec![Settled::Stored(meta(100))]));
        assert_eq!(answers[2], Ok(vec![Settled::Stored(meta(101))]));
    }

    /// A concurrent duplicate succeeds whatever its check said (ARC-050).
    #[test]
    fn a_failed_check_of_a_stored_envelope_does_not_matter() {
        let (one, two) = (message(0, b"one"), update(1, b"two"));
        let requests = vec![vec![bad(&one), at(3, bad(&two))]];
        let stored = [Some(meta(8)), Some(meta(9))];
        let expected = vec![Settled::Duplicate(meta(8)), Settled::Duplicate(meta(9))];
        assert_eq!(answers(requests, &stored), [Ok(expected)]);
    }

    /// A moved history comes before any failed check, whatever the indices (API-051).
    #[test]
    fn a_moved_history_is_told_before_a_failed_check() {
        let (one, two) = (message(0, b"one"), update(1, b"two"));
        let moved = vec![vec![bad(&one), at(4, good(&two))]];
        assert_eq!(answers(moved, &[None; 2]), [Err(Error::HistoryMoved)]);
        let current = vec![vec![bad(&one), at(5, bad(&two))]];
        let rejection = Rejection::at(0, Reason::InvalidKeyPackage, "no");
        assert_eq!(answers(current, &[None; 2]), [Err(rejection.into())]);
    }

    /// The second of two updates of an inbox was checked against a history that the first changes.
    #[test]
    fn only_the_first_update_of_an_inbox_is_accepted() {
        let (one, two) = (update(0, b"one"), update(0, b"two"));
        let requests = vec![vec![at(5, good(&one))], vec![at(5, good(&two))]];
        assert_eq!(
            answers(requests, &[None; 2]),
            [
                Ok(vec![Settled::Stored(meta(100))]),
                Err(Error::HistoryMoved)
            ]
        );
    }
}
