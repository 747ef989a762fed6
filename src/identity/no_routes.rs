//! The verifier of a deployment without chains.

use envelope::scw::{AccountId, VerdictFuture, VerifierError, Verify};

/// Has a route to no chain, so no question gets a verdict: it stays open, and retryable (ARC-091).
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRoutes;

impl Verify for NoRoutes {
    fn verify<'a>(
        &'a self,
        _: &'a AccountId,
        _: &'a [u8; 32],
        _: &'a [u8],
        _: Option<u64>,
    ) -> VerdictFuture<'a> {
        Box::pin(std::future::ready(Err(VerifierError::NoRoute)))
    }
}
