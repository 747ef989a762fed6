//! The question put to a chain, and why it may go unanswered (ARC-091).

use std::future::Future;
use std::pin::Pin;

use thiserror::Error;

use super::AccountId;

/// What a smart-contract wallet says of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the wallet accepts it.
    pub is_valid: bool,
    /// The block at which it was judged.
    pub block_number: u64,
}

/// Why there is no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
pub enum VerifierError {
    /// No provider is configured for the chain.
    #[error("no provider for the chain")]
    NoRoute,
    /// The provider answered with something other than a verdict, or not in time.
    #[error("chain provider failed")]
    Provider,
    /// The connection to the provider failed.
    #[error("connection to the chain provider failed")]
    Io,
    /// The account is no Ethereum address, so no contract can be asked.
    #[error("account is not an ethereum address")]
    MalformedAddress,
}

impl VerifierError {
    /// Whether asking again later may bring a verdict.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        match self {
            Self::NoRoute | Self::Provider | Self::Io => true,
            Self::MalformedAddress => false,
        }
    }

    /// A fixed name of the failure, fit for a metric label.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoRoute => "no_route",
            Self::Provider => "provider",
            Self::Io => "io",
            Self::MalformedAddress => "malformed_address",
        }
    }
}

/// A pending verdict. It may move between threads, except in WebAssembly, which has one.
#[cfg(not(target_arch = "wasm32"))]
pub type VerdictFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Verdict, VerifierError>> + Send + 'a>>;

/// A pending verdict. In WebAssembly it need not be able to move between threads.
#[cfg(target_arch = "wasm32")]
pub type VerdictFuture<'a> = Pin<Box<dyn Future<Output = Result<Verdict, VerifierError>> + 'a>>;

/// Asks smart-contract wallets whether they accept signatures (ERC-1271, ERC-6492).
#[cfg(not(target_arch = "wasm32"))]
pub trait Verify: Send + Sync {
    /// Asks the wallet at `account` for its verdict on `signature` over the 32 bytes of `hash`, at
    /// the block of that number, or at the newest one when there is none.
    fn verify<'a>(
        &'a self,
        account: &'a AccountId,
        hash: &'a [u8; 32],
        signature: &'a [u8],
        block: Option<u64>,
    ) -> VerdictFuture<'a>;
}

/// Asks smart-contract wallets whether they accept signatures (ERC-1271, ERC-6492).
#[cfg(target_arch = "wasm32")]
pub trait Verify {
    /// Asks the wallet at `account` for its verdict on `signature` over the 32 bytes of `hash`, at
    /// the block of that number, or at the newest one when there is none.
    fn verify<'a>(
        &'a self,
        account: &'a AccountId,
        hash: &'a [u8; 32],
        signature: &'a [u8],
        block: Option<u64>,
    ) -> VerdictFuture<'a>;
}
