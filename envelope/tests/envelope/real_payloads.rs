//! Payloads that real clients sent, from `tests/fixtures/real` at the root of the repository.
//!
//! Clients of today wrap them in other messages than this backend does; the fixtures unwrap them
//! without touching the payload bytes inside (ARC-013).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use envelope::fixtures::{ScriptedVerifier, client};
use envelope::identity::{
    AssociationState, Identifier, MemberIdentifier, replay, signed_text, verify_locally,
};
use envelope::scw::VerifierError;
use envelope::wire::xmtp::backend::v1::ClientEnvelope;
use envelope::wire::xmtp::backend::v1::client_envelope::Payload;
use envelope::wire::xmtp::identity::associations::IdentityUpdate;
use envelope::{Error, TopicKind, Unchecked, canonical};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::package_cases::validate;
use crate::support::{block_on, parse};

/// One payload with what is known of it.
struct Entry {
    facts: Value,
    envelope: ClientEnvelope,
    /// The topic that its client wrote beside it, in hexadecimal; only gateway envelopes have one.
    topic: Option<String>,
}

impl Entry {
    fn text(&self, field: &str) -> Option<&str> {
        self.facts[field].as_str()
    }

    /// The kind of topic, by what the index calls the payload.
    fn kind(&self) -> TopicKind {
        let name = self.text("payload").or_else(|| self.text("kind")).unwrap();
        match name {
            "group_message" => TopicKind::GroupMessage,
            "welcome_message" => TopicKind::Welcome,
            "identity_update" => TopicKind::IdentityUpdate,
            "key_package" | "upload_key_package" => TopicKind::KeyPackage,
            "commit_log" => TopicKind::CommitLogEntry,
            other => panic!("unknown kind {other}"),
        }
    }

    fn update(&self) -> Option<&IdentityUpdate> {
        match self.envelope.payload.as_ref()? {
            Payload::IdentityUpdate(update) => Some(update),
            Payload::GroupMessage(_)
            | Payload::WelcomeMessage(_)
            | Payload::KeyPackage(_)
            | Payload::CommitLogEntry(_) => None,
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/real")
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&fs::read(root().join(name)).unwrap()).unwrap()
}

/// Every payload of every set, in the order in which they were sent.
fn entries() -> Vec<(String, Entry)> {
    let index = json("index.json");
    let mut entries = Vec::new();
    for (set, facts) in index["sets"].as_object().unwrap() {
        for facts in facts.as_array().unwrap() {
            let bytes = fs::read(root().join(facts["file"].as_str().unwrap())).unwrap();
            assert_eq!(hex::encode(Sha256::digest(&bytes)), facts["sha256"]);
            let message_type = facts["message_type"].as_str().unwrap();
            let sent = client::unwrap(message_type, bytes.into());
            let entry = Entry {
                envelope: sent.envelope,
                topic: sent.topic.map(hex::encode),
                facts: facts.clone(),
            };
            entries.push((set.clone(), entry));
        }
    }
    assert!(entries.len() > 240);
    entries
}

/// Every payload parses, is routed where its sender meant it, and is flagged as its header says.
#[test]
fn every_payload_has_its_topic_and_flag() {
    for (_, entry) in entries() {
        let file = entry.text("file").unwrap();
        let parsed = parse(entry.envelope.clone()).unwrap();
        assert_eq!(parsed.topic.kind(), entry.kind(), "{file}");
        if let Some(topic) = entry.text("topic") {
            assert_eq!(hex::encode(parsed.topic.as_bytes()), topic, "{file}");
        }
        let has_own_topic = entry.topic.is_some();
        assert_eq!(has_own_topic, file.starts_with("gateway-api/"), "{file}");
        if let Some(topic) = &entry.topic {
            assert_eq!(hex::encode(parsed.topic.as_bytes()), *topic, "{file}");
        }
        if let Some(group_id) = entry.text("group_id") {
            assert_eq!(hex::encode(parsed.topic.identifier()), group_id, "{file}");
        }
        let flag = entry.facts["is_commit_or_proposal"]
            .as_bool()
            .unwrap_or(false);
        assert_eq!(parsed.is_commit_or_proposal, flag, "{file}");
        let content_type = entry.text("content_type");
        assert_eq!(
            flag,
            matches!(content_type, Some("commit" | "proposal")),
            "{file}"
        );
        let again = canonical::decode(parsed.canonical.clone()).unwrap();
        assert_eq!(again, entry.envelope, "{file}");
        assert_eq!(canonical::encode(&again), parsed.canonical, "{file}");
    }
}

/// Key packages of real clients are valid inside their lifetime and not outside.
#[test]
fn every_key_package_is_valid_in_its_lifetime() {
    let mut count = 0;
    for (_, entry) in entries() {
        if entry.kind() != TopicKind::KeyPackage {
            continue;
        }
        count += 1;
        let second = |end: &str| entry.facts["lifetime"][end].as_u64().unwrap();
        let (first, end) = (second("not_before"), second("not_after"));
        let at = |now_s| validate(entry.envelope.clone(), now_s);
        let facts = at(first).unwrap();
        if let Some(inbox_id) = entry.text("credential_inbox_id") {
            assert_eq!(facts.inbox_id, inbox_id);
        }
        assert!(at(end - 1).is_ok());
        assert!(at(first - 1).is_err());
        assert!(at(end).is_err());
    }
    assert!(count >= 20, "{count}");
}

/// The text of every update is the one that its signers saw.
#[test]
fn every_update_has_its_signed_text() {
    let mut count = 0;
    for (_, entry) in entries() {
        if let (Some(update), Some(text)) = (entry.update(), entry.text("signed_text")) {
            assert_eq!(signed_text(update).unwrap(), text);
            count += 1;
        }
    }
    assert!(count >= 25, "{count}");
}

/// The updates of every inbox of a set, in order, with whether all of them verify without a chain.
fn inboxes() -> BTreeMap<(String, String), (Vec<Bytes>, bool)> {
    let mut inboxes: BTreeMap<_, (Vec<Bytes>, bool)> = BTreeMap::new();
    for (set, entry) in entries() {
        if let Some(update) = entry.update() {
            let key = (set, update.inbox_id.clone());
            let inbox = inboxes.entry(key).or_insert((Vec::new(), true));
            inbox.0.push(canonical::encode(&entry.envelope));
            inbox.1 &= entry.facts["verifiable_offline"].as_bool().unwrap();
        }
    }
    inboxes
}

fn identifiers(state: &AssociationState) -> (Vec<String>, Vec<String>) {
    let (mut identifiers, mut installations) = (Vec::new(), Vec::new());
    for (member, _) in state.members() {
        match member {
            MemberIdentifier::Installation(key) => installations.push(hex::encode(key)),
            MemberIdentifier::Ethereum(_) | MemberIdentifier::Passkey(_) => {
                identifiers.push(member.text());
            }
        }
    }
    identifiers.sort();
    installations.sort();
    (identifiers, installations)
}

fn texts(values: &Value, field: Option<&str>) -> Vec<String> {
    let mut texts: Vec<_> = values
        .as_array()
        .unwrap()
        .iter()
        .map(|value| {
            field
                .map_or(value, |field| &value[field])
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    texts.sort();
    texts
}

/// Replaying the updates of every inbox gives what the client library made of them. Contract wallets
/// that exist on no chain are taken at their word, and those only need a chain.
#[test]
fn every_inbox_replays_to_the_state_its_client_reported() {
    let mut inboxes = inboxes();
    let states = json("inbox_states.json");
    let states = states.as_array().unwrap();
    assert!(states.len() >= 10);
    for expected in states {
        let key = ["set", "inbox_id"].map(|field| expected[field].as_str().unwrap().to_owned());
        let (history, is_offline) = inboxes.remove(&key.clone().into()).unwrap();
        let offline = ScriptedVerifier::always(Err(VerifierError::NoRoute));
        let outcome = block_on(replay(history.clone(), &offline));
        assert_eq!(outcome.is_ok(), is_offline, "{key:?}");
        if let Err(error) = outcome {
            assert_eq!(error, Error::Verifier(VerifierError::NoRoute));
        }
        let trusting = ScriptedVerifier::always(Ok(true));
        let state = block_on(replay(history, &trusting)).unwrap().unwrap();
        let (identifiers, installations) = identifiers(&state);
        assert_eq!(
            identifiers,
            texts(&expected["identifiers"], Some("identifier"))
        );
        assert_eq!(installations, texts(&expected["installations"], None));
        let recovery = &expected["recovery_identifier"];
        assert_eq!(state.recovery().text(), recovery["identifier"]);
        let is_passkey = matches!(state.recovery(), Identifier::Passkey(_));
        assert_eq!(u64::from(is_passkey), recovery["identifierKind"]);
        assert_eq!(state.inbox_id(), key[1]);
    }
}

/// Every prefix of a real history admits the update that really followed.
#[test]
fn every_update_follows_those_before_it() {
    let verifier = ScriptedVerifier::always(Ok(true));
    for (history, _) in inboxes().into_values() {
        for length in 0..history.len() {
            let next = canonical::decode(history[length].clone()).unwrap();
            let Unchecked::IdentityUpdate(update) = parse(next).unwrap().unchecked else {
                panic!("an identity update");
            };
            let local = verify_locally(history[..length].to_vec(), *update, 256).unwrap();
            let verified = block_on(local.verify_contracts(&verifier)).unwrap();
            assert_eq!(verified.apply().unwrap().before.is_none(), length == 0);
        }
    }
}
