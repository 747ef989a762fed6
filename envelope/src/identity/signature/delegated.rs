//! Signatures of a legacy key that a wallet once delegated to.
//!
//! Two signatures in one: the legacy key's over the text, and the wallet's over the legacy key. The
//! signer is the wallet.

use bytes::Bytes;
use k256::ecdsa::VerifyingKey;
use prost::Message;

use super::super::ident::MemberIdentifier;
use super::ecdsa;
use super::verified::{SignatureKind, SignedText, VerifiedSignature};
use crate::error::SignatureError;
use crate::ethereum::{address, address_text, personal_message_digest};
use crate::wire::xmtp::message_contents::signature::{EcdsaCompact, Union, WalletEcdsaCompact};
use crate::wire::xmtp::message_contents::unsigned_public_key::Union as LegacyKey;
use crate::wire::xmtp::message_contents::{SignedPublicKey, UnsignedPublicKey};

/// Verifies a legacy key's signature over the text of an update, and the wallet's over the key.
pub(super) fn verify(
    text: &SignedText,
    delegated_key: &SignedPublicKey,
    signature: &[u8],
) -> Result<VerifiedSignature, SignatureError> {
    let legacy_signer = ecdsa::recover(&text.personal_digest, signature)?;
    let wallet_signature = wallet_signature(delegated_key).ok_or(SignatureError::LegacyKey)?;
    let wallet = ecdsa::recover(
        &personal_message_digest(delegation_text(&delegated_key.key_bytes).as_bytes()),
        &wallet_signature,
    )?;
    let legacy_key = legacy_key(&delegated_key.key_bytes).ok_or(SignatureError::LegacyKey)?;
    if address(&legacy_key) != legacy_signer.address {
        return Err(SignatureError::LegacyKey);
    }
    Ok(VerifiedSignature {
        signer: MemberIdentifier::Ethereum(address_text(&wallet.address)),
        kind: SignatureKind::LegacyDelegated,
        // The wallet's signature, so that one delegation works once per inbox.
        replay: Bytes::copy_from_slice(&wallet.replay),
        chain_id: None,
    })
}

/// What a wallet signed when it delegated to a key. Unlike the text of updates it ends in a slash.
fn delegation_text(key_bytes: &[u8]) -> String {
    format!(
        "XMTP : Create Identity\n{}\n\nFor more info: https://xmtp.org/signatures/",
        hex::encode(key_bytes)
    )
}

/// `r ‖ s ‖ v`, whichever way it was filed.
fn wallet_signature(delegated_key: &SignedPublicKey) -> Option<Vec<u8>> {
    let (Union::EcdsaCompact(EcdsaCompact { bytes, recovery })
    | Union::WalletEcdsaCompact(WalletEcdsaCompact { bytes, recovery })) =
        delegated_key.signature.as_ref()?.union.as_ref()?;
    let mut signature = bytes.to_vec();
    // Only the low byte counts; existing validators drop the others.
    signature.push(recovery.to_le_bytes()[0]);
    Some(signature)
}

fn legacy_key(key_bytes: &[u8]) -> Option<VerifyingKey> {
    let LegacyKey::Secp256k1Uncompressed(point) =
        UnsignedPublicKey::decode(key_bytes).ok()?.union?;
    VerifyingKey::from_sec1_bytes(&point.bytes).ok()
}
