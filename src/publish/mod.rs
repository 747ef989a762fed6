//! Publishing: the order of checks, the duplicates, and the one transaction.
//!
//! ```text
//! plan      parse, measure, hash, collapse           no clock, no database
//! look      what is stored already                   one read, no lock
//! check     key packages, identity updates           no transaction
//! commit    locks, recheck, insert, commit           one transaction
//! ```
//!
//! This room holds every rule of a publish and nothing of its transport.

mod check;
mod commit;
mod decide;
mod error;
mod plan;
mod retention;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use envelope::scw::Verify;
use envelope::wire::xmtp::backend::v1::ClientEnvelope;
use envelope::{MessageHash, Topic, Unchecked};
use tracing::{Instrument as _, info_span};

use self::check::{Checker, Work};
use self::commit::commit;
use self::decide::{Candidate, Settled, Survivor};
use self::plan::Plan;
use self::turns::Turns;
use crate::clock::Clock;
use crate::config::Limits;
use crate::db::{Database, PublishSession, StoredMeta};
use crate::metrics::{Metrics, Outcome};

pub use self::error::{Error, Rejection};
pub use self::retention::Retention;

/// Requests up to this length are parsed where they arrive: about a millisecond's worth of hashing.
const MAX_INLINE_BYTES: u64 = 256 * 1024;

/// What a publisher works with.
#[derive(Clone)]
pub struct Parts {
    /// Where envelopes go.
    pub database: Database,
    /// Bounds on requests.
    pub limits: Limits,
    /// How long envelopes are kept.
    pub retention: Retention,
    /// Judges key-package lifetimes.
    pub clock: Clock,
    /// Asks contract wallets.
    pub wallets: Arc<dyn Verify>,
    /// Time for all checks of one request, contract wallets included.
    pub max_check_duration: Duration,
    /// Counts outcomes.
    pub metrics: Arc<Metrics>,
}

/// Publishes envelopes.
pub struct Publisher {
    database: Database,
    limits: Limits,
    retention: Retention,
    checker: Checker,
    metrics: Arc<Metrics>,
}

/// The answer for one input position.
#[derive(Clone, Debug)]
pub struct Published {
    /// Its topic.
    pub topic: Topic,
    /// Its hash.
    pub hash: MessageHash,
    /// The rest of its metadata.
    pub meta: StoredMeta,
}

impl Publisher {
    /// Makes a publisher of its parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts {
            database,
            limits,
            retention,
            clock,
            wallets,
            max_check_duration,
            metrics,
        } = parts;
        let checker = Checker {
            database: database.clone(),
            clock,
            wallets,
            max_identity_entries: limits.max_identity_entries,
            max_duration: max_check_duration,
            turns: Turns::new(),
        };
        Self {
            database,
            limits,
            retention,
            checker,
            metrics,
        }
    }

    /// Stores all envelopes or none; answers one entry per input, in order, duplicates included.
    ///
    /// # Errors
    ///
    /// Any [`Error`]. After [`Error::Database`] it is unknown whether something was stored; sending
    /// the same envelopes again is always safe.
    pub async fn publish(&self, envelopes: Vec<ClientEnvelope>) -> Result<Vec<Published>, Error> {
        let tally = Tally::new(&self.metrics, envelopes.len());
        let result = self.run(envelopes).await;
        match &result {
            Ok((answers, stored)) => tally.succeed(*stored, answers.len()),
            Err(Error::Rejected(rejection)) => self.metrics.rejected(rejection.reason.into()),
            Err(
                Error::HistoryMoved
                | Error::CheckTimeout
                | Error::VerifierUnavailable
                | Error::StoredHistory
                | Error::Database(_),
            ) => {}
        }
        result.map(|(answers, _)| answers)
    }

    /// Answers, and how many rows are new.
    async fn run(&self, envelopes: Vec<ClientEnvelope>) -> Result<(Vec<Published>, usize), Error> {
        let mut plan = self.plan(envelopes).await?;
        if plan.envelopes.is_empty() {
            return Ok((Vec::new(), 0));
        }
        let keys: Vec<_> = plan.envelopes.iter().map(|planned| planned.key()).collect();
        let mut session = self.database.publish_session().await?;
        let mut metas = session.find_duplicates(&keys).await?;
        let missing: Vec<usize> = (0..metas.len())
            .filter(|&index| metas[index].is_none())
            .collect();
        let mut stored = 0;
        if !missing.is_empty() {
            // A check can take long, so it holds no connection; what needs none keeps it.
            let session = (!plan.needs_check(&missing)).then_some(session);
            let span = info_span!("publish.validate_publish", survivors = missing.len());
            let candidate = self.check(&mut plan, &missing).instrument(span).await?;
            let settled = self.commit(session, candidate).await?;
            for (index, settled) in missing.into_iter().zip(settled) {
                metas[index] = Some(match settled {
                    Settled::Duplicate(meta) => meta,
                    Settled::Stored(meta) => {
                        stored += 1;
                        meta
                    }
                });
            }
        }
        Ok((answers(&plan, &metas), stored))
    }

    /// Parsing hashes every byte. A long request does so on a thread made for that. (Its protobuf is
    /// decoded before it gets here.)
    async fn plan(&self, envelopes: Vec<ClientEnvelope>) -> Result<Plan, Error> {
        let span = info_span!("publish.parse_publish", positions = envelopes.len());
        if plan::request_bytes(&envelopes) <= MAX_INLINE_BYTES {
            return Ok(span.in_scope(|| Plan::new(envelopes, &self.limits))?);
        }
        let limits = self.limits.clone();
        let parse = move || span.in_scope(|| Plan::new(envelopes, &limits));
        Ok(tokio::task::spawn_blocking(parse)
            .await
            .expect("parsing does not panic")?)
    }

    /// Checks what is not stored yet, without any lock.
    async fn check<'p>(
        &self,
        plan: &'p mut Plan,
        missing: &[usize],
    ) -> Result<Candidate<'p>, Error> {
        let Plan {
            envelopes,
            unchecked,
            positions: _,
        } = plan;
        let work = missing
            .iter()
            .map(|&index| Work {
                topic: envelopes[index].topic,
                unchecked: std::mem::replace(&mut unchecked[index], Unchecked::Nothing),
            })
            .collect();
        let checked = self.checker.check(work).await?;
        let survivors = missing
            .iter()
            .zip(checked)
            .map(|(&index, checked)| Survivor {
                planned: &envelopes[index],
                checked,
            })
            .collect();
        Ok(Candidate { survivors })
    }

    async fn commit(
        &self,
        session: Option<PublishSession>,
        candidate: Candidate<'_>,
    ) -> Result<Vec<Settled>, Error> {
        let mut answers = commit(&self.database, session, &self.retention, &[candidate]).await;
        answers.pop().expect("one request, one answer")
    }
}

/// One answer per input position, from the metadata of the distinct envelopes.
fn answers(plan: &Plan, metas: &[Option<StoredMeta>]) -> Vec<Published> {
    plan.positions
        .iter()
        .map(|&index| {
            let planned = &plan.envelopes[index];
            Published {
                topic: planned.topic,
                hash: planned.hash,
                meta: metas[index].expect("every distinct envelope was found or stored"),
            }
        })
        .collect()
}

/// Counts every input position of a publish once, however the publish ends: as rejected unless it
/// is known to have succeeded, also when its future is dropped (ARC-098).
struct Tally<'m> {
    metrics: &'m Metrics,
    positions: usize,
}

impl<'m> Tally<'m> {
    fn new(metrics: &'m Metrics, positions: usize) -> Self {
        Self { metrics, positions }
    }

    fn succeed(mut self, stored: usize, positions: usize) {
        self.positions = 0;
        self.metrics.published(Outcome::Stored, stored);
        self.metrics
            .published(Outcome::Duplicate, positions.saturating_sub(stored));
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        if self.positions > 0 {
            self.metrics.published(Outcome::Rejected, self.positions);
        }
    }
}
