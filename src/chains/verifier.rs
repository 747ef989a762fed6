//! The verifier of the server: cache, then route, then node (ARC-091).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use envelope::scw::{AccountId, Verdict, VerdictFuture, VerifierError, Verify};
use tracing::field::Empty;
use tracing::{Instrument as _, Span, info_span, warn};
use url::Url;

use super::cache::{self, Cache};
use super::error::UnusableNode;
use super::node::Caller;
use crate::config::{ChainId, Secret};
use crate::metrics::{Metrics, VerificationResult};
use crate::outbound::{Bounds, Outbound, Target};

/// What one call may take.
const CALL: Bounds = Bounds {
    timeout: Duration::from_secs(10),
    answer_bytes_max: 1 << 20,
};

/// What the verifier is made of.
pub struct Parts<'c> {
    /// The node of each chain.
    pub nodes: &'c BTreeMap<ChainId, Secret<Url>>,
    /// Most verdicts to remember.
    pub cache_entries_max: u64,
    /// Makes the exchanges.
    pub outbound: Outbound,
    /// Counts verdicts.
    pub metrics: Arc<Metrics>,
}

/// Asks the nodes of configured chains, and remembers what they said of numbered blocks.
pub struct Chains {
    /// By CAIP-2 id, which is compared as text.
    nodes: HashMap<String, Target>,
    caller: Caller,
    cache: Mutex<Cache>,
    metrics: Arc<Metrics>,
}

impl Chains {
    /// A verifier for these chains; none is asked before there is a question.
    ///
    /// # Errors
    ///
    /// [`UnusableNode`] for the first URL that cannot be called.
    pub fn new(parts: Parts<'_>) -> Result<Self, UnusableNode> {
        Self::with_bounds(parts, CALL)
    }

    pub(super) fn with_bounds(parts: Parts<'_>, bounds: Bounds) -> Result<Self, UnusableNode> {
        let Parts {
            nodes,
            cache_entries_max,
            outbound,
            metrics,
        } = parts;
        let nodes = nodes
            .iter()
            .map(|(&chain, url)| {
                let target = Target::new(url.expose()).map_err(|_| UnusableNode { chain })?;
                Ok((chain.to_string(), target))
            })
            .collect::<Result<_, _>>()?;
        let entries_max = usize::try_from(cache_entries_max).unwrap_or(usize::MAX);
        Ok(Self {
            nodes,
            caller: Caller::new(outbound, bounds),
            cache: Mutex::new(Cache::new(entries_max)),
            metrics,
        })
    }

    async fn judge(
        &self,
        account: &AccountId,
        hash: &[u8; 32],
        signature: &[u8],
        block: Option<u64>,
    ) -> Result<Verdict, VerifierError> {
        let chain = account.chain();
        let node = self.nodes.get(chain).ok_or(VerifierError::NoRoute)?;
        let address = account.address().ok_or(VerifierError::MalformedAddress)?;
        let question =
            block.map(|block| (block, cache::key(chain, &address, hash, signature, block)));
        if let Some((block_number, key)) = &question
            && let Some(is_valid) = self.cache().recall(key)
        {
            Span::current().record("cached", true);
            return Ok(Verdict {
                is_valid,
                block_number: *block_number,
            });
        }
        let verdict = self
            .caller
            .judge(node, &address, hash, signature, block)
            .await
            .inspect_err(|failure| {
                // The chain is one that the configuration names, and the word one of a few.
                warn!(
                    chain,
                    failure = failure.word(),
                    "a chain's node gave no verdict"
                );
            })?;
        if let Some((_, key)) = question {
            self.cache().remember(key, verdict.is_valid);
        }
        Ok(verdict)
    }

    /// A panic cannot leave the cache half changed in a way that matters: it is only a memory.
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, verdict: Result<Verdict, VerifierError>) {
        let result = match verdict {
            Ok(Verdict { is_valid: true, .. }) => VerificationResult::Valid,
            Ok(Verdict {
                is_valid: false, ..
            }) => VerificationResult::Invalid,
            Err(_) => VerificationResult::Error,
        };
        Span::current().record("result", result.name());
        self.metrics.verified(result);
    }
}

impl Verify for Chains {
    fn verify<'a>(
        &'a self,
        account: &'a AccountId,
        hash: &'a [u8; 32],
        signature: &'a [u8],
        block: Option<u64>,
    ) -> VerdictFuture<'a> {
        let span = info_span!("scw.verify", cached = false, result = Empty);
        let verdict = async move {
            let verdict = self.judge(account, hash, signature, block).await;
            self.note(verdict);
            verdict
        };
        Box::pin(verdict.instrument(span))
    }
}

impl fmt::Debug for Chains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chains")
            .field("chains", &self.nodes.len())
            .finish_non_exhaustive()
    }
}
