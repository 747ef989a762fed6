//! The question to a contract wallet as one simulated call, and how its result reads (ERC-1271,
//! ERC-6492).
//!
//! A node that simulates the creation of a contract runs the init code that it is given. Ours asks the
//! wallet, after having its factory deploy it if need be, and returns one byte; nothing of it is ever
//! deployed. What needs no chain is decided here: bytes that can never be a signature, and the
//! signature of an ordinary key, for an account without code.
//!
//! Nothing here is wider than what existing validators accept. Where those fail on input that can
//! never become valid at its block, the answer here is that it is not valid (ARC-091, ARC-092).

use super::Address;
use super::wrapper::{self, Wrapper};
use crate::ethereum;

/// The selector of `isValidSignature(bytes32,bytes)`, which is also what it returns for yes.
const IS_VALID_SIGNATURE: [u8; 4] = [0x16, 0x26, 0xba, 0x7e];

/// Length of a word of the machine and of its encoding of arguments.
const WORD: usize = 32;

/// The length below which the reference judges nothing (ERC-6492).
const SIGNATURE_BYTES_MIN: usize = 32;

/// What the program returns.
const VALID: &[u8] = &[1];
const NO_CODE: &[u8] = &[2];

/// The init code. It is followed by its arguments: the wallet, its factory or zero, the lengths of
/// the call to the factory and of the call to the wallet, and the two calls.
const PROGRAM: [u8; 110] = [
    // The arguments go to memory, from 0 on.
    0x60, 0x6e, 0x80, 0x38, 0x03, 0x90, 0x60, 0x00,
    0x39, // PUSH 6e DUP1 CODESIZE SUB SWAP1 PUSH 0 CODECOPY
    // A wallet that has code is asked.
    0x60, 0x00, 0x51, 0x3b, 0x60, 0x2a, 0x57, // PUSH 0 MLOAD EXTCODESIZE PUSH ask JUMPI
    // Without factory there is nobody to ask.
    0x60, 0x20, 0x51, 0x80, 0x15, 0x60, 0x57,
    0x57, // PUSH 20 MLOAD DUP1 ISZERO PUSH none JUMPI
    // The factory deploys the wallet; a failure fails.
    0x60, 0x00, 0x60, 0x00, 0x60, 0x40, 0x51, // nothing returned, input length at 40
    0x60, 0x80, 0x60, 0x00, 0x85, 0x5a, 0xf1, // input at 80, no value, DUP6 GAS CALL
    0x15, 0x60, 0x63, 0x57, // ISZERO PUSH fail JUMPI
    // ask: one word comes back to 20; a failure, or less than a word, fails.
    0x5b, 0x60, 0x20, 0x60, 0x20, 0x60, 0x60, 0x51, // JUMPDEST PUSH 20 PUSH 20 PUSH 60 MLOAD
    0x60, 0x40, 0x51, 0x60, 0x80, 0x01, // input after the factory's
    0x60, 0x00, 0x51, 0x5a, 0xfa, // PUSH 0 MLOAD GAS STATICCALL
    0x15, 0x60, 0x63, 0x57, // ISZERO PUSH fail JUMPI
    0x3d, 0x60, 0x20, 0x11, 0x60, 0x63, 0x57, // RETURNDATASIZE PUSH 20 GT PUSH fail JUMPI
    0x60, 0x20, 0x51, 0x63, 0x16, 0x26, 0xba, 0x7e, // PUSH 20 MLOAD PUSH selector
    0x60, 0xe0, 0x1b, 0x14, 0x60, 0x5a, 0x56, // PUSH e0 SHL EQ PUSH done JUMP
    // none:
    0x5b, 0x60, 0x02, // JUMPDEST PUSH 2
    // done: the last byte of a word.
    0x5b, 0x60, 0x00, 0x52, 0x60, 0x01, 0x60, 0x1f,
    0xf3, // JUMPDEST PUSH 0 MSTORE PUSH 1 PUSH 1f RETURN
    // fail: in the words of whoever failed.
    0x5b, 0x3d, 0x60, 0x00, 0x60, 0x00,
    0x3e, // JUMPDEST RETURNDATASIZE PUSH 0 PUSH 0 RETURNDATACOPY
    0x3d, 0x60, 0x00, 0xfd, // RETURNDATASIZE PUSH 0 REVERT
];

/// A question to put to a chain.
pub struct Call {
    data: Vec<u8>,
    /// Whether an ordinary key of that address signed; what counts when the account has no code and
    /// no factory.
    is_signed_by_key: bool,
}

impl Call {
    /// The question whether `account` accepts `signature` over `hash`. `None` when it never can.
    #[must_use]
    pub fn new(account: &Address, hash: &[u8; 32], signature: &[u8]) -> Option<Self> {
        if signature.len() < SIGNATURE_BYTES_MIN {
            return None;
        }
        let (factory, deployment, inner) = match wrapper::unwrap(signature) {
            Wrapper::None => (Address::default(), &[][..], signature),
            Wrapper::Malformed => return None,
            Wrapper::Wrapped {
                factory,
                deployment,
                inner,
            } => (factory, deployment, inner),
        };
        Some(Self {
            data: data(account, &factory, deployment, &question(hash, inner)),
            is_signed_by_key: signer(hash, signature) == Some(*account),
        })
    }

    /// What to simulate the creation of a contract with: the `data` of an `eth_call` without `to`.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// What a successful simulation's result says.
    #[must_use]
    pub fn is_valid(&self, result: &[u8]) -> bool {
        result == VALID || (result == NO_CODE && self.is_signed_by_key)
    }
}

/// The call of `isValidSignature`.
fn question(hash: &[u8; 32], signature: &[u8]) -> Vec<u8> {
    let padding = signature.len().next_multiple_of(WORD) - signature.len();
    let mut call = Vec::with_capacity(4 + 3 * WORD + signature.len() + padding);
    call.extend_from_slice(&IS_VALID_SIGNATURE);
    call.extend_from_slice(hash);
    // The signature begins after the two words of the head.
    call.extend_from_slice(&word(2 * WORD));
    call.extend_from_slice(&word(signature.len()));
    call.extend_from_slice(signature);
    call.extend(std::iter::repeat_n(0, padding));
    call
}

fn data(account: &Address, factory: &Address, deployment: &[u8], question: &[u8]) -> Vec<u8> {
    let arguments = 4 * WORD + deployment.len() + question.len();
    let mut data = Vec::with_capacity(PROGRAM.len() + arguments);
    data.extend_from_slice(&PROGRAM);
    for address in [account, factory] {
        data.extend_from_slice(&[0; WORD - 20]);
        data.extend_from_slice(address);
    }
    data.extend_from_slice(&word(deployment.len()));
    data.extend_from_slice(&word(question.len()));
    data.extend_from_slice(deployment);
    data.extend_from_slice(question);
    data
}

fn word(number: usize) -> [u8; WORD] {
    let mut word = [0; WORD];
    word[WORD - size_of::<usize>()..].copy_from_slice(&number.to_be_bytes());
    word
}

/// Whose key signed: 65 bytes `r ‖ s ‖ v` with `v` 27 or 28 and `s` of either half.
fn signer(hash: &[u8; 32], signature: &[u8]) -> Option<Address> {
    let (signature, v) = signature.split_first_chunk::<64>()?;
    let is_y_odd = match v {
        [27] => false,
        [28] => true,
        _ => return None,
    };
    ethereum::recover_any_s(hash, signature, is_y_odd)
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::*;

    /// The call for an account, a hash and a signature of filler, byte for byte.
    #[test]
    fn the_call_is_known_bytes() {
        assert_eq!(
            hex::encode(Sha256::digest(PROGRAM)),
            "5a607b5505be58ec5c7c365a752caf9df3f7a736af56392bd31293687906b364"
        );
        let signature = [&[1][..], &[0xaa; 64]].concat();
        let call = Call::new(&[0x11; 20], &[0x42; 32], &signature).unwrap();
        assert_eq!(call.data().len(), 434);
        assert_eq!(
            hex::encode(Sha256::digest(call.data())),
            "71a5f58d9a64c452b9e5f23fbf87161399fcff16d840802fb3c1d2bd5632707f"
        );
    }

    /// Only one byte of one is a yes (case 114).
    #[test]
    fn one_result_means_valid() {
        let call = Call::new(&[0x11; 20], &[0x42; 32], &[1; 65]).unwrap();
        let word = [&[0; 31][..], &[1]].concat();
        let results: [(&[u8], bool); 6] = [
            (&[1], true),
            (&[0], false),
            (&[2], false),
            (&[], false),
            (&[1, 0], false),
            (&word, false),
        ];
        for (result, expected) in results {
            assert_eq!(call.is_valid(result), expected, "{result:02x?}");
        }
    }

    /// A signature shorter than a word is never asked about, one of a word is (case 126).
    #[test]
    fn short_signatures_are_not_asked_about() {
        for (length, asked) in [(0, false), (31, false), (32, true), (33, true)] {
            let call = Call::new(&[0x11; 20], &[0x42; 32], &vec![7; length]);
            assert_eq!(call.is_some(), asked, "{length}");
        }
    }
}
