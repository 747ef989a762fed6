//! The contracts of the tests, assembled by hand.

/// A wallet that accepts the signatures of one key: 65 bytes `r ‖ s ‖ v` (ERC-1271).
pub fn owned_wallet(owner: [u8; 20]) -> Vec<u8> {
    let mut code = vec![
        // The arguments of the recovery: hash to 0, v to 20, r to 40, s to 60.
        0x60, 0x04, 0x35, 0x60, 0x00, 0x52, // PUSH 04 CALLDATALOAD PUSH 00 MSTORE
        0x60, 0xa4, 0x35, 0x60, 0xf8, 0x1c, // PUSH a4 CALLDATALOAD PUSH f8 SHR
        0x60, 0x20, 0x52, // PUSH 20 MSTORE
        0x60, 0x64, 0x35, 0x60, 0x40, 0x52, // PUSH 64 CALLDATALOAD PUSH 40 MSTORE
        0x60, 0x84, 0x35, 0x60, 0x60, 0x52, // PUSH 84 CALLDATALOAD PUSH 60 MSTORE
        // The precompiled contract 1 recovers the signer to 80.
        0x60, 0x20, 0x60, 0x80, 0x60, 0x80, 0x60, 0x00, 0x60, 0x01, 0x5a, 0xfa,
        0x50, // PUSH 20 PUSH 80 PUSH 80 PUSH 00 PUSH 01 GAS STATICCALL POP
        0x60, 0x80, 0x51, 0x73, // PUSH 80 MLOAD PUSH20 owner
    ];
    code.extend_from_slice(&owner);
    code.extend_from_slice(&[0x14, 0x60, 0x54, 0x57]); // EQ PUSH yes JUMPI
    code.extend_from_slice(&word([0xff; 4]));
    code.push(0x5b); // yes: JUMPDEST
    code.extend_from_slice(&word(SUCCESS));
    code
}

/// A wallet whose verdict is the first byte of the signature: 1 accepts, 2 reverts, 3 returns nothing,
/// 4 returns the word for yes with its last bit set, 5 returns one byte too few, anything else refuses.
pub fn wallet_by_first_byte() -> Vec<u8> {
    let answers: [Vec<u8>; 5] = [
        word(SUCCESS),
        vec![0x60, 0x00, 0x60, 0x00, 0xfd], // PUSH 00 PUSH 00 REVERT
        vec![0x00],                         // STOP
        // PUSH4 PUSH e0 SHL PUSH 01 ADD PUSH 00 MSTORE PUSH 20 PUSH 00 RETURN
        vec![
            0x63, 0x16, 0x26, 0xba, 0x7e, 0x60, 0xe0, 0x1b, 0x60, 0x01, 0x01, 0x60, 0x00, 0x52,
            0x60, 0x20, 0x60, 0x00, 0xf3,
        ],
        // As the first, with a length of 1f.
        vec![
            0x63, 0x16, 0x26, 0xba, 0x7e, 0x60, 0xe0, 0x1b, 0x60, 0x00, 0x52, 0x60, 0x1f, 0x60,
            0x00, 0xf3,
        ],
    ];
    // PUSH 64 CALLDATALOAD PUSH f8 SHR: the first byte of the signature stays on the stack.
    let mut code = vec![0x60, 0x64, 0x35, 0x60, 0xf8, 0x1c];
    let refusal = word([0xff; 4]);
    // Seven bytes for each test, then the refusal, then the answers.
    let mut target = code.len() + answers.len() * 7 + refusal.len();
    for (answer, first_byte) in answers.iter().zip(1..) {
        let target_byte = u8::try_from(target).expect("a short program");
        // DUP1 PUSH first_byte EQ PUSH target JUMPI
        code.extend_from_slice(&[0x80, 0x60, first_byte, 0x14, 0x60, target_byte, 0x57]);
        target += 1 + answer.len();
    }
    code.extend_from_slice(&refusal);
    for answer in &answers {
        code.push(0x5b); // JUMPDEST
        code.extend_from_slice(answer);
    }
    code
}

/// A factory: called with a salt of 32 bytes and creation code, it deploys that; reverts when that
/// fails.
pub fn factory() -> Vec<u8> {
    vec![
        0x60, 0x20, 0x36, 0x03, 0x80, // PUSH 20 CALLDATASIZE SUB DUP1
        0x60, 0x20, 0x60, 0x00, 0x37, // PUSH 20 PUSH 00 CALLDATACOPY
        0x60, 0x00, 0x35, 0x90, // PUSH 00 CALLDATALOAD SWAP1
        0x60, 0x00, 0x60, 0x00, 0xf5, // PUSH 00 PUSH 00 CREATE2
        0x80, 0x15, 0x60, 0x20, 0x57, // DUP1 ISZERO PUSH fail JUMPI
        0x60, 0x00, 0x52, 0x60, 0x20, 0x60, 0x00, 0xf3, // return the address
        0x5b, 0x60, 0x00, 0x60, 0x00, 0xfd, // fail: JUMPDEST PUSH 00 PUSH 00 REVERT
    ]
}

/// The creation code of a contract.
pub fn creation(code: &[u8]) -> Vec<u8> {
    let length = u16::try_from(code.len()).expect("a short program");
    let [high, low] = length.to_be_bytes();
    // PUSH2 length DUP1 PUSH 0c PUSH 00 CODECOPY PUSH 00 RETURN
    let mut creation = vec![
        0x61, high, low, 0x80, 0x60, 0x0c, 0x60, 0x00, 0x39, 0x60, 0x00, 0xf3,
    ];
    creation.extend_from_slice(code);
    creation
}

/// What `isValidSignature` returns for yes.
const SUCCESS: [u8; 4] = [0x16, 0x26, 0xba, 0x7e];

/// Returns a word that begins with these bytes.
fn word([a, b, c, d]: [u8; 4]) -> Vec<u8> {
    // PUSH4 PUSH e0 SHL PUSH 00 MSTORE PUSH 20 PUSH 00 RETURN
    vec![
        0x63, a, b, c, d, 0x60, 0xe0, 0x1b, 0x60, 0x00, 0x52, 0x60, 0x20, 0x60, 0x00, 0xf3,
    ]
}
