//! Judging contract-wallet signatures on request (API-123, API-271).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use envelope::scw::{AccountId, Verdict, VerifierError, Verify};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::timeout;

/// Questions of one request that are open at the same time.
const MAX_OPEN_QUESTIONS: usize = 16;

/// A signature to judge, as the request has it.
#[derive(Clone)]
pub struct Question {
    /// CAIP-10 account id.
    pub account_id: String,
    /// What was signed: 32 bytes.
    pub hash: Vec<u8>,
    /// The signature.
    pub signature: Vec<u8>,
    /// At which block; `None` for the latest.
    pub block_number: Option<u64>,
}

/// Why a request has no verdicts. Nothing of it is quoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// More signatures than the limit.
    #[error("the request has more than {limit} signatures")]
    TooMany {
        /// The limit.
        limit: u32,
    },
    /// An account id that is not CAIP-10, or whose address is not one.
    #[error("an account id of the request is not well formed")]
    InvalidAccount,
    /// A hash that is not 32 bytes.
    #[error("a hash of the request is not 32 bytes")]
    InvalidHash,
    /// A verdict cannot be reached now (ARC-091).
    #[error("a contract wallet cannot be asked now")]
    Unavailable,
}

/// Asks contract wallets on behalf of requests.
#[derive(Clone)]
pub struct Wallets {
    verifier: Arc<dyn Verify>,
    max_signatures: u32,
    max_duration: Duration,
}

impl Wallets {
    /// Asks this verifier, at most `max_signatures` questions a request, and waits at most
    /// `max_duration` for all of them.
    #[must_use]
    pub fn new(verifier: Arc<dyn Verify>, max_signatures: u32, max_duration: Duration) -> Self {
        Self {
            verifier,
            max_signatures,
            max_duration,
        }
    }

    /// Judges every signature; answers one verdict per question, at the same index.
    ///
    /// Every question is checked before the first is asked, and one that cannot be answered leaves
    /// the whole request without answer.
    ///
    /// # Errors
    ///
    /// Any [`Error`].
    pub async fn verify(&self, questions: Vec<Question>) -> Result<Vec<Verdict>, Error> {
        let limit = self.max_signatures;
        if questions.len() > limit as usize {
            return Err(Error::TooMany { limit });
        }
        let checked: Vec<_> = questions.into_iter().map(check).collect::<Result<_, _>>()?;
        let verdicts = stream::iter(checked)
            .map(|question| self.ask(question))
            .buffered(MAX_OPEN_QUESTIONS)
            .try_collect();
        timeout(self.max_duration, verdicts)
            .await
            .unwrap_or(Err(Error::Unavailable))
    }

    async fn ask(&self, question: Checked) -> Result<Verdict, Error> {
        let Checked {
            account,
            hash,
            signature,
            block_number,
        } = question;
        self.verifier
            .verify(&account, &hash, &signature, block_number)
            .await
            .map_err(|error| match error {
                VerifierError::NoRoute | VerifierError::Provider | VerifierError::Io => {
                    Error::Unavailable
                }
                VerifierError::MalformedAddress => Error::InvalidAccount,
            })
    }
}

struct Checked {
    account: AccountId,
    hash: [u8; 32],
    signature: Vec<u8>,
    block_number: Option<u64>,
}

fn check(question: Question) -> Result<Checked, Error> {
    let Question {
        account_id,
        hash,
        signature,
        block_number,
    } = question;
    Ok(Checked {
        account: AccountId::parse(&account_id).map_err(|_| Error::InvalidAccount)?,
        hash: hash.try_into().map_err(|_| Error::InvalidHash)?,
        signature,
        block_number,
    })
}

impl fmt::Debug for Wallets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wallets")
            .field("max_signatures", &self.max_signatures)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question").finish_non_exhaustive()
    }
}
