//! Messages to store.

use envelope::wire::xmtp::backend::v1::{ClientEnvelope, GroupMessage, client_envelope::Payload};

/// Bytes of the encrypted part of each message.
const MESSAGE_BYTES: usize = 1024;

/// An MLS private message of about 1 KiB, application content, for the group of that number;
/// `variant` makes messages of one group differ.
pub(crate) fn group_message(group: u64, variant: u64) -> ClientEnvelope {
    let mut data = vec![0, 1, 0, 2, 16];
    data.extend_from_slice(&u128::from(group).to_be_bytes());
    data.extend_from_slice(&7u64.to_be_bytes());
    // Application content, no authenticated data, no sender data, the ciphertext's length.
    data.extend_from_slice(&[1, 0, 0, 0x44, 0x00]);
    data.extend_from_slice(&variant.to_be_bytes());
    data.resize(data.len() + MESSAGE_BYTES - size_of::<u64>(), 0xab);
    let message = GroupMessage {
        data: data.into(),
        sender_hmac: vec![1; 32].into(),
        should_push: true,
    };
    ClientEnvelope {
        payload: Some(Payload::GroupMessage(message)),
    }
}

/// The topic of a group.
pub(crate) fn group_topic(group: u64) -> Vec<u8> {
    [&[0][..], &u128::from(group).to_be_bytes()].concat()
}
