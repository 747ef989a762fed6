//! Properties over arbitrary values and arbitrary bytes: nothing panics, and encoding is the inverse
//! of decoding for every kind of payload.

use bytes::Bytes;
use envelope::fixtures::identity::create_inbox;
use envelope::fixtures::{
    self, Installation, KeyPackageBuilder, Passkey, ScriptedVerifier, Signer, UpdateBuilder,
    Wallet, group_message, update_envelope,
};
use envelope::identity::{
    AssociationState, IdentifierKind, ProjectionChanges, normalize, replay, verify_locally,
};
use envelope::payload::{commit_log, group_message as group_payload, key_package};
use envelope::scw::{AccountId, Call};
use envelope::wire::xmtp::backend::v1::client_envelope::Payload;
use envelope::wire::xmtp::backend::v1::welcome_message::{V1, Version, WelcomePointer};
use envelope::wire::xmtp::backend::v1::{
    ClientEnvelope, CommitLogEntry, GroupMessage, KeyPackage, PublishRequest, WelcomeMessage,
};
use envelope::wire::xmtp::identity::associations as wire;
use envelope::wire::xmtp::message_contents as legacy;
use envelope::{MessageHash, Topic, canonical, weight};
use openmls::framing::{MlsMessageIn, ProtocolMessage};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use prost::Message as _;
use tls_codec::Deserialize;

use crate::support::{ENTRIES_MAX, block_on, members, parse};

fn some_bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..40).prop_map(Bytes::from)
}

fn ecdsa() -> impl Strategy<Value = wire::RecoverableEcdsaSignature> {
    some_bytes().prop_map(|bytes| wire::RecoverableEcdsaSignature { bytes })
}

fn ed25519() -> impl Strategy<Value = wire::RecoverableEd25519Signature> {
    (some_bytes(), some_bytes())
        .prop_map(|(bytes, public_key)| wire::RecoverableEd25519Signature { bytes, public_key })
}

fn legacy_key() -> impl Strategy<Value = legacy::SignedPublicKey> {
    use legacy::signature::{EcdsaCompact, Union, WalletEcdsaCompact};
    let union = (any::<bool>(), some_bytes(), any::<u32>()).prop_map(|(own, bytes, recovery)| {
        if own {
            Union::EcdsaCompact(EcdsaCompact { bytes, recovery })
        } else {
            Union::WalletEcdsaCompact(WalletEcdsaCompact { bytes, recovery })
        }
    });
    (some_bytes(), option::of(option::of(union))).prop_map(|(key_bytes, signature)| {
        legacy::SignedPublicKey {
            key_bytes,
            signature: signature.map(|union| legacy::Signature { union }),
        }
    })
}

fn signature() -> impl Strategy<Value = wire::Signature> {
    use wire::signature::Signature;
    let kinds = prop_oneof![
        ecdsa().prop_map(Signature::Erc191),
        (any::<String>(), any::<u64>(), some_bytes()).prop_map(
            |(account_id, block_number, signature)| {
                Signature::Erc6492(wire::SmartContractWalletSignature {
                    account_id,
                    block_number,
                    signature,
                })
            }
        ),
        ed25519().prop_map(Signature::InstallationKey),
        (option::of(legacy_key()), option::of(ecdsa())).prop_map(|(delegated_key, signature)| {
            Signature::DelegatedErc191(Box::new(wire::LegacyDelegatedSignature {
                delegated_key,
                signature,
            }))
        }),
        (some_bytes(), some_bytes(), some_bytes(), some_bytes()).prop_map(
            |(public_key, signature, authenticator_data, client_data_json)| {
                Signature::Passkey(Box::new(wire::RecoverablePasskeySignature {
                    public_key,
                    signature,
                    authenticator_data,
                    client_data_json,
                }))
            }
        ),
    ];
    option::of(kinds).prop_map(|signature| wire::Signature { signature })
}

fn member() -> impl Strategy<Value = wire::MemberIdentifier> {
    use wire::member_identifier::Kind;
    let kinds = prop_oneof![
        any::<String>().prop_map(Kind::EthereumAddress),
        some_bytes().prop_map(Kind::InstallationPublicKey),
        (some_bytes(), option::of(any::<String>()))
            .prop_map(|(key, relying_party)| Kind::Passkey(wire::Passkey { key, relying_party })),
    ];
    option::of(kinds).prop_map(|kind| wire::MemberIdentifier { kind })
}

fn action() -> impl Strategy<Value = wire::IdentityAction> {
    use wire::identity_action::Kind;
    let kinds = prop_oneof![
        (
            any::<String>(),
            any::<u64>(),
            option::of(signature()),
            any::<i32>(),
            option::of(any::<String>())
        )
            .prop_map(
                |(initial_identifier, nonce, signature, kind, relying_party)| {
                    Kind::CreateInbox(Box::new(wire::CreateInbox {
                        initial_identifier,
                        nonce,
                        initial_identifier_signature: signature,
                        initial_identifier_kind: kind,
                        relying_party,
                    }))
                }
            ),
        (
            option::of(member()),
            option::of(signature()),
            option::of(signature()),
            option::of(any::<String>())
        )
            .prop_map(|(member, existing, new, relying_party)| {
                Kind::Add(Box::new(wire::AddAssociation {
                    new_member_identifier: member,
                    existing_member_signature: existing,
                    new_member_signature: new,
                    relying_party,
                }))
            }),
        (option::of(member()), option::of(signature())).prop_map(|(member, signature)| {
            Kind::Revoke(Box::new(wire::RevokeAssociation {
                member_to_revoke: member,
                recovery_identifier_signature: signature,
            }))
        }),
        (
            any::<String>(),
            option::of(signature()),
            any::<i32>(),
            option::of(any::<String>())
        )
            .prop_map(|(identifier, signature, kind, relying_party)| {
                Kind::ChangeRecoveryAddress(Box::new(wire::ChangeRecoveryAddress {
                    new_recovery_identifier: identifier,
                    existing_recovery_identifier_signature: signature,
                    new_recovery_identifier_kind: kind,
                    relying_party,
                }))
            }),
    ];
    option::of(kinds).prop_map(|kind| wire::IdentityAction { kind })
}

fn update() -> impl Strategy<Value = wire::IdentityUpdate> {
    (vec(action(), 0..4), any::<u64>(), any::<String>()).prop_map(
        |(actions, client_timestamp_ns, inbox_id)| wire::IdentityUpdate {
            actions,
            client_timestamp_ns,
            inbox_id,
        },
    )
}

fn welcome() -> impl Strategy<Value = WelcomeMessage> {
    let parts = (
        some_bytes(),
        some_bytes(),
        some_bytes(),
        any::<i32>(),
        some_bytes(),
    );
    (option::of(any::<bool>()), parts).prop_map(|(pointer, parts)| {
        let (installation_key, data, hpke_public_key, wrapper_algorithm, welcome_metadata) = parts;
        let version = pointer.map(|pointer| {
            if pointer {
                Version::WelcomePointer(WelcomePointer {
                    installation_key,
                    welcome_pointer: data,
                    hpke_public_key,
                    wrapper_algorithm,
                })
            } else {
                Version::V1(V1 {
                    installation_key,
                    data,
                    hpke_public_key,
                    wrapper_algorithm,
                    welcome_metadata,
                })
            }
        });
        WelcomeMessage { version }
    })
}

/// Any envelope, whatever its payload; most are malformed.
fn any_envelope() -> impl Strategy<Value = ClientEnvelope> {
    let payloads = prop_oneof![
        (some_bytes(), some_bytes(), any::<bool>()).prop_map(|(data, sender_hmac, should_push)| {
            Payload::GroupMessage(GroupMessage {
                data,
                sender_hmac,
                should_push,
            })
        }),
        welcome().prop_map(|welcome| Payload::WelcomeMessage(welcome.into())),
        some_bytes().prop_map(|bytes| {
            Payload::KeyPackage(KeyPackage {
                key_package_tls_serialized: bytes,
            })
        }),
        update().prop_map(|update| Payload::IdentityUpdate(update.into())),
        (some_bytes(), option::of(ed25519())).prop_map(|(bytes, signature)| {
            Payload::CommitLogEntry(Box::new(CommitLogEntry {
                serialized_commit_log_entry: bytes,
                signature,
            }))
        }),
    ];
    option::of(payloads).prop_map(|payload| ClientEnvelope { payload })
}

/// Something that really happens to an inbox of wallets, installations and a passkey.
#[derive(Clone, Copy, Debug)]
enum Step {
    Add(usize, usize),
    Revoke(usize, usize),
    ChangeRecovery(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let pair = (0..6_usize, 0..6_usize);
    prop_oneof![
        4 => pair.clone().prop_map(|(by, whom)| Step::Add(by, whom)),
        2 => pair.clone().prop_map(|(by, whom)| Step::Revoke(by, whom)),
        1 => pair.prop_map(|(by, whom)| Step::ChangeRecovery(by, whom)),
    ]
}

/// A state says the same of itself whichever way it is asked.
fn check_invariants(before: Option<&AssociationState>, after: &AssociationState) {
    for (member, record) in after.members() {
        assert_eq!(after.member(member), Some(record));
        // An installation is added by somebody, and leaves with it unless that was no member.
        if member.is_installation() {
            let adder = record.added_by.as_ref().unwrap();
            assert!(!adder.is_installation());
        }
    }
    let changes = ProjectionChanges::between(before, after);
    let back = before.map(|before| ProjectionChanges::between(Some(after), before));
    if let Some(back) = back {
        assert_eq!(back.added, changes.removed);
        assert_eq!(back.removed, changes.added);
    }
}

proptest! {
    /// decode(encode(x)) == x for each kind, and encoding what was decoded gives the same bytes.
    #[test]
    fn canonical_bytes_decode_to_what_was_encoded(envelope in any_envelope()) {
        let bytes = canonical::encode(&envelope);
        prop_assert_eq!(bytes.len(), canonical::encoded_len(&envelope));
        let decoded = canonical::decode(bytes.clone()).unwrap();
        prop_assert_eq!(&decoded, &envelope);
        prop_assert_eq!(canonical::encode(&decoded), bytes);
    }

    /// Whatever decodes has one canonical form, which is a fixed point.
    #[test]
    fn encoding_again_changes_nothing(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(envelope) = canonical::decode(bytes.into()) {
            let once = canonical::encode(&envelope);
            let twice = canonical::encode(&canonical::decode(once.clone()).unwrap());
            prop_assert_eq!(twice, once);
        }
    }

    /// No envelope makes the parser panic; what parses has the hash of its bytes.
    #[test]
    fn parsing_never_panics(envelope in any_envelope()) {
        if let Ok(parsed) = parse(envelope) {
            prop_assert_eq!(parsed.hash, MessageHash::of(&parsed.canonical));
            prop_assert_eq!(Topic::parse(parsed.topic.as_bytes()), Ok(parsed.topic));
        }
    }

    /// Valid payloads of every kind survive the loss, change or growth of some bytes without a panic.
    #[test]
    fn damaged_payloads_never_panic(
        number in 0..4_u64,
        kind in 0..5_usize,
        at in any::<prop::sample::Index>(),
        with in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let envelope = fixtures::valid(number)[kind].clone();
        let mut bytes = canonical::encode(&envelope).to_vec();
        let index = at.index(bytes.len());
        bytes[index] = with;
        bytes.truncate(cut.index(bytes.len()) + 1);
        let _ = canonical::decode(bytes.into()).map(parse);
    }

    /// The scan sees everything that the decoder keeps: whatever damaged bytes decode to weighs no more
    /// than they did, and sound ones weigh the same.
    #[test]
    fn the_scan_misses_nothing_that_is_decoded(
        envelopes in vec(any_envelope(), 0..4),
        at in any::<prop::sample::Index>(),
        with in any::<u8>(),
    ) {
        let request = PublishRequest { envelopes };
        let mut bytes = request.encode_to_vec();
        let weight = weight::weigh::<PublishRequest>(&bytes);
        let decoded = PublishRequest::decode(&*bytes).unwrap();
        prop_assert_eq!(weight::weigh::<PublishRequest>(&decoded.encode_to_vec()), weight);
        if !bytes.is_empty() {
            let index = at.index(bytes.len());
            bytes[index] = with;
        }
        if let Ok(decoded) = PublishRequest::decode(&*bytes) {
            let weight = weight::weigh::<PublishRequest>(&bytes);
            prop_assert!(weight::weigh::<PublishRequest>(&decoded.encode_to_vec()) <= weight);
        }
    }

    /// Any bytes can be asked about, and what is asked holds them.
    #[test]
    fn contract_questions_take_any_signature(
        mut signature in vec(any::<u8>(), 0..300),
        wrapped in any::<bool>(),
    ) {
        if wrapped {
            signature.extend([0x64, 0x92].repeat(16));
        }
        let call = Call::new(&[1; 20], &[2; 32], &signature);
        if signature.len() < 32 {
            prop_assert!(call.is_none());
        } else if let Some(call) = call {
            prop_assert!(call.data().len() > 110 + 4 * 32 + 4 + 3 * 32);
        }
    }

    /// The parsers of each kind take any bytes.
    #[test]
    fn payload_parsers_never_panic(bytes in vec(any::<u8>(), 0..300), text in any::<String>()) {
        let _ = group_payload::parse(&bytes);
        let _ = commit_log::topic(&bytes);
        let _ = Topic::parse(&bytes);
        let _ = AccountId::parse(&text);
        let _ = normalize(IdentifierKind::Passkey, &text);
        if let Ok(package) = key_package::parse(&bytes) {
            let _ = package.validate(0);
        }
    }

    /// A key package with one changed byte never panics, and never stays valid.
    #[test]
    fn damaged_key_packages_are_never_valid(
        at in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = KeyPackageBuilder::new(&Installation::numbered(1), "inbox").bytes();
        let whole = bytes.len();
        let index = at.index(whole);
        bytes[index] ^= flip;
        if let Ok(package) = key_package::parse(&bytes) {
            prop_assert!(package.validate(1).is_err());
        }
        bytes.truncate(cut.index(whole));
        prop_assert!(key_package::parse(&bytes).is_err());
    }

    /// The reader that skims private messages says what the decoder of the MLS library says.
    #[test]
    fn skimming_agrees_with_decoding(
        group in vec(any::<u8>(), 15..18),
        content_type in 0..5_u8,
        ciphertext in vec(any::<u8>(), 0..300),
        damage in option::of((any::<prop::sample::Index>(), any::<u8>())),
        cut in option::of(any::<prop::sample::Index>()),
        public in 0..5_usize,
    ) {
        let mut data = match public {
            0 => group_message::public_proposal(&group),
            1 => group_message::public_commit(&group),
            _ => group_message::private_message(&group, content_type, &ciphertext),
        };
        if let Some((at, with)) = damage {
            let index = at.index(data.len());
            data[index] = with;
        }
        if let Some(cut) = cut {
            data.truncate(cut.index(data.len()));
        }
        let decoded = MlsMessageIn::tls_deserialize(&mut &data[..])
            .ok()
            .and_then(|message| ProtocolMessage::try_from(message).ok());
        let expected = decoded.and_then(|message| {
            let topic = Topic::new(envelope::TopicKind::GroupMessage, message.group_id().as_slice());
            Some((topic.ok()?, message.is_handshake_message()))
        });
        let skimmed = group_payload::parse(&data)
            .ok()
            .map(|header| (header.topic, header.content_type.is_commit_or_proposal()));
        prop_assert_eq!(skimmed, expected);
    }

    /// No update, however odd, makes its judgement panic.
    #[test]
    fn judging_an_update_never_panics(update in update()) {
        let first = create_inbox(&Wallet::numbered(0), &Installation::numbered(0));
        let history = vec![canonical::encode(&update_envelope(first))];
        let verifier = ScriptedVerifier::always(Ok(true));
        for history in [vec![], history] {
            if let Ok(local) = verify_locally(history, update.clone(), ENTRIES_MAX)
                && let Ok(verified) = block_on(local.verify_contracts(&verifier))
            {
                let _ = verified.apply();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random sequences of well-signed updates: the state is consistent after each, a refused update
    /// leaves no trace, and replaying what was accepted gives the last state.
    #[test]
    fn accepted_updates_replay_to_the_same_state(steps in vec(step(), 1..12)) {
        let (w0, w1, p0) = (Wallet::numbered(0), Wallet::numbered(1), Passkey::numbered(0));
        let apps = [0, 1, 2].map(Installation::numbered);
        let who: [&dyn Signer; 6] = [&w0, &w1, &p0, &apps[0], &apps[1], &apps[2]];
        let create = create_inbox(&w0, &apps[0]);
        let inbox_id = create.inbox_id.clone();
        let verifier = ScriptedVerifier::always(Ok(true));
        let mut history = vec![canonical::encode(&update_envelope(create))];
        let mut state = block_on(replay(history.clone(), &verifier)).unwrap().unwrap();
        for (at, step) in steps.into_iter().enumerate() {
            let update = UpdateBuilder::new(&inbox_id).at(1_000_000_000 * at as u64);
            let update = match step {
                Step::Add(by, whom) => update.add(who[by], who[whom]),
                Step::Revoke(by, whom) => update.revoke(who[by], who[whom].member()),
                Step::ChangeRecovery(by, whom) => {
                    update.change_recovery(who[by], &[&w0, &w1][whom % 2].address())
                }
            };
            let update = update.build();
            let local = verify_locally(history.clone(), update.clone(), ENTRIES_MAX).unwrap();
            let verified = block_on(local.verify_contracts(&verifier)).unwrap();
            if let Ok(admission) = verified.apply() {
                prop_assert_eq!(admission.before.as_ref(), Some(&state));
                check_invariants(admission.before.as_ref(), &admission.after);
                history.push(canonical::encode(&update_envelope(update)));
                state = admission.after;
            }
        }
        let replayed = block_on(replay(history, &verifier)).unwrap().unwrap();
        prop_assert_eq!(members(&replayed), members(&state));
        prop_assert_eq!(replayed, state);
    }
}
