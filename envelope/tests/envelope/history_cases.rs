//! Updates and histories as a whole (cases 109 and 110), and whose fault a failure is.

use envelope::error::{IdentityError, Malformed};
use envelope::fixtures::{ScriptedVerifier, Signer, UpdateBuilder, group_message, update_envelope};
use std::cell::Cell;

use envelope::identity::{verify_locally, verify_locally_while};
use envelope::scw::VerifierError;
use envelope::wire::xmtp::identity::associations::IdentityUpdate;
use envelope::{Error, canonical};

use crate::state_cases::{app, inbox, refuse, wallet};
use crate::support::{ENTRIES_MAX, admit, block_on, members};

/// Case 109: what fails in the middle fails as a whole.
#[test]
fn an_update_applies_as_a_whole() {
    let (history, id) = inbox();
    let owner = wallet(0);
    let update = UpdateBuilder::new(&id)
        .add(&owner, &app(1))
        .add(&wallet(9), &app(2))
        .add(&owner, &app(3))
        .build();
    refuse(&history, &update, IdentityError::MissingExistingMember);
}

/// A member removed and added again in one update, or the reverse, changes no projection.
#[test]
fn the_projection_sees_an_update_as_a_whole() {
    let (history, id) = inbox();
    let (owner, second) = (wallet(0), wallet(1));
    let there_and_back = UpdateBuilder::new(&id)
        .revoke(&owner, owner.member())
        .add(&owner, &second)
        .add(&second, &owner)
        .revoke(&owner, second.member())
        .build();
    let admission = admit(&history, &there_and_back).unwrap();
    assert_eq!(members(&admission.after), [owner.address()]);
    assert_eq!(admission.changes, Default::default());
}

/// Case 110: the history that takes one more update has one less than the limit.
#[test]
fn a_full_history_takes_no_more() {
    let (history, id) = inbox();
    let empty = UpdateBuilder::new(&id).build();
    let stored: Vec<_> = history
        .iter()
        .chain(std::iter::repeat(&empty))
        .take(ENTRIES_MAX)
        .map(|update| canonical::encode(&update_envelope(update.clone())))
        .collect();
    let update = UpdateBuilder::new(&id).add(&wallet(0), &app(1)).build();
    for length in [ENTRIES_MAX - 2, ENTRIES_MAX - 1] {
        assert!(verify_locally(stored[..length].to_vec(), update.clone(), ENTRIES_MAX).is_ok());
    }
    let error = verify_locally(stored, update, ENTRIES_MAX).err().unwrap();
    assert_eq!(error, Error::Identity(IdentityError::TooManyEntries));
}

/// A check asks before each of its costly steps whether to go on, and takes none after a no: one step
/// for every stored update that is decoded and for every different signature (ARC-051).
#[test]
fn a_check_ends_at_the_step_at_which_nobody_waits() {
    let (history, id) = inbox();
    let owner = wallet(0);
    let others: Vec<_> = (1..=20).map(wallet).collect();
    let update = others
        .iter()
        .fold(UpdateBuilder::new(&id), |update, other| {
            update.add(&owner, other)
        })
        .build();
    let stored: Vec<_> = history
        .iter()
        .map(|update| canonical::encode(&update_envelope(update.clone())))
        .collect();
    let steps_until = |last: usize| {
        let steps = Cell::new(0);
        let go_on = || {
            steps.set(steps.get() + 1);
            steps.get() < last
        };
        let outcome = verify_locally_while(stored.clone(), update.clone(), ENTRIES_MAX, &go_on);
        (outcome.map(drop), steps.get())
    };
    let (outcome, all) = steps_until(usize::MAX);
    assert_eq!(outcome, Ok(()));
    // The owner's signature is one, however often an update uses it.
    let signatures_stored = 2;
    assert_eq!(all, others.len() + 1 + stored.len() + signatures_stored);
    for last in 1..=all {
        let (outcome, steps) = steps_until(last);
        assert_eq!(outcome, Err(Error::Interrupted), "{last}");
        assert_eq!(steps, last);
    }
    let no_chain = ScriptedVerifier::always(Err(VerifierError::NoRoute));
    // Folding asks before each update.
    let verified = verify_locally(stored.clone(), update, ENTRIES_MAX).unwrap();
    let verified = block_on(verified.verify_contracts(&no_chain)).unwrap();
    let outcome = verified.apply_while(&|| false);
    assert_eq!(outcome.err(), Some(Error::Interrupted));
}

/// Broken stored history is not the publisher's fault (ARC-090): its place is told, no reason is.
#[test]
fn broken_history_is_told_apart() {
    let (history, id) = inbox();
    let update = UpdateBuilder::new(&id).add(&wallet(0), &app(1)).build();
    let stored = |update: &IdentityUpdate| canonical::encode(&update_envelope(update.clone()));
    let mut forged = history[0].clone();
    forged.client_timestamp_ns = 0;
    let mut incomplete = history[0].clone();
    incomplete.actions[0].kind = None;
    let rules = UpdateBuilder::new(&id).add(&wallet(9), &app(1)).build();
    let good = stored(&history[0]);
    let cases = [
        vec![good.clone(), bytes::Bytes::from_static(&[0xff])],
        vec![
            good.clone(),
            canonical::encode(&group_message::application(&[1; 16])),
        ],
        vec![good.clone(), stored(&incomplete)],
        vec![good.clone(), stored(&forged)],
        vec![good.clone(), stored(&rules)],
    ];
    for history in cases {
        let outcome = verify_locally(history, update.clone(), ENTRIES_MAX).and_then(|local| {
            let verifier = ScriptedVerifier::always(Ok(true));
            block_on(local.verify_contracts(&verifier))?.apply()
        });
        let error = outcome.unwrap_err();
        assert!(
            matches!(error, Error::StoredHistory { index: 1, .. }),
            "{error:?}"
        );
        assert_eq!((error.reason(), error.is_retryable()), (None, false));
    }
    let other_kind = canonical::encode(&group_message::application(&[1; 16]));
    let error = verify_locally(vec![other_kind], update, ENTRIES_MAX)
        .err()
        .unwrap();
    assert_eq!(
        error,
        Error::StoredHistory {
            index: 0,
            source: Box::new(Error::Malformed(Malformed::OtherKind)),
        }
    );
}

/// A fault of the new update is reported as such even when the history is broken as well.
#[test]
fn the_new_update_is_looked_at_first() {
    let (_, id) = inbox();
    let mut update = UpdateBuilder::new(&id).add(&wallet(0), &app(1)).build();
    update.actions[0].kind = None;
    let history = vec![bytes::Bytes::from_static(&[0xff])];
    assert_eq!(
        verify_locally(history, update, ENTRIES_MAX).err(),
        Some(Error::Identity(IdentityError::MissingField))
    );
}

/// What reaches a log tells nobody who is in which inbox (ARC-101).
#[test]
fn states_do_not_show_identifiers_in_debug_output() {
    let (history, id) = inbox();
    let admission = admit(&history, &UpdateBuilder::new(&id).build()).unwrap();
    let text = format!(
        "{admission:?} {:?}",
        admission.after.members().collect::<Vec<_>>()
    );
    assert!(!text.contains("0x"), "{text}");
    assert!(!text.contains(&id), "{text}");
}
