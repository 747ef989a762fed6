//! Signatures of an installation's key over the text (RFC 8032, Ed25519ph).

use bytes::Bytes;
use ed25519_dalek::{Signature, VerifyingKey};

use super::super::ident::MemberIdentifier;
use super::verified::{SignatureKind, SignedText, VerifiedSignature};
use crate::error::SignatureError;

/// The context that sets signatures of identity updates apart from an installation's others.
pub const INSTALLATION_SIGNATURE_CONTEXT: &[u8] = b"IDENTITY UPDATE SIGNATURE";

/// Verifies 64 bytes over the text of an update.
///
/// Points of small order are not refused: existing validators accept them (ARC-013).
pub(super) fn verify(
    text: &SignedText,
    key: &VerifyingKey,
    bytes: &Bytes,
) -> Result<VerifiedSignature, SignatureError> {
    let signature = Signature::from_slice(bytes).map_err(|_| SignatureError::Installation)?;
    key.verify_prehashed(
        text.prehash.clone(),
        Some(INSTALLATION_SIGNATURE_CONTEXT),
        &signature,
    )
    .map_err(|_| SignatureError::Installation)?;
    Ok(VerifiedSignature {
        signer: MemberIdentifier::Installation(Bytes::copy_from_slice(key.as_bytes())),
        kind: SignatureKind::InstallationKey,
        replay: bytes.clone(),
        chain_id: None,
    })
}
