//! Signatures of a wallet's own key over the text (ERC-191).

use bytes::Bytes;

use super::super::ident::MemberIdentifier;
use super::verified::{SignatureKind, SignedText, VerifiedSignature};
use crate::error::SignatureError;
use crate::ethereum::{self, address_text};
use crate::scw::Address;

/// A signer and the canonical 65 bytes of its signature.
pub(super) struct Signer {
    pub(super) address: Address,
    pub(super) replay: [u8; 65],
}

/// Verifies 65 bytes `r ‖ s ‖ v` over the text of an update.
pub(super) fn verify(text: &SignedText, bytes: &[u8]) -> Result<VerifiedSignature, SignatureError> {
    let signer = recover(&text.personal_digest, bytes)?;
    Ok(VerifiedSignature {
        signer: MemberIdentifier::Ethereum(address_text(&signer.address)),
        kind: SignatureKind::Erc191,
        replay: Bytes::copy_from_slice(&signer.replay),
        chain_id: None,
    })
}

/// Recovers who signed a digest with 65 bytes `r ‖ s ‖ v`.
///
/// A high `s` is lowered while `v` stays as given. Existing validators do so, which has two effects
/// that must be kept: a mirrored signature with the old `v` is the same signature, and forms of one
/// signature that differ in `v` only are different ones to the replay rule.
pub(super) fn recover(digest: &[u8; 32], bytes: &[u8]) -> Result<Signer, SignatureError> {
    let (signature, v) = match bytes.split_first_chunk::<64>() {
        Some((signature, &[v])) => (signature, v),
        _ => return Err(SignatureError::Ecdsa),
    };
    let is_y_odd = match v {
        0 | 27 => false,
        1 | 28 => true,
        // v of ERC-155: the chain id doubled, plus 35 or 36.
        35.. => (v - 35) % 2 == 1,
        _ => return Err(SignatureError::Ecdsa),
    };
    let recovered = ethereum::recover(digest, signature, is_y_odd).ok_or(SignatureError::Ecdsa)?;
    let mut replay = [v; 65];
    replay[..64].copy_from_slice(&recovered.low_s);
    Ok(Signer {
        address: recovered.address,
        replay,
    })
}
