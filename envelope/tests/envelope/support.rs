//! What the tests share: limits that never bite, an executor for futures that are always ready,
//! and the whole path of an identity update.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use envelope::fixtures::{ScriptedVerifier, update_envelope};
use envelope::identity::{Admission, AssociationState, verify_locally};
use envelope::scw::{VerifierError, Verify};
use envelope::wire::xmtp::backend::v1::ClientEnvelope;
use envelope::wire::xmtp::identity::associations::IdentityUpdate;
use envelope::{Error, Limits, Parsed, canonical};

/// Limits that no ordinary payload reaches.
pub(crate) const LIMITS: Limits = Limits {
    envelope_bytes_max: 1 << 20,
    contract_signatures_max: 100,
};

/// The longest history that takes one more update, plus one.
pub(crate) const ENTRIES_MAX: usize = 256;

/// Parses with limits that do not bite.
pub(crate) fn parse(envelope: ClientEnvelope) -> Result<Parsed, Error> {
    envelope::parse(envelope, LIMITS)
}

/// Runs a future to its end. Every future here is ready or wakes itself.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
    panic!("the future never gets ready");
}

/// Judges an update after a history with a verifier.
pub(crate) fn admit_with(
    history: &[IdentityUpdate],
    update: &IdentityUpdate,
    verifier: &dyn Verify,
) -> Result<Admission, Error> {
    let history = history
        .iter()
        .map(|update| canonical::encode(&update_envelope(update.clone())))
        .collect();
    let local = verify_locally(history, update.clone(), ENTRIES_MAX)?;
    block_on(local.verify_contracts(verifier))?.apply()
}

/// Judges an update after a history that carries no smart-contract-wallet signatures.
pub(crate) fn admit(
    history: &[IdentityUpdate],
    update: &IdentityUpdate,
) -> Result<Admission, Error> {
    let verifier = ScriptedVerifier::always(Err(VerifierError::NoRoute));
    let admission = admit_with(history, update, &verifier);
    assert_eq!(verifier.calls(), 0);
    admission
}

/// The texts of all members, sorted.
pub(crate) fn members(state: &AssociationState) -> Vec<String> {
    let mut texts: Vec<_> = state.members().map(|(member, _)| member.text()).collect();
    texts.sort();
    texts
}
