//! One node: what to ask it for a verdict, and how long to wait.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use envelope::scw::{Address, Call, Verdict};
use tokio::sync::Semaphore;

use super::error::Failure;
use super::rpc::{self, Question};
use crate::outbound::{Bounds, Outbound, Target};

/// Calls of this process that nodes are answering at the same time.
pub(super) const OPEN_CALLS_MAX: usize = 64;

/// Makes calls, to whichever node.
pub(super) struct Caller {
    pub(super) outbound: Outbound,
    /// For one call, from its connection to the last byte of its answer.
    pub(super) bounds: Bounds,
    open: Semaphore,
    next_id: AtomicU64,
}

impl Caller {
    pub(super) fn new(outbound: Outbound, bounds: Bounds) -> Self {
        Self {
            outbound,
            bounds,
            open: Semaphore::new(OPEN_CALLS_MAX),
            next_id: AtomicU64::new(1),
        }
    }

    /// Asks a node whether a wallet accepts a signature, at a block or at the newest one.
    ///
    /// The newest block is asked for first, so that the block in the answer is the one that was
    /// judged at. A signature that can never be valid costs no call.
    pub(super) async fn judge(
        &self,
        node: &Target,
        account: &Address,
        hash: &[u8; 32],
        signature: &[u8],
        block: Option<u64>,
    ) -> Result<Verdict, Failure> {
        let block_number = match block {
            Some(number) => number,
            None => rpc::quantity(&self.ask(node, Question::BlockNumber).await?)?,
        };
        let is_valid = match Call::new(account, hash, signature) {
            None => false,
            Some(call) => {
                let question = Question::Call {
                    data: call.data(),
                    block: block_number,
                };
                call.is_valid(&rpc::bytes(&self.ask(node, question).await?)?)
            }
        };
        Ok(Verdict {
            is_valid,
            block_number,
        })
    }

    async fn ask(&self, node: &Target, question: Question<'_>) -> Result<String, Failure> {
        let _open = self
            .open
            .acquire()
            .await
            .expect("the semaphore is never closed");
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let answer = self
            .outbound
            .ask(node, question.encode(id), self.bounds)
            .await?;
        rpc::result(&answer, id)
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}
