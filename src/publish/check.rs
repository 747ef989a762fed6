//! Admission of new envelopes: the checks that need the clock, an inbox's history or a chain.
//!
//! No lock is held and no transaction is open here (ARC-011). What fails is kept until the locked
//! recheck, because a concurrent duplicate succeeds whatever its check said.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use envelope::identity::{ProjectionChanges, verify_locally_while};
use envelope::payload::key_package::UncheckedKeyPackage;
use envelope::scw::Verify;
use envelope::wire::xmtp::identity::associations::IdentityUpdate;
use envelope::{Reason, Topic, Unchecked};
use prost::Message as _;
use tokio::time::{Instant, timeout_at};

use super::Error;
use super::turns::Turns;
use crate::clock::Clock;
use crate::db::{Database, SequenceId};

/// One envelope to check.
pub(super) struct Work {
    pub(super) topic: Topic,
    pub(super) unchecked: Unchecked,
}

/// What the check found out about one envelope.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    /// For an identity update, the greatest id of the history that it was checked against;
    /// [`SequenceId::START`] when there was none (ARC-064).
    pub(super) position: Option<SequenceId>,
    /// What storing it changes in the projection, or why it must not be stored.
    pub(super) verdict: Result<ProjectionChanges, Failure>,
}

/// Why an envelope must not be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It is not valid.
    Rejected {
        /// The public reason.
        reason: Reason,
        /// Plain words.
        message: String,
    },
    /// Nobody can say: a contract wallet could not be asked (ARC-091).
    VerifierUnavailable,
    /// Nobody can say: the stored history cannot be replayed.
    StoredHistory,
}

impl From<envelope::Error> for Failure {
    fn from(error: envelope::Error) -> Self {
        match error.reason() {
            Some(reason) => Self::Rejected {
                reason,
                message: error.to_string(),
            },
            None if error.is_retryable() => Self::VerifierUnavailable,
            None => Self::StoredHistory,
        }
    }
}

impl Checked {
    fn without_history(verdict: Result<(), Failure>) -> Self {
        Self {
            position: None,
            verdict: verdict.map(|()| ProjectionChanges::default()),
        }
    }
}

/// Checks envelopes.
pub(super) struct Checker {
    pub(super) database: Database,
    pub(super) clock: Clock,
    pub(super) wallets: Arc<dyn Verify>,
    /// Updates that an inbox may have (API-148).
    pub(super) max_identity_entries: u32,
    /// Time for all checks of one request. The transaction that follows has a bound of its own.
    pub(super) max_duration: Duration,
    /// Whose turn it is.
    pub(super) turns: Turns,
}

impl Checker {
    /// Checks every envelope; answers one entry each, in order.
    ///
    /// Histories are read one at a time, so that a request holds only the longest of them. When time
    /// is up, or nobody waits any more, computing ends with the signature that it is at.
    ///
    /// # Errors
    ///
    /// [`Error::CheckTimeout`]; [`Error::VerifierUnavailable`] when it was a contract wallet that
    /// was waited for; or when a history cannot be read.
    pub(super) async fn check(&self, work: Vec<Work>) -> Result<Vec<Checked>, Error> {
        let interest = Interest {
            deadline: Instant::now() + self.max_duration,
            lost: Arc::default(),
        };
        timeout_at(interest.deadline, self.check_each(work, &interest))
            .await
            .unwrap_or(Err(Error::CheckTimeout))
    }

    async fn check_each(
        &self,
        work: Vec<Work>,
        interest: &Interest,
    ) -> Result<Vec<Checked>, Error> {
        let mut checked = Vec::with_capacity(work.len());
        for Work { topic, unchecked } in work {
            checked.push(match unchecked {
                Unchecked::Nothing => Checked::without_history(Ok(())),
                Unchecked::KeyPackage(package) => {
                    Checked::without_history(self.key_package(*package).await)
                }
                Unchecked::IdentityUpdate(update) => {
                    self.identity_update(&topic, *update, interest).await?
                }
            });
        }
        Ok(checked)
    }

    async fn key_package(&self, package: UncheckedKeyPackage) -> Result<(), Failure> {
        let now_s = self.clock.unix_seconds();
        self.compute(move || package.validate(now_s))
            .await
            .map(drop)
            .map_err(|error| envelope::Error::from(error).into())
    }

    async fn identity_update(
        &self,
        topic: &Topic,
        update: IdentityUpdate,
        interest: &Interest,
    ) -> Result<Checked, Error> {
        let history_bytes = self.database.history_bytes(topic.as_bytes()).await?;
        let update_bytes = update.encoded_len() as u64;
        // Held until the update is judged, because what is verified of a history shares its memory.
        let _turn = self
            .turns
            .of_check(history_bytes.saturating_add(update_bytes))
            .await;
        let history = self.database.history(topic.as_bytes()).await?;
        let position = history
            .last()
            .map_or(SequenceId::START, |entry| entry.sequence_id);
        let history = history
            .into_iter()
            .map(|entry| Bytes::from(entry.payload))
            .collect();
        let verdict = match self.replay(history, update, interest).await? {
            Ok(changes) => Ok(changes),
            Err(envelope::Error::Interrupted) => return Err(Error::CheckTimeout),
            Err(error) => Err(Failure::from(error)),
        };
        Ok(Checked {
            position: Some(position),
            verdict,
        })
    }

    async fn replay(
        &self,
        history: Vec<Bytes>,
        update: IdentityUpdate,
        interest: &Interest,
    ) -> Result<Result<ProjectionChanges, envelope::Error>, Error> {
        let entries_max = self.max_identity_entries as usize;
        let go_on = interest.question();
        let verified = self
            .compute(move || verify_locally_while(history, update, entries_max, &go_on))
            .await;
        let verified = match verified {
            Ok(verified) => verified,
            Err(error) => return Ok(Err(error)),
        };
        let verdicts = verified.verify_contracts(self.wallets.as_ref());
        // What the chain has said by now is remembered by whoever asks it.
        let verified = match timeout_at(interest.deadline, verdicts).await {
            Ok(Ok(verified)) => verified,
            Ok(Err(error)) => return Ok(Err(error)),
            Err(_) => return Err(Error::VerifierUnavailable),
        };
        let go_on = interest.question();
        let admission = self.compute(move || verified.apply_while(&go_on)).await;
        Ok(admission.map(|admission| admission.changes))
    }

    /// Runs what computes for long enough to hold others up on a thread made for that. The permit
    /// goes along: a computation whose client has gone still counts until it ends.
    async fn compute<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let permit = self.turns.core().await;
        let work = move || {
            let _permit = permit;
            work()
        };
        tokio::task::spawn_blocking(work)
            .await
            .expect("validation does not panic")
    }
}

/// Whether anybody still waits for the checks of a request. Dropping it, at the deadline or because
/// the client hung up, tells the threads that compute for it.
struct Interest {
    deadline: Instant,
    lost: Arc<AtomicBool>,
}

impl Interest {
    /// What a computation asks between its steps: whether to go on.
    fn question(&self) -> impl Fn() -> bool + Send + 'static {
        let lost = Arc::clone(&self.lost);
        move || !lost.load(Ordering::Relaxed)
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.lost.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request that nobody waits for any more stops its computations, whatever dropped it.
    #[test]
    fn interest_is_lost_when_the_request_is_dropped() {
        let interest = Interest {
            deadline: Instant::now(),
            lost: Arc::default(),
        };
        let goes_on = interest.question();
        assert!(goes_on());
        drop(interest);
        assert!(!goes_on());
    }
}
