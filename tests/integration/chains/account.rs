//! Contract wallets that really sign: their code asks the chain whose key it was.

use envelope::ethereum;
use envelope::fixtures::keys::erc_6492;
use envelope::fixtures::{Signer, Wallet};
use envelope::scw::Address;
use envelope::wire::xmtp::identity::associations::member_identifier::Kind;
use envelope::wire::xmtp::identity::associations::{MemberIdentifier, Signature};
use harness::chain::{creation, owned_wallet};

use super::{CHAIN, FACTORY};

/// A contract wallet that answers to a key.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) address: Address,
    key: Wallet,
    pub(super) block: u64,
    /// How to deploy it first.
    deployment: Option<Vec<u8>>,
}

impl Account {
    /// The wallet of a key, deployed at an address.
    pub(super) fn deployed(number: u64, address: Address) -> Self {
        Self {
            address,
            key: Wallet::numbered(number),
            block: 1,
            deployment: None,
        }
    }

    /// The wallet of a key where the factory would deploy it.
    pub(super) fn not_deployed(number: u64) -> Self {
        let key = Wallet::numbered(number);
        let creation = creation(&owned_wallet(address_of(&key)));
        let salt = [0x07; 32];
        let hash = ethereum::keccak256(&creation);
        let hash = ethereum::keccak256(&[&[0xff][..], &FACTORY, &salt, &hash].concat());
        Self {
            address: *hash.last_chunk().unwrap(),
            key,
            block: 1,
            deployment: Some([&salt[..], &creation].concat()),
        }
    }

    pub(super) fn at(&self, block: u64) -> Self {
        Self {
            block,
            ..self.clone()
        }
    }

    pub(super) fn signed_by(&self, number: u64) -> Self {
        Self {
            key: Wallet::numbered(number),
            ..self.clone()
        }
    }

    pub(super) fn code(&self) -> Vec<u8> {
        owned_wallet(address_of(&self.key))
    }

    pub(super) fn account_id(&self) -> String {
        format!("eip155:{CHAIN}:{}", ethereum::address_text(&self.address))
    }

    pub(super) fn signature(&self, digest: &[u8; 32]) -> Vec<u8> {
        let inner = self.key.sign_digest(digest);
        match &self.deployment {
            None => inner.to_vec(),
            Some(deployment) => wrap(deployment, &inner),
        }
    }
}

impl Signer for Account {
    fn member(&self) -> MemberIdentifier {
        MemberIdentifier {
            kind: Some(Kind::EthereumAddress(ethereum::address_text(&self.address))),
        }
    }

    fn sign(&self, text: &str) -> Option<Signature> {
        let digest = ethereum::personal_message_digest(text.as_bytes());
        let signature = self.signature(&digest);
        Some(erc_6492(&self.account_id(), self.block, &signature))
    }
}

fn address_of(wallet: &Wallet) -> Address {
    let mut address = Address::default();
    hex::decode_to_slice(&wallet.address()[2..], &mut address).unwrap();
    address
}

fn word(number: usize) -> [u8; 32] {
    let mut word = [0; 32];
    word[24..].copy_from_slice(&(number as u64).to_be_bytes());
    word
}

fn wrap(deployment: &[u8], inner: &[u8]) -> Vec<u8> {
    let padded = |bytes: &[u8]| {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(32), 0);
        padded
    };
    [
        &[0; 12][..],
        &FACTORY,
        &word(0x60),
        &word(0x80 + padded(deployment).len()),
        &word(deployment.len()),
        &padded(deployment),
        &word(inner.len()),
        &padded(inner),
        &[0x64, 0x92].repeat(16),
    ]
    .concat()
}
