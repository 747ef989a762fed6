//! Why a node gave no verdict, and why one cannot be used at all.

use envelope::scw::VerifierError;

use crate::config::ChainId;
use crate::outbound;

/// The URL of a chain's node cannot be called. The URL is not quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("configuration error: chains: the URL for {chain} cannot be called")]
pub struct UnusableNode {
    /// The chain.
    pub chain: ChainId,
}

/// An exchange with a node that brought no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// The exchange itself failed.
    #[error(transparent)]
    Exchange(#[from] outbound::Failure),
    /// The answer does not answer the question: no JSON-RPC, another id, no result.
    #[error("the node's answer is not a JSON-RPC answer to the question")]
    Answer,
    /// The node answered with an error. A simulation that reverts is one.
    #[error("the node answered with an error")]
    Refusal,
    /// The result is not what the method returns.
    #[error("the node's result is not hexadecimal")]
    Result,
}

impl Failure {
    /// One word for a log line.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Exchange(failure) => failure.word(),
            Self::Answer => "answer",
            Self::Refusal => "rpc_error",
            Self::Result => "result",
        }
    }
}

impl From<Failure> for VerifierError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Exchange(outbound::Failure::Connection) => Self::Io,
            Failure::Exchange(
                outbound::Failure::Timeout
                | outbound::Failure::Status(_)
                | outbound::Failure::TooLarge,
            )
            | Failure::Answer
            | Failure::Refusal
            | Failure::Result => Self::Provider,
        }
    }
}
