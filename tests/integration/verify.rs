//! Judging contract-wallet signatures on request, without a chain: bounds, malformed input, order
//! of answers, and what a missing verdict means (API-123, API-271, ARC-091).

use std::sync::{Arc, Mutex};

use envelope::fixtures::{ScriptedVerifier, filler};
use envelope::scw::{AccountId, Verdict, VerdictFuture, VerifierError, Verify};
use envelope::wire::xmtp::backend::v1::{
    VerifySmartContractWalletSignaturesRequest, VerifySmartContractWalletSignaturesResponse,
    verify_smart_contract_wallet_signatures_request::Signature,
    verify_smart_contract_wallet_signatures_response::Response,
};
use harness::{TestServer, Transport};
use tonic::{Code, Status};

use crate::refusal::{assert_plain, assert_silent_about};

const ACCOUNT: &str = "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb";

/// What a verifier was asked: account, hash, signature and block.
type Question = (String, [u8; 32], Vec<u8>, Option<u64>);

/// Remembers every question, and judges at block 77 unless told a block. A signature that begins
/// with 1 is valid, one that begins with 9 gets no verdict.
#[derive(Clone, Default)]
struct Recorder {
    questions: Arc<Mutex<Vec<Question>>>,
}

impl Recorder {
    fn questions(&self) -> Vec<Question> {
        self.questions.lock().unwrap().clone()
    }
}

impl Verify for Recorder {
    fn verify<'a>(
        &'a self,
        account: &'a AccountId,
        hash: &'a [u8; 32],
        signature: &'a [u8],
        block: Option<u64>,
    ) -> VerdictFuture<'a> {
        let question = (
            account.as_str().to_owned(),
            *hash,
            signature.to_vec(),
            block,
        );
        self.questions.lock().unwrap().push(question);
        let verdict = Verdict {
            is_valid: signature.first() == Some(&1),
            block_number: block.unwrap_or(77),
        };
        let answer = match signature.first() {
            Some(9) => Err(VerifierError::Provider),
            _ => Ok(verdict),
        };
        Box::pin(async move {
            // Later questions are answered first.
            for _ in 0..hash[0] {
                tokio::task::yield_now().await;
            }
            answer
        })
    }
}

/// A well-formed question; the hash follows from the number.
fn signature(number: u8, bytes: &[u8], block_number: Option<u64>) -> Signature {
    let mut hash = filler(number.into(), 32);
    hash[0] = 200 - number;
    Signature {
        account_id: ACCOUNT.to_owned(),
        block_number,
        hash: hash.into(),
        signature: bytes.to_vec().into(),
    }
}

async fn verify(
    server: &TestServer,
    transport: Transport,
    signatures: Vec<Signature>,
) -> Result<Vec<Response>, Status> {
    let request = VerifySmartContractWalletSignaturesRequest { signatures };
    let method = "IdentityService/VerifySmartContractWalletSignatures";
    let response: VerifySmartContractWalletSignaturesResponse =
        transport.call(server.address(), method, &request).await?;
    Ok(response.responses)
}

/// Each question is put as it was sent, and answered at its index with its verdict and the block of
/// the verdict; an invalid signature is an answer, not a failure.
#[tokio::test]
async fn verdicts_stand_at_the_index_of_their_questions() {
    let recorder = Recorder::default();
    let server = TestServer::builder()
        .wallets(recorder.clone())
        .start()
        .await;
    // More than are open at the same time; every third is valid, every other names a block.
    let signatures: Vec<_> = (0..50_u8)
        .map(|number| {
            let block = (number % 2 == 0).then_some(u64::from(number) * 1_000);
            signature(number, &[u8::from(number % 3 == 0), number], block)
        })
        .collect();
    for (round, transport) in (1..).zip(Transport::ALL) {
        let responses = verify(&server, transport, signatures.clone())
            .await
            .unwrap();
        assert_eq!(responses.len(), signatures.len());
        for (number, response) in (0_u64..).zip(&responses) {
            let block = if number % 2 == 0 { number * 1_000 } else { 77 };
            let expected = Response {
                is_valid: number % 3 == 0,
                block_number: Some(block),
                error: None,
            };
            assert_eq!(*response, expected, "{number} over {transport:?}");
        }
        assert_eq!(recorder.questions().len(), round * signatures.len());
    }
    let mut asked = recorder.questions();
    asked.truncate(signatures.len());
    let sent: Vec<Question> = signatures
        .into_iter()
        .map(|sent| {
            let hash = sent.hash[..].try_into().unwrap();
            (
                sent.account_id,
                hash,
                sent.signature.to_vec(),
                sent.block_number,
            )
        })
        .collect();
    asked.sort_by_key(|question| std::cmp::Reverse(question.1));
    assert_eq!(asked, sent);
    server.stop().await;
}

/// A hash that is not 32 bytes, or an account that is no account id, refuses the whole request
/// before anybody is asked.
#[tokio::test]
async fn malformed_questions_are_refused_before_anybody_is_asked() {
    let recorder = Recorder::default();
    let server = TestServer::builder()
        .wallets(recorder.clone())
        .start()
        .await;
    let with = |account_id: &str, hash: usize| Signature {
        account_id: account_id.to_owned(),
        hash: filler(9, hash).into(),
        ..signature(0, &[1; 65], None)
    };
    let address = ACCOUNT.rsplit(':').next().unwrap();
    let bad = [
        with(ACCOUNT, 0),
        with(ACCOUNT, 31),
        with(ACCOUNT, 33),
        with(ACCOUNT, 64),
        with("", 32),
        with(address, 32),
        with("eip155:1", 32),
        with("eip155:1:", 32),
        with(&format!("1:{address}"), 32),
        with(&format!("EIP155:1:{address}"), 32),
        with(&format!("{ACCOUNT}:1"), 32),
        with(&format!("{ACCOUNT} "), 32),
        with(&format!("eip155:{}:{address}", "1".repeat(33)), 32),
        with(&format!("eip155:1:{}", "a".repeat(129)), 32),
    ];
    for bad in bad {
        let secrets = [bad.account_id.as_bytes(), &bad.hash, &bad.signature];
        let good = signature(1, &[1; 65], None);
        for signatures in [vec![bad.clone()], vec![good, bad.clone()]] {
            for transport in Transport::ALL {
                let status = verify(&server, transport, signatures.clone())
                    .await
                    .unwrap_err();
                let claim = format!("{}, {} bytes", bad.account_id, bad.hash.len());
                assert_plain(&claim, &status, Code::InvalidArgument);
                assert_silent_about(&claim, &status, &secrets);
            }
        }
    }
    assert_eq!(recorder.questions(), []);
    server.stop().await;
}

/// Questions are bounded, repeats counted, before anybody is asked; none is an empty answer.
#[tokio::test]
async fn questions_of_a_request_are_bounded() {
    let recorder = Recorder::default();
    let server = TestServer::builder()
        .table("limits", "max_scw_signatures = 3")
        .wallets(recorder.clone())
        .start()
        .await;
    for (round, transport) in (1..).zip(Transport::ALL) {
        let of = |count| vec![signature(1, &[1], Some(5)); count];
        assert_eq!(verify(&server, transport, of(0)).await.unwrap(), []);
        assert_eq!(verify(&server, transport, of(3)).await.unwrap().len(), 3);
        let status = verify(&server, transport, of(4)).await.unwrap_err();
        assert_plain("one past", &status, Code::InvalidArgument);
        assert_eq!(recorder.questions().len(), round * 3);
    }
    server.stop().await;
}

/// One question without a verdict leaves the whole request without answer, wherever it stands.
#[tokio::test]
async fn one_missing_verdict_fails_the_whole_request() {
    let server = TestServer::builder()
        .wallets(Recorder::default())
        .start()
        .await;
    for place in 0..3 {
        let mut signatures = vec![signature(1, &[1], None), signature(2, &[0], Some(3))];
        signatures.insert(place, signature(3, &[9; 65], None));
        for transport in Transport::ALL {
            let status = verify(&server, transport, signatures.clone())
                .await
                .unwrap_err();
            assert_plain("no verdict", &status, Code::Unavailable);
            assert_silent_about("no verdict", &status, &[ACCOUNT.as_bytes(), &[9; 65]]);
        }
    }
    server.stop().await;
}

/// Every reason for which a chain cannot be asked is unavailable, never invalid; a deployment
/// without chains has no route to any, of whatever namespace (API-271).
#[tokio::test]
async fn a_chain_that_cannot_be_asked_is_unavailable() {
    let cosmos = "cosmos:cosmoshub-3:cosmos1t2uflqwqe0fsj0shcfkrvpukewcw40yjj6hdc0";
    let server = TestServer::start().await;
    for account_id in [ACCOUNT, cosmos, "eip155:0:0x00", "abc:1:a"] {
        for block_number in [None, Some(0), Some(u64::MAX)] {
            let question = Signature {
                account_id: account_id.to_owned(),
                ..signature(1, &[1; 65], block_number)
            };
            let status = verify(&server, Transport::Native, vec![question])
                .await
                .unwrap_err();
            assert_plain(account_id, &status, Code::Unavailable);
            assert_silent_about(account_id, &status, &[account_id.as_bytes(), &[1; 65]]);
        }
    }
    server.stop().await;

    let errors = [
        VerifierError::NoRoute,
        VerifierError::Provider,
        VerifierError::Io,
    ];
    for error in errors {
        let wallets = ScriptedVerifier::always(Err(error));
        let server = TestServer::builder().wallets(wallets).start().await;
        for transport in Transport::ALL {
            let question = vec![signature(1, &[1], None)];
            let status = verify(&server, transport, question).await.unwrap_err();
            assert_plain(&error.to_string(), &status, Code::Unavailable);
        }
        server.stop().await;
    }
}
