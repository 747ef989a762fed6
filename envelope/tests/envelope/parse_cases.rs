//! Parsing, topics, canonical bytes and hashes (cases 1 to 29 and 113).

use bytes::Bytes;
use envelope::error::{Malformed, TooLarge};
use envelope::fixtures::{
    self, Installation, KeyPackageBuilder, commit_log, group_message, welcome,
};
use envelope::wire::xmtp::backend::v1::client_envelope::Payload;
use envelope::wire::xmtp::backend::v1::welcome_message::{V1, Version};
use envelope::wire::xmtp::backend::v1::{ClientEnvelope, GroupMessage};
use envelope::wire::xmtp::identity::associations::RecoverableEd25519Signature;
use envelope::{Error, Limits, MessageHash, Reason, TopicKind, Unchecked, canonical};
use prost::Message;

use crate::support::{LIMITS, parse};

const GROUP: [u8; 16] = [0x0a; 16];

/// Cases 2 to 4 and 14: the flag says proposal or commit, for private and public messages alike.
#[test]
fn group_messages_name_their_group_and_whether_they_change_it() {
    let cases = [
        (group_message::private_message(&GROUP, 1, b"x"), false),
        (group_message::private_message(&GROUP, 2, b"x"), true),
        (group_message::private_message(&GROUP, 3, b"x"), true),
        (group_message::public_application(&GROUP), false),
        (group_message::public_proposal(&GROUP), true),
        (group_message::public_commit(&GROUP), true),
    ];
    for (data, flag) in cases {
        let parsed = parse(group_message::with_data(data)).unwrap();
        assert_eq!(parsed.topic.kind(), TopicKind::GroupMessage);
        assert_eq!(parsed.topic.identifier(), GROUP);
        assert_eq!(parsed.is_commit_or_proposal, flag);
        assert!(matches!(parsed.unchecked, Unchecked::Nothing));
    }
}

/// Cases 1, 5, 7 to 13, 15, 18, 21, 22, 26, 31, 32 and 49: none of these parses, and the reason is the same
/// for all (ARC-090).
#[test]
fn malformed_payloads_of_every_kind_are_refused() {
    let package = KeyPackageBuilder::new(&Installation::numbered(1), "inbox").bytes();
    let mut cases = fixtures::malformed(1);
    cases.push((
        "group message: bare key package",
        group_message::with_data(package),
    ));
    assert!(cases.len() > 35);
    for (what, envelope) in cases {
        let error = parse(envelope).unwrap_err();
        assert_eq!(
            error.reason(),
            Some(Reason::MalformedPayload),
            "{what}: {error}"
        );
        assert!(!error.is_retryable(), "{what}");
    }
}

/// The typed failure names the part that is wrong (ARC-090).
#[test]
fn failures_name_the_part_that_is_wrong() {
    let cases = [
        (ClientEnvelope::default(), Malformed::PayloadUnset),
        (group_message::with_data([0, 1]), Malformed::MlsMessage),
        (group_message::application(&[1; 15]), Malformed::GroupId),
        (
            group_message::with_data(group_message::public_commit(&[1; 17])),
            Malformed::GroupId,
        ),
        (welcome::v1(&[1; 31], b""), Malformed::InstallationKey),
        (commit_log::with_parts(&[], None), Malformed::GroupId),
        (
            commit_log::with_parts(&[0xff], None),
            Malformed::CommitLogEntry,
        ),
    ];
    for (envelope, expected) in cases {
        assert_eq!(parse(envelope).unwrap_err(), Error::Malformed(expected));
    }
}

/// Case 6: bytes after the message are stored, hashed and do not move it (ARC-092).
#[test]
fn trailing_bytes_of_a_group_message_make_another_envelope() {
    let data = group_message::private_message(&GROUP, 1, b"x");
    let trailing = [&data[..], &[0xde, 0xad]].concat();
    let plain = parse(group_message::with_data(data)).unwrap();
    let kept = parse(group_message::with_data(trailing.clone())).unwrap();
    assert_eq!(plain.topic, kept.topic);
    assert_ne!(plain.hash, kept.hash);
    let stored = canonical::decode(kept.canonical).unwrap();
    assert_eq!(stored, group_message::with_data(trailing));

    let public = [group_message::public_proposal(&GROUP), vec![0]].concat();
    assert!(parse(group_message::with_data(public)).is_ok());
}

/// Cases 16 and 17: nothing but the destination of a welcome is read, and all of it is kept.
#[test]
fn welcomes_go_to_their_destination_whatever_they_hold() {
    let key = [0x0b; 32];
    let odd = welcome::with_version(Version::V1(V1 {
        installation_key: Bytes::copy_from_slice(&key),
        wrapper_algorithm: 99,
        ..V1::default()
    }));
    for envelope in [odd.clone(), welcome::pointer(&key, b"")] {
        let parsed = parse(envelope.clone()).unwrap();
        assert_eq!(parsed.topic.kind(), TopicKind::Welcome);
        assert_eq!(parsed.topic.identifier(), key);
        assert!(!parsed.is_commit_or_proposal);
        assert_eq!(canonical::decode(parsed.canonical).unwrap(), envelope);
    }
}

/// Cases 19, 20 and 23: the signature of an entry is nobody's business, and its bytes are kept.
#[test]
fn commit_log_entries_need_only_a_group() {
    let entry = [&[0x0a, 0x10][..], &GROUP].concat();
    let unknown_field = [&entry[..], &[0x9a, 0x06, 0x01, 0x78]].concat();
    let short = RecoverableEd25519Signature {
        bytes: Bytes::from_static(&[1, 2, 3]),
        public_key: Bytes::new(),
    };
    let cases = [
        commit_log::with_parts(&entry, None),
        commit_log::with_parts(&entry, Some(short)),
        commit_log::with_parts(&unknown_field, None),
    ];
    for envelope in cases {
        let parsed = parse(envelope.clone()).unwrap();
        assert_eq!(parsed.topic.kind(), TopicKind::CommitLogEntry);
        assert_eq!(parsed.topic.identifier(), GROUP);
        assert_eq!(canonical::decode(parsed.canonical).unwrap(), envelope);
    }
}

/// Cases 24 and 25: what differs on the wire only is one envelope.
#[test]
fn encodings_of_one_value_have_one_hash() {
    // installation_key, data, hpke_public_key, wrapper_algorithm and welcome_metadata.
    let fields = [
        [&[0x0a, 0x20][..], &[0x11; 32]].concat(),
        vec![0x12, 0x02, 0x10, 0x11],
        vec![0x1a, 0x02, 0x12, 0x13],
        vec![0x20, 0x01],
        vec![0x2a, 0x02, 0x14, 0x15],
    ];
    let nested = |fields: Vec<u8>| -> Vec<u8> {
        let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
        let inner = [vec![0x0a, length(&fields)], fields].concat();
        [vec![0x12, length(&inner)], inner].concat()
    };
    let canonical_bytes = nested(fields.concat());
    assert_eq!(canonical_bytes.len(), 52);
    let mut reversed = fields.clone();
    reversed.reverse();
    reversed[1] = vec![0x20, 0x81, 0x00];
    let twice = [&[0x12, 0x02, 0xee, 0xee][..], &fields.concat()].concat();
    let unknown = [&canonical_bytes[..], &[0x9a, 0x06, 0x01, 0x78]].concat();
    let cases = [
        canonical_bytes.clone(),
        nested(reversed.concat()),
        nested(twice),
        unknown,
    ];
    for bytes in cases {
        let parsed = parse(canonical::decode(bytes.into()).unwrap()).unwrap();
        assert_eq!(parsed.canonical, canonical_bytes);
        assert_eq!(
            hex::encode(parsed.hash.as_bytes()),
            "cd99b877f8515038379a9c89745e81a3c9026ed02c0c1d32eac6716530989239"
        );
    }
}

/// Case 27, first half: an inbox id in upper case is routed like the same one in lower case.
#[test]
fn upper_case_inbox_ids_name_the_same_topic() {
    let [_, _, envelope, _, _] = fixtures::valid(1);
    let Some(Payload::IdentityUpdate(mut update)) = envelope.payload.clone() else {
        panic!("the third is an identity update");
    };
    update.inbox_id.make_ascii_uppercase();
    let upper = parse(fixtures::update_envelope(*update)).unwrap();
    assert_eq!(parse(envelope).unwrap().topic, upper.topic);
}

/// Case 28: text that is not UTF-8 does not decode at all.
#[test]
fn invalid_utf8_does_not_decode() {
    // identity_update { actions { create_inbox { initial_identifier: ff } } }
    let bytes = Bytes::from_static(&[0x22, 0x07, 0x0a, 0x05, 0x0a, 0x03, 0x0a, 0x01, 0xff]);
    assert_eq!(canonical::decode(bytes), Err(Malformed::Protobuf));
    let bytes = Bytes::from_static(&[0x22, 0x07, 0x0a, 0x05, 0x0a, 0x03, 0x0a, 0x01, b'f']);
    assert!(canonical::decode(bytes).is_ok());
}

/// An envelope of exactly the limit passes, one byte more does not; and too long is said before
/// malformed, so that no long payload is ever parsed (ARC-090).
#[test]
fn the_size_is_checked_before_the_payload() {
    for envelope in fixtures::valid(1) {
        let length = canonical::encoded_len(&envelope);
        let at = |envelope_bytes_max| {
            envelope::parse(
                envelope.clone(),
                Limits {
                    envelope_bytes_max,
                    ..LIMITS
                },
            )
        };
        assert_eq!(at(length).unwrap().canonical.len(), length);
        assert!(at(length + 1).is_ok());
        let error = at(length - 1).unwrap_err();
        assert_eq!(error, Error::TooLarge(TooLarge::Envelope));
        assert_eq!(error.reason(), Some(Reason::TooLarge));
    }
    let tight = Limits {
        envelope_bytes_max: 1,
        ..LIMITS
    };
    let malformed = group_message::with_data(vec![0; 100]);
    assert_eq!(
        envelope::parse(malformed, tight).unwrap_err(),
        Error::TooLarge(TooLarge::Envelope)
    );
    // No payload comes before any size.
    assert_eq!(
        envelope::parse(ClientEnvelope::default(), tight).unwrap_err(),
        Error::Malformed(Malformed::PayloadUnset)
    );
}

/// A value that grows when it is encoded again is measured by the longer form.
#[test]
fn sizes_are_those_of_the_canonical_encoding() {
    // wrapper_algorithm -1 in five bytes; its canonical form has ten.
    let inner = [
        &[0x0a, 0x20][..],
        &[1; 32],
        &[0x20, 0xff, 0xff, 0xff, 0xff, 0x0f],
    ]
    .concat();
    let bytes = [&[0x12, 42, 0x0a, 40][..], &inner].concat();
    let envelope = canonical::decode(bytes.clone().into()).unwrap();
    assert_eq!(canonical::encoded_len(&envelope), bytes.len() + 5);
    let limits = Limits {
        envelope_bytes_max: bytes.len(),
        ..LIMITS
    };
    assert!(envelope::parse(envelope, limits).is_err());
}

/// What reaches a log says nothing of the payload (ARC-101).
#[test]
fn debug_output_of_a_parsed_envelope_hides_it() {
    let parsed = parse(group_message::application(&GROUP)).unwrap();
    let text = format!("{parsed:?} {:?}", parsed.hash);
    assert!(!text.contains("10, 10"), "{text}");
    assert!(text.contains("MessageHash(..)"), "{text}");
}

/// The hash covers the whole envelope, its tag and length included.
#[test]
fn the_hash_is_of_the_whole_envelope() {
    let message = GroupMessage {
        data: group_message::private_message(&GROUP, 1, b"x").into(),
        ..GroupMessage::default()
    };
    let envelope = fixtures::envelope(Payload::GroupMessage(message.clone()));
    let parsed = parse(envelope.clone()).unwrap();
    assert_eq!(parsed.hash, MessageHash::of(&envelope.encode_to_vec()));
    assert_ne!(parsed.hash, MessageHash::of(&message.encode_to_vec()));
}
