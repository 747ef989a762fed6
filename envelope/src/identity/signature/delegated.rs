//! Signatures of a legacy key that a wallet once delegated to.
//!
//! Two signatures in one: the legacy key's over the text, and the wallet's over the legacy key. The
//! signer is the wallet.

use bytes::Bytes;
use k256::ecdsa::VerifyingKey;
use prost::Message;

use super::super::ident::MemberIdentifier;
use super::ecdsa::{self, Signer};
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
    let (wallet, legacy_key) = delegation(delegated_key)?;
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

/// The wallet that delegated, and the key that it delegated to.
fn delegation(delegated_key: &SignedPublicKey) -> Result<(Signer, VerifyingKey), SignatureError> {
    let signature = wallet_signature(delegated_key).ok_or(SignatureError::LegacyKey)?;
    let text = delegation_text(&delegated_key.key_bytes);
    let wallet = ecdsa::recover(&personal_message_digest(text.as_bytes()), &signature)?;
    let legacy_key = legacy_key(&delegated_key.key_bytes).ok_or(SignatureError::LegacyKey)?;
    Ok((wallet, legacy_key))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A key as a client once published it, with the wallet it belongs to.
    #[test]
    fn a_published_legacy_key_names_its_wallet() {
        let bytes = hex::decode("0a4f08c0c3a5aecb99e7d5171a430a4104d854aefcc6e1dba8efa63ee9ce6c359b5784082b5b245b515dd543f145051ff9ba817790042c364cb95f3d17e74807a91246714fad520d2592c92baeb4217d2b124612440a40078864ac9bf7e6fffdf74e32d4e2294eefb788f77a589bf5dbb7d7ca2a59a28060607883114626e7021b5b1d426e808c012ad9b902b5d0648f8fdb9fae01e9bf1001").unwrap();
        let mut key = SignedPublicKey::decode(&bytes[..]).unwrap();
        let (wallet, legacy_key) = delegation(&key).unwrap();
        assert_eq!(
            address_text(&wallet.address),
            "0x220ca99fb7fafa18cb623d924794dde47b4bc2e9"
        );
        assert_eq!(
            address_text(&address(&legacy_key)),
            "0xdf74037516f680d39d2fc9821f80aa2ccf5dbc89"
        );
        let mut key_bytes = key.key_bytes.to_vec();
        key_bytes[0] += 1;
        key.key_bytes = key_bytes.into();
        assert_eq!(delegation(&key).err(), Some(SignatureError::LegacyKey));
    }
}
