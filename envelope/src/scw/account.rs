//! Account ids of CAIP-10: which account on which chain.
//!
//! Three parts between colons. The first two name the chain (CAIP-2) and are compared as text; the
//! third is the account, of whatever form its chain uses.

use std::fmt;
use std::ops::RangeInclusive;

use thiserror::Error;

/// The 20 bytes of an Ethereum address.
pub type Address = [u8; 20];

/// The namespace of chains that are named by an Ethereum chain id.
const ETHEREUM_NAMESPACE: &str = "eip155";

/// Lengths in characters of the parts of an account id (CAIP-2, CAIP-10).
const NAMESPACE_CHARS: RangeInclusive<usize> = 3..=8;
const REFERENCE_CHARS: RangeInclusive<usize> = 1..=32;
const ACCOUNT_CHARS: RangeInclusive<usize> = 1..=128;

/// The text is not of the form of CAIP-10.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("account id is malformed")]
pub struct AccountIdError;

/// A well-formed account id. `Debug` shows the chain only.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountId {
    text: String,
    /// Length of the namespace.
    namespace_bytes: usize,
    /// Length of the namespace, a colon and the reference.
    chain_bytes: usize,
}

impl AccountId {
    /// Reads an account id such as `eip155:1:0xab16a96d359ec26a11e2c2b3d8f8b8942d5bfcdb`.
    ///
    /// # Errors
    ///
    /// [`AccountIdError`] unless there are exactly three parts, each of its length and alphabet.
    pub fn parse(text: &str) -> Result<Self, AccountIdError> {
        let mut parts = text.split(':');
        let (Some(namespace), Some(reference), Some(account), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(AccountIdError);
        };
        let well_formed = is_part(namespace, NAMESPACE_CHARS, |byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
        }) && is_part(reference, REFERENCE_CHARS, |byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
        }) && is_part(account, ACCOUNT_CHARS, |byte| {
            byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'%')
        });
        if !well_formed {
            return Err(AccountIdError);
        }
        Ok(Self {
            text: text.to_owned(),
            namespace_bytes: namespace.len(),
            chain_bytes: namespace.len() + 1 + reference.len(),
        })
    }

    /// The whole text, as it was read.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The chain, such as `eip155:1`. Chains are equal only when their texts are.
    #[must_use]
    pub fn chain(&self) -> &str {
        &self.text[..self.chain_bytes]
    }

    /// The number of an Ethereum chain, or `None` for a chain that is none or has no such number.
    #[must_use]
    pub fn ethereum_chain_id(&self) -> Option<u64> {
        let (namespace, reference) = self.chain().split_at(self.namespace_bytes);
        if namespace != ETHEREUM_NAMESPACE {
            return None;
        }
        reference.strip_prefix(':')?.parse().ok()
    }

    /// The account part, as it was read.
    #[must_use]
    pub fn account(&self) -> &str {
        &self.text[self.chain_bytes + 1..]
    }

    /// The account as an Ethereum address: 40 hexadecimal digits of either case, with or without
    /// `0x`. Mixed-case checksums are not looked at.
    #[must_use]
    pub fn address(&self) -> Option<Address> {
        let digits = self.account().strip_prefix("0x").unwrap_or(self.account());
        let mut address = Address::default();
        hex::decode_to_slice(digits, &mut address).ok()?;
        Some(address)
    }
}

fn is_part(part: &str, chars: RangeInclusive<usize>, allows: impl Fn(u8) -> bool) -> bool {
    // The alphabets are ASCII, so a part that passes has as many characters as bytes.
    chars.contains(&part.len()) && part.bytes().all(allows)
}

impl fmt::Debug for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountId")
            .field("chain", &self.chain())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published examples of CAIP-10, and the longest and shortest parts.
    #[test]
    fn account_ids_of_every_namespace_parse() {
        let longest = format!("{}:{}:{}", "n".repeat(8), "R".repeat(32), "a".repeat(128));
        let cases = [
            (
                "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb",
                Some(1),
                true,
            ),
            (
                "bip122:000000000019d6689c085ae165831e93:128Lkh3S7CkDTBZ8W7BbpsN3YYizJMp8p6",
                None,
                false,
            ),
            (
                "cosmos:cosmoshub-3:cosmos1t2uflqwqe0fsj0shcfkrvpukewcw40yjj6hdc0",
                None,
                false,
            ),
            (
                "starknet:SN_GOERLI:0x02dd1b492765c064eac4039e3841aa5f382773b598097a40073bd8b48170ab57",
                None,
                false,
            ),
            ("hedera:mainnet:0.0.1234567890-zbhlt", None, false),
            (
                "eip155:18446744073709551615:ab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb",
                Some(u64::MAX),
                true,
            ),
            ("eip155:18446744073709551616:0x", None, false),
            ("abc:1:a", None, false),
            (longest.as_str(), None, false),
        ];
        for (text, chain_id, has_address) in cases {
            let id = AccountId::parse(text).unwrap();
            assert_eq!(id.as_str(), text);
            assert_eq!(format!("{}:{}", id.chain(), id.account()), text);
            assert_eq!(id.ethereum_chain_id(), chain_id, "{text}");
            assert_eq!(id.address().is_some(), has_address, "{text}");
        }
    }

    /// Wrong numbers of parts, alphabets and lengths (case 118).
    #[test]
    fn other_texts_are_no_account_ids() {
        let cases = [
            String::new(),
            "eip/155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcd".to_owned(),
            "eip155:1".to_owned(),
            "eip155:1:0x00:1".to_owned(),
            "ab:1:a".to_owned(),
            "EIP155:1:a".to_owned(),
            "eip155::a".to_owned(),
            "eip155:1:".to_owned(),
            "eip155:1:é".to_owned(),
            "eip155:1:a\n".to_owned(),
            format!("{}:1:a", "n".repeat(9)),
            format!("eip155:{}:a", "1".repeat(33)),
            format!("eip155:1:{}", "a".repeat(129)),
        ];
        for text in cases {
            assert_eq!(AccountId::parse(&text), Err(AccountIdError), "{text}");
        }
    }
}
