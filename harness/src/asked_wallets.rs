//! Contract wallets whose verdict the test gives when it wants to.

use std::fmt;

use envelope::scw::{AccountId, Verdict, VerdictFuture, VerifierError, Verify};
use tokio::sync::{mpsc, oneshot};

/// A verifier that hands every question to the test and waits for its answer.
pub struct AskedWallets {
    questions: mpsc::UnboundedSender<Question>,
}

/// The questions, in the order in which they are put.
#[derive(Debug)]
pub struct Questions {
    questions: mpsc::UnboundedReceiver<Question>,
}

/// An open question. Whoever put it waits until it is answered.
#[derive(Debug)]
pub struct Question {
    answer: oneshot::Sender<Result<bool, VerifierError>>,
}

impl AskedWallets {
    /// A verifier, and the questions that will be put to it.
    pub fn new() -> (Self, Questions) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let questions = Questions {
            questions: receiver,
        };
        (Self { questions: sender }, questions)
    }
}

impl Questions {
    /// Waits for the next question.
    pub async fn next(&mut self) -> Question {
        let question = self.questions.recv().await;
        question.expect("the server still has its verifier")
    }

    /// The next question, if there is one now.
    pub fn waiting(&mut self) -> Option<Question> {
        self.questions.try_recv().ok()
    }
}

impl Question {
    /// Says whether the signature is valid, or why nobody can say.
    pub fn answer(self, answer: Result<bool, VerifierError>) {
        let delivered = self.answer.send(answer);
        delivered.expect("whoever asked still waits");
    }
}

impl Verify for AskedWallets {
    fn verify<'a>(
        &'a self,
        _: &'a AccountId,
        _: &'a [u8; 32],
        _: &'a [u8],
        block: Option<u64>,
    ) -> VerdictFuture<'a> {
        let (sender, receiver) = oneshot::channel();
        let asked = self.questions.send(Question { answer: sender });
        asked.expect("the test still listens");
        Box::pin(async move {
            let is_valid = receiver.await.expect("the test answers")?;
            let block_number = block.unwrap_or(0);
            Ok(Verdict {
                is_valid,
                block_number,
            })
        })
    }
}

impl fmt::Debug for AskedWallets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskedWallets").finish_non_exhaustive()
    }
}
