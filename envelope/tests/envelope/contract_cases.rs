//! Signatures of smart-contract wallets, with a scripted verifier in place of a chain (cases 106 to
//! 108, 113, 118 and 138).

use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use envelope::error::{IdentityError, SignatureError, TooLarge};
use envelope::fixtures::keys::erc_6492;
use envelope::fixtures::{
    ContractWallet, Installation, ScriptedVerifier, Signer, UpdateBuilder, Wallet, update_envelope,
};
use envelope::identity::{replay, verify_locally};
use envelope::scw::{AccountId, Verdict, VerdictFuture, VerifierError, Verify};
use envelope::wire::xmtp::identity::associations::IdentityUpdate;
use envelope::{Error, Limits, Reason, canonical};

use crate::signature_cases::Forged;
use crate::support::{ENTRIES_MAX, LIMITS, admit_with, block_on};

fn contract() -> ContractWallet {
    ContractWallet::numbered(1, 1)
}

fn accepting() -> ScriptedVerifier {
    ScriptedVerifier::always(Ok(true))
}

/// Creates a smart-contract wallet's inbox with two installations.
fn creation() -> IdentityUpdate {
    let contract = contract();
    UpdateBuilder::creating(&contract, 0)
        .add(&contract, &Installation::numbered(1))
        .add(&contract, &Installation::numbered(2))
        .build()
}

/// A wallet that is a contract creates an inbox; its member record names the chain.
#[test]
fn an_accepted_signature_makes_its_wallet_a_member() {
    let verifier = accepting();
    let admission = admit_with(&[], &creation(), &verifier).unwrap();
    let (member, record) = admission
        .after
        .members()
        .find(|(_, record)| record.added_by.is_none())
        .unwrap();
    assert_eq!(record.chain_id, Some(1));
    assert!(contract().account_id().ends_with(&member.text()));
    // Three uses of one signature are one question.
    assert_eq!(verifier.calls(), 1);
    assert_eq!(admission.after.seen_signatures(), 3);
}

/// What the verifier is asked: the account, the digest a wallet would sign, the signature and the
/// block that the update names, which may be 0.
#[test]
fn the_verifier_is_asked_for_what_the_update_says() {
    /// Account, hash, signature and block.
    type Question = (String, [u8; 32], Vec<u8>, Option<u64>);
    struct Recording(Mutex<Vec<Question>>);
    impl Verify for Recording {
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
            self.0.lock().unwrap().push(question);
            Box::pin(std::future::ready(Ok(Verdict {
                is_valid: true,
                block_number: 0,
            })))
        }
    }
    let contract = contract();
    let at_zero = Forged {
        named: &contract,
        sign: |_: &str| erc_6492(&contract.account_id(), 0, b"signature"),
    };
    let update = UpdateBuilder::creating(&at_zero, 0);
    let digest = envelope::ethereum::personal_message_digest(update.text().as_bytes());
    let recording = Recording(Mutex::new(Vec::new()));
    admit_with(&[], &update.build(), &recording).unwrap();
    assert_eq!(
        recording.0.into_inner().unwrap(),
        [(
            contract.account_id(),
            digest,
            b"signature".to_vec(),
            Some(0)
        )]
    );
}

/// ARC-091: a refusal is the update's fault, a chain that cannot be asked is not.
#[test]
fn verdicts_and_failures_are_told_apart() {
    let cases = [
        (Ok(false), Some(Reason::InvalidSignature), false),
        (Err(VerifierError::NoRoute), None, true),
        (Err(VerifierError::Provider), None, true),
        (Err(VerifierError::Io), None, true),
        (
            Err(VerifierError::MalformedAddress),
            Some(Reason::InvalidSignature),
            false,
        ),
    ];
    for (answer, reason, is_retryable) in cases {
        let error = admit_with(&[], &creation(), &ScriptedVerifier::always(answer)).unwrap_err();
        assert_eq!(error.reason(), reason, "{answer:?}");
        assert_eq!(error.is_retryable(), is_retryable, "{answer:?}");
    }
}

/// Case 138: a stored signature that cannot be verified now makes the publish unavailable; one that
/// is refused makes the history broken.
#[test]
fn stored_signatures_are_verified_again() {
    let history = [creation()];
    let update = UpdateBuilder::new(&history[0].inbox_id).build();
    let outcome = |answer| admit_with(&history, &update, &ScriptedVerifier::always(answer));
    assert!(outcome(Ok(true)).is_ok());
    let error = outcome(Err(VerifierError::Io)).unwrap_err();
    assert_eq!(error, Error::Verifier(VerifierError::Io));
    let error = outcome(Ok(false)).unwrap_err();
    assert_eq!(
        error,
        Error::StoredHistory {
            index: 0,
            source: Box::new(Error::Signature(SignatureError::Contract)),
        }
    );
}

/// A refusal is reported before a failure, whatever their order; of several refusals the first.
#[test]
fn refusals_come_before_failures() {
    let contracts: Vec<_> = (1..=3).map(|n| ContractWallet::numbered(n, n)).collect();
    let update = UpdateBuilder::creating(&contracts[0], 0)
        .add(&contracts[0], &contracts[1])
        .add(&contracts[0], &contracts[2])
        .build();
    let verifier = ScriptedVerifier::new(|account, _| match account.ethereum_chain_id() {
        Some(1) => Err(VerifierError::Io),
        Some(2) => Ok(false),
        _ => Err(VerifierError::Provider),
    });
    assert_eq!(
        admit_with(&[], &update, &verifier).unwrap_err(),
        Error::Signature(SignatureError::Contract)
    );
    let verifier = ScriptedVerifier::new(|account, _| match account.ethereum_chain_id() {
        Some(1) => Ok(true),
        Some(2) => Err(VerifierError::NoRoute),
        _ => Err(VerifierError::Provider),
    });
    // The new member of an action comes before the existing one, and actions in order.
    assert_eq!(
        admit_with(&[], &update, &verifier).unwrap_err(),
        Error::Verifier(VerifierError::NoRoute)
    );
}

/// Local faults are found before any chain is asked.
#[test]
fn no_chain_is_asked_about_a_locally_bad_update() {
    let (contract, app) = (contract(), Installation::numbered(1));
    let forged = Forged {
        named: &app,
        sign: |_: &str| app.sign("another text").unwrap(),
    };
    let update = UpdateBuilder::creating(&contract, 0)
        .add(&contract, &forged)
        .build();
    let verifier = accepting();
    assert_eq!(
        admit_with(&[], &update, &verifier).unwrap_err(),
        Error::Signature(SignatureError::Installation)
    );
    assert_eq!(verifier.calls(), 0);
}

/// Case 106: a smart-contract wallet signs on the chain on which it was added.
#[test]
fn a_contract_stays_on_its_chain() {
    let history = [creation()];
    let inbox = &history[0].inbox_id;
    let elsewhere = contract().on_chain(10);
    let cases = [
        UpdateBuilder::new(inbox)
            .add(&elsewhere, &Wallet::numbered(1))
            .build(),
        UpdateBuilder::new(inbox)
            .revoke(&elsewhere, Installation::numbered(1).member())
            .build(),
        UpdateBuilder::new(inbox)
            .change_recovery(&elsewhere, "0x")
            .build(),
    ];
    for update in cases {
        assert_eq!(
            admit_with(&history, &update, &accepting()).unwrap_err(),
            Error::Identity(IdentityError::ChainIdMismatch)
        );
    }
    let here = contract();
    let update = UpdateBuilder::new(inbox)
        .add(&here, &Wallet::numbered(1))
        .build();
    assert!(admit_with(&history, &update, &accepting()).is_ok());
}

/// The chain that counts for a member is the one of its own signature, not of its adder's.
#[test]
fn a_member_is_bound_to_the_chain_it_signed_on() {
    let history = [creation()];
    let (here, wallet) = (contract(), Wallet::numbered(1));
    let other = ContractWallet::numbered(2, 10);
    let update = UpdateBuilder::new(&history[0].inbox_id)
        .add(&here, &wallet)
        .add(&wallet, &other)
        .add(&other, &Wallet::numbered(2))
        .build();
    let state = admit_with(&history, &update, &accepting()).unwrap().after;
    let chain_of = |text: &str| {
        let (_, record) = state
            .members()
            .find(|(member, _)| text.ends_with(&member.text()))
            .unwrap();
        record.chain_id
    };
    assert_eq!(chain_of(&wallet.address()), None);
    assert_eq!(chain_of(&other.account_id()), Some(10));
    assert_eq!(chain_of(&Wallet::numbered(2).address()), None);
}

/// Case 107: an address added by its own key does not later sign as a contract.
#[test]
fn a_wallet_with_a_key_does_not_become_a_contract() {
    let wallet = Wallet::numbered(1);
    let create = UpdateBuilder::creating(&wallet, 0).build();
    let account = format!("eip155:1:{}", wallet.address());
    let as_contract = Forged {
        named: &wallet,
        sign: |_: &str| erc_6492(&account, 1, &[7; 65]),
    };
    let update = UpdateBuilder::new(&create.inbox_id)
        .add(&as_contract, &Installation::numbered(1))
        .build();
    assert_eq!(
        admit_with(&[create], &update, &accepting()).unwrap_err(),
        Error::Identity(IdentityError::ChainIdMismatch)
    );
}

/// Case 108: a recovery identifier that is no member is bound to no chain (kept limit).
#[test]
fn a_recovery_identifier_outside_the_inbox_is_bound_to_no_chain() {
    let wallet = Wallet::numbered(1);
    let contract = contract();
    let address = contract.account_id().split(':').nth(2).unwrap().to_owned();
    let create = UpdateBuilder::creating(&wallet, 0)
        .change_recovery(&wallet, &address)
        .build();
    for chain_id in [1, 10] {
        let recovery = contract.on_chain(chain_id);
        let update = UpdateBuilder::new(&create.inbox_id)
            .revoke(&recovery, wallet.member())
            .build();
        assert!(admit_with(std::slice::from_ref(&create), &update, &accepting()).is_ok());
    }
}

/// Case 118 and other account ids: the form is checked before any verdict, the address after it.
#[test]
fn account_ids_must_name_an_ethereum_account() {
    let contract = contract();
    let create_as = |account: &str| {
        let forged = Forged {
            named: &contract,
            sign: |_: &str| erc_6492(account, 1, &[7; 65]),
        };
        let update = UpdateBuilder::creating(&forged, 0).build();
        admit_with(&[], &update, &accepting()).map(|_| ())
    };
    let address = contract.account_id().split(':').nth(2).unwrap().to_owned();
    let malformed = Err(Error::Identity(IdentityError::BadAccountId));
    let no_account = Err(Error::Signature(SignatureError::ContractAccount));
    let other = Err(Error::Identity(IdentityError::SignerMismatch));
    for (account, expected) in [
        (format!("eip155:1:{address}"), Ok(())),
        (
            format!("eip155:1:0x{}", address[2..].to_uppercase()),
            Ok(()),
        ),
        // No prefix is added, so this is another identifier.
        (format!("eip155:1:{}", &address[2..]), other),
        (format!("eip/155:1:{address}"), malformed.clone()),
        ("eip155:1".to_owned(), malformed.clone()),
        (format!("eip155:1:{address}:1"), malformed),
        (format!("eip155:1:{}", &address[..41]), no_account.clone()),
        (format!("eip155:one:{address}"), no_account.clone()),
        (format!("cosmos:cosmoshub-3:{address}"), no_account),
    ] {
        assert_eq!(create_as(&account), expected, "{account}");
    }
}

/// Case 113: one signature over the limit is too many; repeats count.
#[test]
fn contract_signatures_are_counted() {
    let contract = contract();
    let apps: Vec<_> = (0..100).map(Installation::numbered).collect();
    let update = |adds: usize| {
        apps[..adds]
            .iter()
            .fold(UpdateBuilder::creating(&contract, 0), |update, app| {
                update.add(&contract, app)
            })
            .build()
    };
    let parsed = envelope::parse(update_envelope(update(99)), LIMITS).unwrap();
    assert_eq!(parsed.contract_signatures, 100);
    let error = envelope::parse(update_envelope(update(100)), LIMITS).unwrap_err();
    assert_eq!(error, Error::TooLarge(TooLarge::ContractSignatures));
    assert_eq!(error.reason(), Some(Reason::TooLarge));
    let none = Limits {
        contract_signatures_max: 0,
        ..LIMITS
    };
    assert!(envelope::parse(update_envelope(update(0)), none).is_err());
}

/// Answers late, and notes how many questions are open at a time.
struct Slow {
    open: AtomicUsize,
    open_max: AtomicUsize,
}

/// A verdict that is pending the first time it is asked for.
struct Late<'a>(&'a Slow, bool);

impl Future for Late<'_> {
    type Output = Result<Verdict, VerifierError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.1 {
            self.0.open.fetch_sub(1, Ordering::SeqCst);
            return Poll::Ready(Ok(Verdict {
                is_valid: true,
                block_number: 0,
            }));
        }
        let open = self.0.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.open_max.fetch_max(open, Ordering::SeqCst);
        self.1 = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Verify for Slow {
    fn verify<'a>(
        &'a self,
        _account: &'a AccountId,
        _hash: &'a [u8; 32],
        _signature: &'a [u8],
        _block: Option<u64>,
    ) -> VerdictFuture<'a> {
        Box::pin(Late(self, false))
    }
}

/// Verdicts are waited for together, but never more than sixteen.
#[test]
fn open_questions_are_bounded() {
    let contracts: Vec<_> = (0..40).map(|n| ContractWallet::numbered(n, 1)).collect();
    let update = contracts[1..]
        .iter()
        .fold(
            UpdateBuilder::creating(&contracts[0], 0),
            |update, contract| update.add(&contracts[0], contract),
        )
        .build();
    let slow = Slow {
        open: AtomicUsize::new(0),
        open_max: AtomicUsize::new(0),
    };
    let admission = admit_with(&[], &update, &slow).unwrap();
    assert_eq!(admission.after.members().len(), 40);
    assert_eq!(slow.open_max.into_inner(), 16);
}

/// An answer that comes early is still an answer to its own question.
#[test]
fn answers_belong_to_their_questions_whatever_comes_first() {
    /// Refuses chain 2 at once, accepts every other chain late.
    struct OutOfOrder(Slow);
    impl Verify for OutOfOrder {
        fn verify<'a>(
            &'a self,
            account: &'a AccountId,
            _hash: &'a [u8; 32],
            _signature: &'a [u8],
            _block: Option<u64>,
        ) -> VerdictFuture<'a> {
            if account.ethereum_chain_id() == Some(2) {
                return Box::pin(std::future::ready(Ok(Verdict {
                    is_valid: false,
                    block_number: 0,
                })));
            }
            Box::pin(Late(&self.0, false))
        }
    }
    let history = [creation()];
    let (here, refused) = (contract(), ContractWallet::numbered(2, 2));
    let update = UpdateBuilder::new(&history[0].inbox_id)
        .add(&here, &refused)
        .build();
    let verifier = OutOfOrder(Slow {
        open: AtomicUsize::new(0),
        open_max: AtomicUsize::new(0),
    });
    // The new update is at fault, not the stored one that was answered after it.
    assert_eq!(
        admit_with(&history, &update, &verifier).unwrap_err(),
        Error::Signature(SignatureError::Contract)
    );
}

/// The steps run apart from each other: the caller can move each where it likes.
#[test]
fn the_steps_can_be_sent_between_threads() {
    fn assert_send<T: Send>(value: T) -> T {
        value
    }
    let local = assert_send(verify_locally(vec![], creation(), ENTRIES_MAX).unwrap());
    assert_eq!(local.contract_signatures(), 1);
    let verifier = accepting();
    let verified = block_on(assert_send(local.verify_contracts(&verifier))).unwrap();
    assert!(assert_send(verified).apply().is_ok());
}

/// A history alone can be replayed, for readers that publish nothing.
#[test]
fn a_history_replays_to_its_state() {
    let history = vec![canonical::encode(&update_envelope(creation()))];
    let state = block_on(replay(history, &accepting())).unwrap().unwrap();
    assert_eq!(state.members().len(), 3);
    assert!(block_on(replay(vec![], &accepting())).unwrap().is_none());
    let broken = vec![bytes::Bytes::from_static(&[0xff])];
    assert!(matches!(
        block_on(replay(broken, &accepting())),
        Err(Error::StoredHistory { index: 0, .. })
    ));
}
