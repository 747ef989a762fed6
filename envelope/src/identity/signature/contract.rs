//! Signatures that a smart-contract wallet accepted (ERC-1271, ERC-6492).

use super::super::convert::ContractSignature;
use super::super::ident::MemberIdentifier;
use super::verified::{SignatureKind, VerifiedSignature};
use crate::error::SignatureError;

/// The verified form of a signature that its wallet accepted.
///
/// The signer is the account in lower case, with `0x` only if the account id has it, and belongs to
/// its chain.
pub(super) fn accepted(contract: &ContractSignature) -> Result<VerifiedSignature, SignatureError> {
    let account = &contract.account;
    if account.address().is_none() {
        return Err(SignatureError::ContractAccount);
    }
    let chain_id = account
        .ethereum_chain_id()
        .ok_or(SignatureError::ContractAccount)?;
    Ok(VerifiedSignature {
        signer: MemberIdentifier::Ethereum(account.account().to_ascii_lowercase()),
        kind: SignatureKind::Erc1271,
        replay: contract.signature.clone(),
        chain_id: Some(chain_id),
    })
}
