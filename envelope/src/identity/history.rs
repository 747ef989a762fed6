//! Judging a new update against everything stored before it for its inbox.
//!
//! Every publish replays the whole history; no state is kept between calls (ARC-093). A fault in
//! stored history is told apart from one in the new update, because its publisher is not to blame.

use bytes::Bytes;
use futures_util::StreamExt;

use super::convert::{ContractSignature, Signature, Update, convert};
use super::projection::ProjectionChanges;
use super::rules;
use super::signature::{LocalUpdate, VerifiedSignature, resolve, verify_update};
use super::state::AssociationState;
use crate::canonical;
use crate::error::{Error, IdentityError, Malformed, SignatureError};
use crate::scw::{Verdict, VerifierError, Verify};
use crate::wire::xmtp::backend::v1::client_envelope::Payload;
use crate::wire::xmtp::identity::associations::IdentityUpdate;

/// How many verdicts are waited for at a time. One inbox rarely has more than a few wallets; the
/// verifier may well allow fewer.
const CONCURRENT_VERDICTS_MAX: usize = 16;

/// A history and a new update whose local signatures all verify.
pub struct LocallyVerified {
    /// The history in order, and then the new update, if there is one.
    updates: Vec<LocalUpdate>,
    /// How many of `updates` are stored ones.
    stored: usize,
}

/// A history and a new update whose signatures all verify.
pub struct Verified {
    updates: Vec<Update<VerifiedSignature>>,
    stored: usize,
}

/// What a new update does to its inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The inbox before the update; none if the update creates it.
    pub before: Option<AssociationState>,
    /// The inbox after the update.
    pub after: AssociationState,
    /// What changes in the projection of identifiers.
    pub changes: ProjectionChanges,
}

/// Decodes and converts a history and a new update, and verifies their signatures as far as no
/// chain is needed.
///
/// `history` holds the canonical bytes of every envelope stored for the inbox, oldest first. A
/// history of `entries_max` or more takes no further update. This is the costly part: run it where
/// a few milliseconds of computing per signature do no harm.
///
/// # Errors
///
/// [`Error::Identity`] or [`Error::Signature`] for the new update, which is looked at first;
/// [`Error::StoredHistory`] for the history.
pub fn verify_locally(
    history: Vec<Bytes>,
    update: IdentityUpdate,
    entries_max: usize,
) -> Result<LocallyVerified, Error> {
    verify_locally_while(history, update, entries_max, &|| true)
}

/// [`verify_locally`], as long as `go_on` says so. It is asked before every stored update that is
/// decoded and before every signature that is verified, so that what nobody waits for ends within
/// one of those steps.
///
/// # Errors
///
/// [`Error::Interrupted`] once `go_on` said no, otherwise those of [`verify_locally`].
pub fn verify_locally_while(
    history: Vec<Bytes>,
    update: IdentityUpdate,
    entries_max: usize,
    go_on: &dyn Fn() -> bool,
) -> Result<LocallyVerified, Error> {
    if history.len() >= entries_max {
        return Err(IdentityError::TooManyEntries.into());
    }
    let update = verify_update(convert(update)?, go_on)?;
    let mut verified = verify_history(history, go_on)?;
    verified.updates.push(update);
    Ok(verified)
}

/// The inbox that a history makes; none if it is empty.
///
/// # Errors
///
/// [`Error::StoredHistory`] when an update of it fails, [`Error::Verifier`] when a chain could not be
/// asked.
pub async fn replay(
    history: Vec<Bytes>,
    verifier: &dyn Verify,
) -> Result<Option<AssociationState>, Error> {
    let verified = verify_history(history, &|| true)?
        .verify_contracts(verifier)
        .await?;
    fold(verified.updates, &|| true)
}

fn verify_history(history: Vec<Bytes>, go_on: &dyn Fn() -> bool) -> Result<LocallyVerified, Error> {
    let converted = history
        .into_iter()
        .enumerate()
        .map(|(index, bytes)| {
            check_interruption(go_on)?;
            stored_update(bytes).map_err(|error| in_history(index, error))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let stored = converted.len();
    let updates = converted
        .into_iter()
        .enumerate()
        .map(|(index, update)| {
            verify_update(update, go_on).map_err(|error| in_history(index, error))
        })
        .collect::<Result<_, _>>()?;
    Ok(LocallyVerified { updates, stored })
}

fn stored_update(bytes: Bytes) -> Result<Update<Signature>, Error> {
    match canonical::decode(bytes)?.payload {
        Some(Payload::IdentityUpdate(update)) => Ok(convert(*update)?),
        Some(
            Payload::GroupMessage(_)
            | Payload::WelcomeMessage(_)
            | Payload::KeyPackage(_)
            | Payload::CommitLogEntry(_),
        )
        | None => Err(Malformed::OtherKind.into()),
    }
}

/// An interruption is nobody's fault, wherever it comes.
fn in_history(index: usize, source: Error) -> Error {
    if source == Error::Interrupted {
        return source;
    }
    Error::StoredHistory {
        index,
        source: Box::new(source),
    }
}

/// # Errors
///
/// [`Error::Interrupted`] when the caller does not wait any more.
pub(super) fn check_interruption(go_on: &dyn Fn() -> bool) -> Result<(), Error> {
    if go_on() {
        Ok(())
    } else {
        Err(Error::Interrupted)
    }
}

impl LocallyVerified {
    /// How many different signatures are left for smart-contract wallets to judge.
    #[must_use]
    pub fn contract_signatures(&self) -> usize {
        self.updates
            .iter()
            .map(|update| update.contracts.len())
            .sum()
    }

    /// Asks smart-contract wallets about their signatures, a bounded number at a time.
    ///
    /// # Errors
    ///
    /// The first signature that is refused for good decides: [`Error::Signature`] or a
    /// [`Error::Verifier`] that is not retryable if it is the new update's,
    /// [`Error::StoredHistory`] otherwise. If there is none but some wallet could not be asked,
    /// [`Error::Verifier`] of the first such failure.
    pub async fn verify_contracts(self, verifier: &dyn Verify) -> Result<Verified, Error> {
        let questions: Vec<_> =
            self.updates
                .iter()
                .enumerate()
                .flat_map(|(index, update)| {
                    update.contracts.iter().map(move |contract| {
                        (index, ask(verifier, contract, &update.personal_digest))
                    })
                })
                .collect();
        let (indexes, questions): (Vec<_>, Vec<_>) = questions.into_iter().unzip();
        let answers: Vec<_> = futures_util::stream::iter(questions)
            .buffered(CONCURRENT_VERDICTS_MAX)
            .collect()
            .await;
        let mut unavailable = None;
        for (index, answer) in indexes.into_iter().zip(answers) {
            match judge(answer) {
                Ok(()) => {}
                Err(error) if error.is_retryable() => {
                    unavailable.get_or_insert(error);
                }
                Err(error) => return Err(self.located(index, error)),
            }
        }
        if let Some(error) = unavailable {
            return Err(error);
        }
        let stored = self.stored;
        let updates = self
            .updates
            .into_iter()
            .enumerate()
            .map(|(index, update)| {
                resolve(update).map_err(|error| located(index, stored, error.into()))
            })
            .collect::<Result<_, _>>()?;
        Ok(Verified { updates, stored })
    }

    fn located(&self, index: usize, error: Error) -> Error {
        located(index, self.stored, error)
    }
}

/// Says whether the update at `index` is a stored one.
fn located(index: usize, stored: usize, error: Error) -> Error {
    if index < stored {
        in_history(index, error)
    } else {
        error
    }
}

fn ask<'a>(
    verifier: &'a dyn Verify,
    contract: &'a ContractSignature,
    digest: &'a [u8; 32],
) -> crate::scw::VerdictFuture<'a> {
    verifier.verify(
        &contract.account,
        digest,
        &contract.signature,
        Some(contract.block_number),
    )
}

fn judge(answer: Result<Verdict, VerifierError>) -> Result<(), Error> {
    if answer?.is_valid {
        Ok(())
    } else {
        Err(SignatureError::Contract.into())
    }
}

impl Verified {
    /// Folds the history and applies the new update to it. Pure, and linear in the number of
    /// actions.
    ///
    /// # Errors
    ///
    /// [`Error::Identity`] when the new update breaks a rule, [`Error::StoredHistory`] when a stored
    /// one does.
    pub fn apply(self) -> Result<Admission, Error> {
        self.apply_while(&|| true)
    }

    /// [`apply`](Self::apply), as long as `go_on` says so; it is asked before every update.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] once `go_on` said no, otherwise those of [`apply`](Self::apply).
    pub fn apply_while(self, go_on: &dyn Fn() -> bool) -> Result<Admission, Error> {
        let mut updates = self.updates;
        let stored = updates.drain(..self.stored).collect();
        let before = fold(stored, go_on)?;
        let mut after = before.clone();
        for update in updates {
            check_interruption(go_on)?;
            after = Some(rules::apply(after, update)?);
        }
        let after = after.ok_or(IdentityError::NotCreated)?;
        Ok(Admission {
            changes: ProjectionChanges::between(before.as_ref(), &after),
            before,
            after,
        })
    }
}

fn fold(
    history: Vec<Update<VerifiedSignature>>,
    go_on: &dyn Fn() -> bool,
) -> Result<Option<AssociationState>, Error> {
    let mut state = None;
    for (index, update) in history.into_iter().enumerate() {
        check_interruption(go_on)?;
        let next = rules::apply(state, update).map_err(|error| in_history(index, error.into()))?;
        state = Some(next);
    }
    Ok(state)
}
