//! Known values: inbox ids, texts, signatures, hashes and whole envelopes that every implementation
//! of the protocol must agree on.
//!
//! Some are published with the protocol's client libraries, the others were computed from published
//! keys with independent libraries. Signatures here are deterministic (RFC 6979, RFC 8032), so the
//! fixtures must produce the very same bytes.

use bytes::Bytes;
use envelope::error::KeyPackageError;
use envelope::ethereum::personal_message_digest;
use envelope::fixtures::{
    Delegate, Installation, Passkey, UpdateBuilder, Wallet, commit_log, group_message, key_package,
    update_envelope,
};
use envelope::identity::{
    Identifier, IdentifierKind, MemberIdentifier, ProjectedIdentifier, inbox_id, signed_text,
};
use envelope::wire::xmtp::backend::v1::client_envelope::Payload;
use envelope::wire::xmtp::identity::associations::identity_action::Kind;
use envelope::wire::xmtp::identity::associations::member_identifier::Kind as Member;
use envelope::wire::xmtp::identity::associations::{
    AddAssociation, ChangeRecoveryAddress, CreateInbox, IdentityUpdate,
    MemberIdentifier as WireMember, RecoverableEd25519Signature, RevokeAssociation,
};
use envelope::wire::xmtp::mls::message_contents::PlaintextCommitLogEntry;
use envelope::{Topic, canonical};
use prost::Message;
use sha2::{Digest, Sha256};

use crate::package_cases::validate;
use crate::support::{admit, parse};

const K0: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
const K1: &str = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d";
const K2: &str = "5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a";
const K3: &str = "90b7388a7427358cb7fc7e9042805b1942eae47ee783e627a989719da35e76fb";

/// A wallet of a published private key.
pub(crate) fn wallet(secret: &str) -> Wallet {
    Wallet::from_secret(&hex::decode(secret).unwrap().try_into().unwrap())
}

/// The wallet that most known values belong to.
pub(crate) fn k0() -> Wallet {
    wallet(K0)
}

fn installation() -> Installation {
    Installation::from_seed(&[1; 32])
}

fn passkey() -> Passkey {
    Passkey::from_secret(&[2; 32])
}

fn bytes(hexadecimal: &str) -> Bytes {
    hex::decode(hexadecimal.trim()).unwrap().into()
}

/// An update that was published as a whole envelope.
fn check_envelope(update: &IdentityUpdate, encoded: &str, topic: &str, hash: &str) {
    let encoded = bytes(encoded);
    let parsed = parse(canonical::decode(encoded.clone()).unwrap()).unwrap();
    assert_eq!(parsed.canonical, encoded);
    assert_eq!(hex::encode(parsed.topic.as_bytes()), topic);
    assert_eq!(hex::encode(parsed.hash.as_bytes()), hash);
    assert_eq!(canonical::encode(&update_envelope(update.clone())), encoded);
}

/// Addresses of published development keys.
#[test]
fn addresses_follow_from_keys() {
    let cases = [
        (K0, "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"),
        (K1, "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"),
        (K2, "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc"),
        (K3, "0x34dd95109b587ca90778cde5e2dd87e022453699"),
    ];
    for (secret, address) in cases {
        assert_eq!(wallet(secret).address(), address);
    }
}

/// Inbox ids of addresses and passkeys, at both ends of the nonce.
#[test]
fn inbox_ids_follow_from_identifiers() {
    let cases = [
        (
            "0x1234567890abcdef1234567890abcdef12345678",
            0,
            "fcd18d86276d7a99fe522dba9660c420f03c8648785ada7c5daae232a3df77a9",
        ),
        (
            "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
            0,
            "41ff994ea1f9462295cee1ad48c270f6fe3e6307cd9a062e9320cf43a724e348",
        ),
        (
            "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
            1,
            "f2dc4b90b67487658e6fc1d4759c148fac797ea24fadee18c9d511787e04ea1a",
        ),
        (
            "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
            0,
            "1e1257e2aeb2ca12d7758d0b39b378086d410485fc71df0fe8d22b3bfee4c461",
        ),
        (
            "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
            1,
            "82249fd587e2b1819c1fb64623cdda6ec397e289986051e4dacf5ab2f294a61c",
        ),
        (
            "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc",
            0,
            "05bb02bdac6a7fa165268ffe704106ad72ab8bdfc1a03252f50e03cd236206e4",
        ),
        (
            "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc",
            1,
            "3937f3c5720405337c9cfd62b8ad7d7d860bf69487d72f6a1f171f6d3637a162",
        ),
        (
            "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
            u64::MAX,
            "6a8e20e05735b605de0b4604988c688b801a6a381a43edc056d71e6b0a87f4ae",
        ),
    ];
    for (address, nonce, expected) in cases {
        let identifier = Identifier::Ethereum(address.to_owned());
        assert_eq!(inbox_id(&identifier, nonce).unwrap(), expected);
    }
    let cases = [
        (
            false,
            "c39929935ea92735572f8dd52e142653704c0f38187de82a33a97a51e1d755c3",
        ),
        (
            true,
            "f62c3c8fdeb000fbdd6119cfc793754e8473fbd75cd762b2c18e63efe4be0ec1",
        ),
    ];
    for (compressed, expected) in cases {
        let identifier = Identifier::Passkey(passkey().public_key(compressed).into());
        assert_eq!(inbox_id(&identifier, 0).unwrap(), expected);
    }
}

/// No inbox id follows from a text that is not an address.
#[test]
fn inbox_ids_need_a_well_formed_address() {
    let good = "0x1234567890abcdef1234567890ABCDEF12345678";
    assert!(inbox_id(&Identifier::Ethereum(good.to_owned()), 0).is_ok());
    for bad in [
        "",
        "0x",
        &good[2..],
        &good[..41],
        "0X1234567890abcdef1234567890abcdef12345678",
        "0x1234567890abcdef1234567890abcdef1234567g",
        "0x1234567890abcdef1234567890abcdef123456789",
    ] {
        assert!(
            inbox_id(&Identifier::Ethereum(bad.to_owned()), 0).is_err(),
            "{bad}"
        );
    }
}

/// Case 53: the published text with an action of every kind.
#[test]
fn the_signed_text_shows_every_action() {
    let address = "0x4567890abcdef1234567890abcdef12345678123";
    let member = |kind| Some(WireMember { kind: Some(kind) });
    let add = |kind| {
        Kind::Add(Box::new(AddAssociation {
            new_member_identifier: member(kind),
            ..AddAssociation::default()
        }))
    };
    let revoke = |kind| {
        Kind::Revoke(Box::new(RevokeAssociation {
            member_to_revoke: member(kind),
            ..RevokeAssociation::default()
        }))
    };
    let key = Bytes::from_static(&[1, 2, 3]);
    let kinds = [
        Kind::CreateInbox(Box::new(CreateInbox {
            initial_identifier: "0x1234567890abcdef1234567890abcdef12345678".to_owned(),
            ..CreateInbox::default()
        })),
        add(Member::EthereumAddress(address.to_owned())),
        add(Member::InstallationPublicKey(key.clone())),
        revoke(Member::EthereumAddress(address.to_owned())),
        revoke(Member::InstallationPublicKey(key)),
        Kind::ChangeRecoveryAddress(Box::new(ChangeRecoveryAddress {
            new_recovery_identifier: "0x7890abcdef1234567890abcdef12345678123456".to_owned(),
            ..ChangeRecoveryAddress::default()
        })),
    ];
    let id = "fcd18d86276d7a99fe522dba9660c420f03c8648785ada7c5daae232a3df77a9";
    let update = kinds
        .into_iter()
        .fold(UpdateBuilder::new(id).at(12), |update, kind| {
            update.action(kind, [None, None])
        });
    let expected = "XMTP : Authenticate to inbox

Inbox ID: fcd18d86276d7a99fe522dba9660c420f03c8648785ada7c5daae232a3df77a9
Current time: 1970-01-01T00:00:00Z

- Create inbox
  (Owner: 0x1234567890abcdef1234567890abcdef12345678)
- Link address to inbox
  (Address: 0x4567890abcdef1234567890abcdef12345678123)
- Grant messaging access to app
  (ID: 010203)
- Unlink address from inbox
  (Address: 0x4567890abcdef1234567890abcdef12345678123)
- Revoke messaging access from app
  (ID: 010203)
- Change inbox recovery address
  (Address: 0x7890abcdef1234567890abcdef12345678123456)

For more info: https://xmtp.org/signatures";
    assert_eq!(update.text(), expected);
}

/// Case 55: create and add an installation, down to the digest, both signatures and the envelope.
#[test]
fn a_wallet_creates_an_inbox_and_adds_an_installation() {
    let (wallet, installation) = (k0(), installation());
    let builder = UpdateBuilder::creating(&wallet, 0).add(&wallet, &installation);
    let text = builder.text();
    assert_eq!(text.len(), 358);
    assert_eq!(
        hex::encode(Sha256::digest(&text)),
        "3073b37fc6269e39b670c96e1bd98703af8a43cf70d240c05fb3dd836fc58702"
    );
    assert_eq!(
        hex::encode(personal_message_digest(text.as_bytes())),
        "a1307616e1229ff3193cc301d21eada093cbcb19cd69cd303ad8196f44fa076b"
    );
    assert_eq!(
        hex::encode(wallet.sign_text(&text)),
        "88a0a6116d409aa48f70df6706c2e6065383a0be6e633b89b3f0d2aa6220959d3cf4e6e0fdee81312d2ccd8a5682d29ff600c48d7362117d63d77384561208701b"
    );
    assert_eq!(
        hex::encode(installation.sign_text(&text)),
        "afa2bb97179e8e8ad73d3a6fd92d15ecdf48b044c77bd38146d319204740ad221247927bc2842c0c3d7327a25f465ed57c459651be15ffbdb31b423840a4fe00"
    );
    let update = builder.build();
    check_envelope(
        &update,
        include_str!("values/installation_create.hex"),
        "0241ff994ea1f9462295cee1ad48c270f6fe3e6307cd9a062e9320cf43a724e348",
        "de858ddb686db56d96b9abf5701aae7f52e22b345c4636d07ca88a9f72230ccf",
    );

    let admission = admit(&[], &update).unwrap();
    assert!(admission.before.is_none());
    let owner = MemberIdentifier::Ethereum(wallet.address());
    let app = MemberIdentifier::Installation(Bytes::copy_from_slice(&installation.public_key()));
    let state = &admission.after;
    assert_eq!(state.members().len(), 2);
    let member = state.member(&owner).unwrap();
    assert_eq!(
        (
            &member.added_by,
            member.client_timestamp_ns,
            member.chain_id
        ),
        (&None, None, None)
    );
    let member = state.member(&app).unwrap();
    assert_eq!(member.added_by.as_ref(), Some(&owner));
    assert_eq!(member.client_timestamp_ns, Some(1_712_750_400_123_456_789));
    assert_eq!(*state.recovery(), Identifier::Ethereum(wallet.address()));
    assert_eq!(state.seen_signatures(), 2);
    assert_eq!(state.inbox_id(), update.inbox_id);
    assert_eq!(
        admission.changes.added,
        [ProjectedIdentifier {
            kind: IdentifierKind::Ethereum,
            key: wallet.address(),
        }]
    );
    assert!(admission.changes.removed.is_empty());
}

/// Case 68: a passkey creates an inbox.
#[test]
fn a_passkey_creates_an_inbox() {
    let passkey = passkey();
    assert_eq!(
        hex::encode(passkey.public_key(false)),
        "04550f471003f3df97c3df506ac797f6721fb1a1fb7b8f6f83d224498a65c88e24136093d7012e509a73715cbd0b00a3cc0ff4b5c01b3ffa196ab1fb327036b8e6"
    );
    let builder = UpdateBuilder::creating(&passkey, 0);
    assert_eq!(
        hex::encode(Sha256::digest(builder.text())),
        "153bae621daeac140539262ae3cdab4247091d73fba9b2d4ad8918f6d79b11ba"
    );
    let update = builder.build();
    check_envelope(
        &update,
        include_str!("values/passkey_create.hex"),
        "02c39929935ea92735572f8dd52e142653704c0f38187de82a33a97a51e1d755c3",
        "4cd319dffc64b006bf0f6c3463eefb91948c320bb1dffe016050205931ebb611",
    );
    let admission = admit(&[], &update).unwrap();
    assert_eq!(admission.after.inbox_id(), update.inbox_id);
    assert_eq!(
        admission.changes.added,
        [ProjectedIdentifier {
            kind: IdentifierKind::Passkey,
            key: hex::encode(passkey.public_key(false)),
        }]
    );
}

/// Case 75: a legacy key creates the inbox of the wallet that delegated to it.
#[test]
fn a_legacy_key_creates_its_wallets_inbox() {
    let delegate = Delegate::of(&wallet(K1), &wallet(K2));
    assert_eq!(
        hex::encode(delegate.key_bytes()),
        "088080a8b1e39fe7cb171a430a41049d9031e97dd78ff8c15aa86939de9b1e791066a0224e331bc962a2099a7b1f0464b8bbafe1535f2301c72c2cb3535b172da30b02686ab0393d348614f157fbdb"
    );
    let builder = UpdateBuilder::creating(&delegate, 0);
    assert_eq!(
        hex::encode(Sha256::digest(builder.text())),
        "8104012b18611a30ce0df7890029cac8151a416bf032cce7fe69498f3ee977d3"
    );
    assert_eq!(
        hex::encode(delegate.sign_text(&builder.text())),
        "fc2b9626c9a0ca8a380332ff99760303b5983cc1547a4a1d1e471d37b52e19d74b38972da699a572209420200ca46f645b13e98920f3e2635e9a38a5dbc24a491b"
    );
    let update = builder.build();
    check_envelope(
        &update,
        include_str!("values/legacy_create.hex"),
        "021e1257e2aeb2ca12d7758d0b39b378086d410485fc71df0fe8d22b3bfee4c461",
        "18441c715316970452fa4b4c30fdf1c8421d1ce92640944f2cb833a00357486f",
    );
    let admission = admit(&[], &update).unwrap();
    assert_eq!(admission.after.inbox_id(), update.inbox_id);
}

/// Key packages made by an MLS library: one that never ends, one that always has.
#[test]
fn known_key_packages_are_judged_by_their_lifetime() {
    let unbounded = bytes(include_str!("values/key_package_unbounded.hex"));
    let envelope = key_package::with_bytes(&unbounded);
    let parsed = parse(envelope.clone()).unwrap();
    assert_eq!(
        hex::encode(parsed.topic.as_bytes()),
        "038a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"
    );
    assert_eq!(
        hex::encode(parsed.hash.as_bytes()),
        "18a1b8ff42ab0399297ba8900a34d56501b5c8c7c73946aecc0f9fb3b51b1a8a"
    );
    let facts = validate(envelope.clone(), 0).unwrap();
    assert_eq!(
        facts.inbox_id,
        "41ff994ea1f9462295cee1ad48c270f6fe3e6307cd9a062e9320cf43a724e348"
    );
    assert!(validate(envelope, u64::MAX - 1).is_ok());

    let expired = key_package::with_bytes(&bytes(include_str!("values/key_package_expired.hex")));
    assert_eq!(
        validate(expired.clone(), 0),
        Err(KeyPackageError::NotYetValid)
    );
    assert!(validate(expired.clone(), 1).is_ok());
    assert_eq!(validate(expired, 2), Err(KeyPackageError::Expired));
}

/// Envelopes of the other kinds, with their topics and hashes.
#[test]
fn known_envelopes_have_their_topics_and_hashes() {
    let cases = [
        (
            "0a250a2100010002100a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0000000000000007030000001801",
            "000a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a",
            "6c5963205d28125ab04e30c701eb790f0ac531c72890c3e51096ffd3fb32ae03",
            true,
        ),
        (
            "0a2b0a2300010002100a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a000000000000000701000000dead120499999999",
            "000a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a",
            "1755ae2688942a4b0a644013bbc09ac2d94eb14a59267030994c7caded40eb00",
            false,
        ),
        (
            "122e0a2c0a200b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b120301020320032a0104",
            "010b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b",
            "7ed2c05b285fcdce98ff88985e8b841fd44684414a0636d9595aa6c8abeb0b00",
            false,
        ),
        (
            "2a86010a1e0a100c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c10051a01012001280632010212640a400303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030312200404040404040404040404040404040404040404040404040404040404040404",
            "040c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c",
            "cad0c6e51d097f0448e40c743b586c34a6759562b5726629851148a3fe47ee5b",
            false,
        ),
    ];
    for (encoded, topic, hash, flag) in cases {
        let parsed = parse(canonical::decode(bytes(encoded)).unwrap()).unwrap();
        assert_eq!(parsed.canonical, bytes(encoded));
        assert_eq!(parsed.topic, Topic::parse(&bytes(topic)).unwrap());
        assert_eq!(hex::encode(parsed.hash.as_bytes()), hash);
        assert_eq!(parsed.is_commit_or_proposal, flag);
    }
}

/// Three messages that differ in their content type only, as wire, flag and hash.
#[test]
fn known_group_messages_of_each_content_type() {
    let cases = [
        (
            1,
            false,
            "e301222fdee046c80f4ee4e55c72c35f40aaab7b4d9cacd9bacf499b11d69f55",
        ),
        (
            2,
            true,
            "dcedef20de7c2b47e488117c192f6c53e5311336ff7db4589315142ed33cc962",
        ),
        (
            3,
            true,
            "eb19d4beea84c1a1aeeca3f357e38e2a85b39cef87ec108f87502a7546c88260",
        ),
    ];
    for (content_type, flag, hash) in cases {
        let data = format!(
            "0001000210000102030405060708090a0b0c0d0e0f0000000000000007{content_type:02x}0004aabbccdd03010203"
        );
        let parsed = parse(group_message::with_data(bytes(&data))).unwrap();
        assert_eq!(parsed.canonical.len(), 44);
        assert_eq!(hex::encode(parsed.hash.as_bytes()), hash);
        assert_eq!(parsed.is_commit_or_proposal, flag);
    }
}

/// A commit-log entry with every field set.
#[test]
fn a_known_commit_log_entry_has_its_hash() {
    let group: [u8; 16] = std::array::from_fn(|at| u8::try_from(at).unwrap());
    let entry = PlaintextCommitLogEntry {
        group_id: Bytes::copy_from_slice(&group),
        commit_sequence_id: 42,
        last_epoch_authenticator: Bytes::from_static(&[1; 4]),
        commit_result: 1,
        applied_epoch_number: 8,
        applied_epoch_authenticator: Bytes::from_static(&[2; 4]),
    };
    let signature = RecoverableEd25519Signature {
        bytes: Bytes::from_static(&[0x33; 64]),
        public_key: Bytes::from_static(&[0x44; 32]),
    };
    let envelope = commit_log::with_parts(&entry.encode_to_vec(), Some(signature));
    let parsed = parse(envelope).unwrap();
    assert_eq!(parsed.canonical.len(), 143);
    assert_eq!(parsed.topic.identifier(), group);
    assert_eq!(
        hex::encode(parsed.hash.as_bytes()),
        "36f4e050085a37866e334c2beb67c2cece2e517039d73d9a37d26e0dc6a7aa81"
    );
}

/// The text of an update is rebuilt from its wire form alone, signed or not.
#[test]
fn the_text_does_not_depend_on_signatures() {
    let (wallet, installation) = (k0(), installation());
    let builder = UpdateBuilder::creating(&wallet, 0).add(&wallet, &installation);
    let text = builder.text();
    assert_eq!(signed_text(&builder.build()).unwrap(), text);
    let Some(Payload::IdentityUpdate(update)) =
        canonical::decode(bytes(include_str!("values/installation_create.hex")))
            .unwrap()
            .payload
    else {
        panic!("an identity update");
    };
    assert_eq!(signed_text(&update).unwrap(), text);
}
