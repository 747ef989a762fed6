//! The few pieces of Ethereum that identities rest on: Keccak-256, personal-message digests,
//! addresses, and the recovery of a signer.
//!
//! Nothing here decides who may sign what (ARC-013).

use k256::ecdsa::{RecoveryId, Signature, VerifyingKey};
use sha3::{Digest, Keccak256};

use crate::scw::Address;

/// The Keccak-256 hash of some bytes.
#[must_use]
pub fn keccak256(bytes: &[u8]) -> [u8; 32] {
    Keccak256::digest(bytes).into()
}

/// What a wallet signs when it is shown a text (ERC-191, version `0x45`).
#[must_use]
pub fn personal_message_digest(text: &[u8]) -> [u8; 32] {
    Keccak256::new()
        .chain_update(b"\x19Ethereum Signed Message:\n")
        .chain_update(text.len().to_string())
        .chain_update(text)
        .finalize()
        .into()
}

/// The address of a public key.
#[must_use]
pub fn address(key: &VerifyingKey) -> Address {
    let point = key.to_encoded_point(false);
    // An uncompressed point is a tag byte and 64 bytes of coordinates; the address is the end of
    // the hash of the coordinates.
    let hash = keccak256(point.as_bytes().get(1..).unwrap_or_default());
    let mut address = Address::default();
    address.copy_from_slice(&hash[12..]);
    address
}

/// The form in which an address signs: `0x` and 40 lower-case digits.
#[must_use]
pub fn address_text(address: &Address) -> String {
    format!("0x{}", hex::encode(address))
}

/// Whose signature `r ‖ s` over a digest is. A high `s` is taken as the low one it mirrors, with
/// the parity as given.
///
/// Returns `None` when `r` or `s` is out of range or no key fits.
#[must_use]
pub fn recover(digest: &[u8; 32], signature: &[u8; 64], is_y_odd: bool) -> Option<Recovered> {
    let signature = Signature::from_slice(signature).ok()?;
    let signature = signature.normalize_s().unwrap_or(signature);
    let recovery = RecoveryId::new(is_y_odd, false);
    let key = VerifyingKey::recover_from_prehash(digest, &signature, recovery).ok()?;
    Some(Recovered {
        address: address(&key),
        low_s: signature.to_bytes().into(),
    })
}

/// Whose signature `r ‖ s` over a digest is, as the machine of Ethereum recovers it: with `s` of either
/// half.
///
/// Returns `None` when `r` or `s` is out of range or no key fits.
#[must_use]
pub fn recover_any_s(digest: &[u8; 32], signature: &[u8; 64], is_y_odd: bool) -> Option<Address> {
    // Mirroring `s` mirrors the point, so a high `s` is the low one with the other parity.
    let is_high = Signature::from_slice(signature)
        .ok()?
        .normalize_s()
        .is_some();
    let recovered = recover(digest, signature, is_y_odd != is_high)?;
    Some(recovered.address)
}

/// The outcome of [`recover`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Who signed.
    pub address: Address,
    /// The signature `r ‖ s` with the lower of the two possible `s`.
    pub low_s: [u8; 64],
}
