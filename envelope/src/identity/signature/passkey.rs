//! Signatures of a passkey over the text (ECDSA on P-256, inside WebAuthn client data).
//!
//! This proves possession of the key and nothing more. It is no WebAuthn relying-party check:
//! ceremony type, origin, relying-party hash, user presence and verification, counter and backup
//! flags are not looked at, because existing validators do not (ARC-013).

use bytes::Bytes;
use p256::ecdsa::signature::DigestVerifier;
use p256::ecdsa::{Signature, VerifyingKey};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::super::ident::MemberIdentifier;
use super::verified::{SignatureKind, SignedText, VerifiedSignature};
use crate::error::SignatureError;
use crate::wire::xmtp::identity::associations::RecoverablePasskeySignature;

/// The members of client data that must be there, once each. The order of the fields matters:
/// existing decoders also take an array of the two.
#[derive(Deserialize)]
struct ClientData {
    #[serde(rename = "origin")]
    _origin: String,
    challenge: String,
}

/// Verifies a passkey's signature over the text of an update. The signer is the key as given.
pub(super) fn verify(
    text: &SignedText,
    passkey: &RecoverablePasskeySignature,
) -> Result<VerifiedSignature, SignatureError> {
    let client_data: ClientData = serde_json::from_slice(&passkey.client_data_json)
        .map_err(|_| SignatureError::PasskeyClientData)?;
    if client_data.challenge != text.challenge {
        return Err(SignatureError::PasskeyChallenge);
    }
    let key =
        VerifyingKey::from_sec1_bytes(&passkey.public_key).map_err(|_| SignatureError::Passkey)?;
    let signature = Signature::from_der(&passkey.signature).map_err(|_| SignatureError::Passkey)?;
    let signed = Sha256::new()
        .chain_update(&passkey.authenticator_data)
        .chain_update(Sha256::digest(&passkey.client_data_json));
    key.verify_digest(signed, &signature)
        .map_err(|_| SignatureError::Passkey)?;
    Ok(VerifiedSignature {
        signer: MemberIdentifier::Passkey(passkey.public_key.clone()),
        kind: SignatureKind::P256,
        // `s` is not lowered here, so the two forms of one signature are different to the replay
        // rule. Existing validators keep it so (ARC-013).
        replay: Bytes::copy_from_slice(&signature.to_bytes()),
        chain_id: None,
    })
}
