//! What real clients sent goes through the server, and everything they rely on comes back
//! (ARC-013, ARC-030, ARC-065).
//!
//! Nobody on this project made these payloads, so nothing here can be right by sharing a mistake
//! with the fixtures.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use envelope::identity::{Identifier, IdentifierKind, MemberIdentifier, replay};
use envelope::wire::xmtp::backend::v1::get_inbox_ids_request::Request as Lookup;
use envelope::wire::xmtp::backend::v1::{
    EnvelopeMeta, GetInboxIdsRequest, GetInboxIdsResponse, QueryNewestRequest, Topic,
};
use envelope::wire::xmtp::identity::associations::IdentityUpdate;
use envelope::wire::xmtp::identity::associations::identity_action::Kind as Action;
use envelope::wire::xmtp::identity::associations::member_identifier::Kind as Member;
use envelope::{MessageHash, TopicKind};
use harness::{TestServer, Transport};
use prost::Message;
use serde_json::Value;

use crate::captures::{Capture, Payload, publish};
use crate::raw_reading::{Stored, drain, hash, sequence_id, topic};

/// How long the server keeps what expires, in nanoseconds: 90 days unless configured (API-021).
const RETENTION_NS: u64 = 90 * 24 * 3_600 * 1_000_000_000;

/// Everything the v3 node API took, over native gRPC.
#[tokio::test]
async fn what_clients_sent_to_nodes_is_kept_as_sent() {
    go_through("node-api", Transport::Native).await;
}

/// Everything a gateway took, over gRPC-Web in binary. These payloads carry the topic that the client
/// itself derived.
#[tokio::test]
async fn what_clients_sent_to_gateways_is_kept_as_sent() {
    go_through("gateway-api", Transport::WebHttp1).await;
}

/// Groups that use standalone proposals, over gRPC-Web in text.
#[tokio::test]
async fn what_clients_with_proposals_sent_is_kept_as_sent() {
    go_through("proposals", Transport::WebTextHttp1).await;
}

/// Publishes a set in the order of its arrival at the time of its making, then reads all of it and
/// publishes it again.
async fn go_through(set: &str, transport: Transport) {
    let capture = Capture::load(set);
    let server = TestServer::builder()
        .at_unix_seconds(capture.moment_s())
        .wallets(capture.wallets())
        .start()
        .await;

    let metas = publish_all(&server, transport, capture.requests()).await;
    check_metas(&capture, &metas);
    for limit in [1, 4, 7] {
        check_pages(&server, transport, (&capture, &metas), limit).await;
    }
    check_newest_packages(&server, transport, (&capture, &metas)).await;
    check_rows(&server, &capture).await;
    check_inboxes(&server, transport, &capture).await;
    check_lookups(&server, transport, &capture).await;

    // Again: as before over another protocol, and then one by one from the end.
    let other = Transport::WebHttp2;
    assert_eq!(
        publish_all(&server, other, capture.requests()).await,
        metas,
        "{set}"
    );
    let backwards = capture.payloads.chunks(1).rev();
    let mut again = publish_all(&server, transport, backwards).await;
    again.reverse();
    assert_eq!(again, metas, "{set}");
    check_rows(&server, &capture).await;
    server.stop().await;
}

async fn publish_all<'p>(
    server: &TestServer,
    transport: Transport,
    requests: impl Iterator<Item = &'p [Payload]>,
) -> Vec<EnvelopeMeta> {
    let mut metas = Vec::new();
    for payloads in requests {
        match publish(server, transport, payloads).await {
            Ok(answered) => metas.extend(answered),
            Err(status) => panic!("{}: {status}", payloads[0].file()),
        }
    }
    metas
}

/// Topic, hash, flag and expiry follow from each payload; ids follow the order of arrival.
fn check_metas(capture: &Capture, metas: &[EnvelopeMeta]) {
    assert_eq!(metas.len(), capture.payloads.len());
    assert!(metas.is_sorted_by(|a, b| sequence_id(a) < sequence_id(b)));
    for (payload, meta) in capture.payloads.iter().zip(metas) {
        let file = payload.file();
        assert_eq!(topic(meta), payload.topic(), "{file}");
        if let Some(topic_of_client) = &payload.client_topic {
            assert_eq!(topic(meta), topic_of_client, "{file}");
        }
        assert_eq!(
            payload.client_topic.is_some(),
            file.starts_with("gateway-api/")
        );
        let flag = payload.is_commit_or_proposal();
        assert_eq!(meta.is_commit_or_proposal, flag, "{file}");
        let expected = MessageHash::of(&payload.canonical);
        assert_eq!(hash(meta), expected.as_bytes()[..], "{file}");
        let kind = TopicKind::from_byte(topic(meta)[0]).expect("a kind");
        let stays = match kind {
            TopicKind::GroupMessage => flag,
            TopicKind::Welcome | TopicKind::KeyPackage => false,
            TopicKind::IdentityUpdate | TopicKind::CommitLogEntry => true,
        };
        let expiry_ns = if stays {
            0
        } else {
            meta.server_ns + RETENTION_NS
        };
        assert_eq!(meta.expiry_ns, expiry_ns, "{file}");
        if let Some(mls) = &payload.mls {
            let mut windows = payload.canonical.windows(mls.len());
            assert!(windows.any(|window| window == mls), "{file}");
        }
    }
}

/// The paging loop over all topics that Query serves gives every envelope back, byte for byte.
async fn check_pages(
    server: &TestServer,
    transport: Transport,
    (capture, metas): (&Capture, &[EnvelopeMeta]),
    limit: u32,
) {
    let expected: Vec<_> = capture
        .payloads
        .iter()
        .zip(metas)
        .filter(|(payload, _)| !payload.is_key_package())
        .map(|(payload, meta)| Stored {
            meta: Some(meta.clone()),
            envelope: payload.canonical.clone(),
        })
        .collect();
    let topics: BTreeSet<Bytes> = expected.iter().map(Stored::topic).collect();
    let drained = drain((server.address(), transport), topics, limit).await;
    assert!(drained == expected, "limit {limit}");
}

/// `QueryNewestResponse`, its envelopes left as they came.
#[derive(Clone, PartialEq, Message)]
struct Newest {
    #[prost(message, repeated, tag = "1")]
    results: Vec<NewestResult>,
}

#[derive(Clone, PartialEq, Message)]
struct NewestResult {
    #[prost(message, optional, tag = "1")]
    topic: Option<Topic>,
    #[prost(message, optional, tag = "2")]
    meta: Option<EnvelopeMeta>,
    #[prost(bytes = "bytes", tag = "3")]
    envelope: Bytes,
}

/// Whoever invites an installation gets its latest key package, byte for byte.
async fn check_newest_packages(
    server: &TestServer,
    transport: Transport,
    (capture, metas): (&Capture, &[EnvelopeMeta]),
) {
    let mut expected = BTreeMap::new();
    for (payload, meta) in capture.payloads.iter().zip(metas) {
        if payload.is_key_package() {
            expected.insert(payload.topic(), (meta.clone(), payload.canonical.clone()));
        }
    }
    assert!(expected.len() >= 4);
    let topics = expected.keys().map(|topic| Topic {
        topic: topic.clone(),
    });
    let request = QueryNewestRequest {
        topics: topics.collect(),
        include_full_envelope: true,
    };
    let newest: Newest = transport
        .call(server.address(), "QueryService/QueryNewest", &request)
        .await
        .expect("an answer");
    let found = newest.results.into_iter().map(|result| {
        let meta = result.meta.expect("metadata");
        let topic = result.topic.expect("a topic").topic;
        (topic, (meta, result.envelope))
    });
    assert!(found.collect::<BTreeMap<_, _>>() == expected);
}

/// The database holds each payload once, in the order of arrival, and nothing else. This is where
/// superseded key packages can be seen, which no read returns.
async fn check_rows(server: &TestServer, capture: &Capture) {
    let pool = server.database().pool().await;
    let rows: Vec<Vec<u8>> =
        sqlx::query_scalar("SELECT payload FROM envelopes ORDER BY sequence_id")
            .fetch_all(&pool)
            .await
            .expect("the rows");
    pool.close().await;
    let expected = capture.payloads.iter().map(|payload| &payload.canonical);
    assert!(rows.iter().eq(expected));
}

/// Replaying what Query returns of every inbox gives the members and the recovery identifier that the
/// client library reported.
async fn check_inboxes(server: &TestServer, transport: Transport, capture: &Capture) {
    let updated: BTreeSet<_> = updates(capture)
        .map(|update| &update.inbox_id[..])
        .collect();
    let reported: BTreeSet<_> = capture.states.iter().map(|s| text(s, "inbox_id")).collect();
    assert_eq!(updated, reported);
    for expected in &capture.states {
        let inbox_id = text(expected, "inbox_id");
        let topic = hex::decode(format!("02{inbox_id}")).expect("hexadecimal");
        let stored = drain((server.address(), transport), [topic.into()], 2).await;
        let history = stored.into_iter().map(|stored| stored.envelope).collect();
        let state = replay(history, &capture.wallets())
            .await
            .expect("a history that was admitted")
            .expect("updates");

        let mut identifiers = BTreeSet::new();
        let mut installations = BTreeSet::new();
        for (member, _) in state.members() {
            match member {
                MemberIdentifier::Installation(_) => installations.insert(member.text()),
                MemberIdentifier::Ethereum(text) => identifiers.insert(text.clone()),
                MemberIdentifier::Passkey(_) => identifiers.insert(member.text()),
            };
        }
        assert_eq!(state.inbox_id(), inbox_id);
        let reported = list(expected, "installations").map(|key| key.as_str().expect("a key"));
        assert!(
            installations
                .iter()
                .map(String::as_str)
                .eq(BTreeSet::from_iter(reported))
        );
        let reported = list(expected, "identifiers").map(|entry| text(entry, "identifier"));
        assert!(
            identifiers
                .iter()
                .map(String::as_str)
                .eq(BTreeSet::from_iter(reported))
        );
        let recovery = &expected["recovery_identifier"];
        assert_eq!(state.recovery().text(), text(recovery, "identifier"));
        let kind = match state.recovery() {
            Identifier::Ethereum(_) => IdentifierKind::Ethereum,
            Identifier::Passkey(_) => IdentifierKind::Passkey,
        };
        assert_eq!(kind, reported_kind(recovery));
    }
}

/// Every identifier that any update ever named is found in the inbox it ended up in, or in none.
async fn check_lookups(server: &TestServer, transport: Transport, capture: &Capture) {
    let mut expected: BTreeMap<(String, IdentifierKind), Option<String>> = updates(capture)
        .flat_map(named)
        .map(|identifier| (identifier, None))
        .collect();
    let named = expected.len();
    for state in &capture.states {
        for entry in list(state, "identifiers") {
            let key = (text(entry, "identifier").to_owned(), reported_kind(entry));
            let inbox_id = text(state, "inbox_id").to_owned();
            let before = expected.insert(key, Some(inbox_id));
            assert_eq!(before, Some(None), "named, and in one inbox only");
        }
    }
    assert_eq!(expected.len(), named);

    let requests = expected.keys().map(|(identifier, kind)| Lookup {
        identifier: identifier.clone(),
        identifier_kind: i32::from(kind.number()),
    });
    let request = GetInboxIdsRequest {
        requests: requests.collect(),
    };
    let found: GetInboxIdsResponse = transport
        .call(server.address(), "IdentityService/GetInboxIds", &request)
        .await
        .expect("an answer");
    let found: Vec<_> = found
        .responses
        .into_iter()
        .map(|found| (found.identifier, found.identifier_kind, found.inbox_id))
        .collect();
    let expected: Vec<_> = expected
        .into_iter()
        .map(|((identifier, kind), inbox_id)| (identifier, i32::from(kind.number()), inbox_id))
        .collect();
    assert_eq!(found, expected);
}

fn updates(capture: &Capture) -> impl Iterator<Item = &IdentityUpdate> {
    capture.payloads.iter().filter_map(Payload::update)
}

/// The identifiers that an update names, as they are looked up.
fn named(update: &IdentityUpdate) -> Vec<(String, IdentifierKind)> {
    let numbered = |text: &String, kind| {
        let kind = IdentifierKind::from_wire(kind).expect("a kind of the schema");
        (text.clone(), kind)
    };
    let member = |member: &Member| match member {
        Member::EthereumAddress(address) => Some((address.clone(), IdentifierKind::Ethereum)),
        Member::Passkey(passkey) => Some((hex::encode(&passkey.key), IdentifierKind::Passkey)),
        Member::InstallationPublicKey(_) => None,
    };
    let actions = update
        .actions
        .iter()
        .filter_map(|action| action.kind.as_ref());
    actions
        .filter_map(|action| match action {
            Action::CreateInbox(create) => Some(numbered(
                &create.initial_identifier,
                create.initial_identifier_kind,
            )),
            Action::Add(add) => member(add.new_member_identifier.as_ref()?.kind.as_ref()?),
            Action::Revoke(revoke) => member(revoke.member_to_revoke.as_ref()?.kind.as_ref()?),
            Action::ChangeRecoveryAddress(change) => Some(numbered(
                &change.new_recovery_identifier,
                change.new_recovery_identifier_kind,
            )),
        })
        .collect()
}

/// The client library counts kinds from 0.
fn reported_kind(entry: &Value) -> IdentifierKind {
    match entry["identifierKind"].as_u64() {
        Some(0) => IdentifierKind::Ethereum,
        Some(1) => IdentifierKind::Passkey,
        other => panic!("unknown kind {other:?}"),
    }
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().expect("a text")
}

fn list<'v>(value: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    value[field].as_array().expect("a list").iter()
}
