//! One update's signatures, verified as far as this process can on its own.
//!
//! The work per signature does not grow with the text: digests of the text are made once per
//! update, and a signature that an update carries twice is verified once.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use sha2::{Digest, Sha512};

use super::super::convert::{ContractSignature, Signature, Update};
use super::super::history::check_interruption;
use super::super::ident::MemberIdentifier;
use super::super::text;
use super::{contract, delegated, ecdsa, installation, passkey};
use crate::error::{Error, SignatureError};
use crate::ethereum::personal_message_digest;

/// How a signer signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::identity) enum SignatureKind {
    /// A wallet's own key.
    Erc191,
    /// A smart-contract wallet.
    Erc1271,
    /// An installation's key.
    InstallationKey,
    /// A legacy key to which a wallet had delegated.
    LegacyDelegated,
    /// A passkey.
    P256,
}

/// A signature that verifies over the text of its update.
#[derive(Clone)]
pub(in crate::identity) struct VerifiedSignature {
    pub(in crate::identity) signer: MemberIdentifier,
    pub(in crate::identity) kind: SignatureKind,
    /// The bytes by which a second use is recognized.
    pub(in crate::identity) replay: Bytes,
    /// The chain of a smart-contract wallet.
    pub(in crate::identity) chain_id: Option<u64>,
}

/// A signature after local verification: done, or number so-and-so of those to ask a chain about.
#[derive(Clone)]
pub(in crate::identity) enum Local {
    Verified(VerifiedSignature),
    Contract(usize),
}

/// The text of one update in each form that some kind of signature covers.
pub(in crate::identity) struct SignedText {
    /// What a wallet signs.
    pub(super) personal_digest: [u8; 32],
    /// What an installation signs, not yet finished.
    pub(super) prehash: Sha512,
    /// What a passkey signs, as its client data shows it.
    pub(super) challenge: String,
}

impl SignedText {
    fn new(text: &str) -> Self {
        Self {
            personal_digest: personal_message_digest(text.as_bytes()),
            prehash: Sha512::new_with_prefix(text),
            challenge: URL_SAFE_NO_PAD.encode(text),
        }
    }
}

/// An update without local faults, and the questions it leaves for chains.
pub(in crate::identity) struct LocalUpdate {
    pub(in crate::identity) update: Update<Local>,
    /// Different signatures that smart-contract wallets have to judge, in order of appearance.
    pub(in crate::identity) contracts: Vec<ContractSignature>,
    /// What those wallets are asked about.
    pub(in crate::identity) personal_digest: [u8; 32],
}

/// Verifies every signature of an update that needs no chain.
///
/// # Errors
///
/// The first [`SignatureError`] in action order, the new member before the existing one;
/// [`Error::Interrupted`] once `go_on`, which is asked before every verification, says no.
pub(in crate::identity) fn verify_update(
    update: Update<Signature>,
    go_on: &dyn Fn() -> bool,
) -> Result<LocalUpdate, Error> {
    let text = SignedText::new(&text::of(&update));
    let mut known: HashMap<Signature, Local> = HashMap::new();
    let mut contracts = Vec::new();
    let update = update.try_map(|signature| {
        if let Some(local) = known.get(&signature) {
            return Ok(local.clone());
        }
        check_interruption(go_on)?;
        let local = match &signature {
            Signature::Ecdsa(bytes) => Local::Verified(ecdsa::verify(&text, bytes)?),
            Signature::Contract(contract) => {
                contracts.push(contract.clone());
                Local::Contract(contracts.len() - 1)
            }
            Signature::Installation { key, signature } => {
                Local::Verified(installation::verify(&text, key, signature)?)
            }
            Signature::Delegated {
                delegated_key,
                signature,
            } => Local::Verified(delegated::verify(&text, delegated_key, signature)?),
            Signature::Passkey(signature) => Local::Verified(passkey::verify(&text, signature)?),
        };
        known.insert(signature, local.clone());
        Ok::<_, Error>(local)
    })?;
    Ok(LocalUpdate {
        update,
        contracts,
        personal_digest: text.personal_digest,
    })
}

/// Puts the answers of smart-contract wallets, all of them positive, where they belong.
///
/// # Errors
///
/// [`SignatureError::ContractAccount`] for an account that cannot be a member of an inbox.
pub(in crate::identity) fn resolve(
    local: LocalUpdate,
) -> Result<Update<VerifiedSignature>, SignatureError> {
    let signers = local
        .contracts
        .iter()
        .map(contract::accepted)
        .collect::<Result<Vec<_>, _>>()?;
    local.update.try_map(|signature| match signature {
        Local::Verified(signature) => Ok(signature),
        // The index was made from this very list, so the lookup does not fail.
        Local::Contract(index) => signers.get(index).cloned().ok_or(SignatureError::Contract),
    })
}
