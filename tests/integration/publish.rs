//! Publishing over the real service: what is stored and what is answered (API-030 to API-052).

use envelope::fixtures::{
    Installation, KeyPackageBuilder, Wallet, commit_log, filler, group_id, group_message, identity,
    update_envelope, welcome,
};
use envelope::wire::xmtp::backend::v1::message_hash::Hash;
use envelope::wire::xmtp::backend::v1::publish_error::Reason;
use envelope::wire::xmtp::backend::v1::welcome_message::Version;
use envelope::wire::xmtp::backend::v1::{
    ClientEnvelope, EnvelopeMeta, GroupMessage, PublishRequest, PublishResponse, QueryResponse,
    client_envelope::Payload,
};
use harness::{TestServer, Transport};
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use crate::reading::{
    after, id, ids, newest_of, page_of, publish, query, query_newest, topic_bytes,
};
use crate::refusal::{assert_rejected, stored};

/// Retention periods that no two kinds share, in seconds.
const RETENTION: &str =
    "group_message_seconds = 1001\nwelcome_seconds = 2003\nkey_package_seconds = 3005";

/// An envelope can be published and read back over every protocol of the port (ARC-002).
#[tokio::test]
async fn every_protocol_publishes_and_reads_back() {
    let server = TestServer::start().await;
    for (fill, transport) in (0x11..).zip(Transport::ALL) {
        let envelope = welcome::v1(&[fill; 32], b"welcome");
        let request = PublishRequest {
            envelopes: vec![envelope.clone()],
        };
        let published: PublishResponse = transport
            .call(server.address(), "PublishService/Publish", &request)
            .await
            .unwrap_or_else(|status| panic!("{transport:?}: {status}"));
        assert_eq!(published.envelope_metas.len(), 1);

        let request = page_of(vec![after(&topic_bytes(1, &[fill; 32]), 0)], 0);
        let page: QueryResponse = transport
            .call(server.address(), "QueryService/Query", &request)
            .await
            .unwrap_or_else(|status| panic!("{transport:?}: {status}"));
        assert_eq!(page.envelopes.len(), 1);
        assert_eq!(
            page.envelopes[0].meta.as_ref(),
            published.envelope_metas.first()
        );
        assert_eq!(page.envelopes[0].envelope, Some(envelope));
    }
    server.stop().await;
}

/// What the metadata of one envelope must say besides its id and time.
struct Expected {
    claim: &'static str,
    envelope: ClientEnvelope,
    topic: Vec<u8>,
    /// 0 never expires.
    retention_s: u64,
    is_commit_or_proposal: bool,
}

impl Expected {
    /// Expires after `retention_s`, or never if that is 0.
    fn new(
        claim: &'static str,
        envelope: ClientEnvelope,
        topic: Vec<u8>,
        retention_s: u64,
    ) -> Self {
        Self {
            claim,
            envelope,
            topic,
            retention_s,
            is_commit_or_proposal: false,
        }
    }
}

/// Messages of one group in every form. Handshake messages never expire.
fn group_messages() -> Vec<Expected> {
    use group_message::{
        application, commit, proposal, public_application, public_commit, public_proposal,
        with_data,
    };
    let group = group_id(1);
    [
        ("application", application(&group), false),
        ("proposal", proposal(&group), true),
        ("commit", commit(&group), true),
        (
            "public application",
            with_data(public_application(&group)),
            false,
        ),
        ("public proposal", with_data(public_proposal(&group)), true),
        ("public commit", with_data(public_commit(&group)), true),
    ]
    .into_iter()
    .map(|(claim, envelope, is_commit_or_proposal)| Expected {
        is_commit_or_proposal,
        ..Expected::new(
            claim,
            envelope,
            topic_bytes(0, &group),
            if is_commit_or_proposal { 0 } else { 1001 },
        )
    })
    .collect()
}

/// One envelope of every kind and form, with topics spelled out by hand (API-001).
fn every_kind() -> Vec<Expected> {
    let installation = Installation::numbered(1);
    let key = installation.public_key();
    let update = identity::create_inbox(&Wallet::numbered(1), &installation);
    let inbox = topic_bytes(2, &hex::decode(&update.inbox_id).unwrap());
    let package = KeyPackageBuilder::new(&installation, &update.inbox_id).envelope();
    let log = topic_bytes(4, &group_id(1));
    let entry = commit_log::entry(&group_id(1), 1);
    let mut all = group_messages();
    all.extend([
        Expected::new(
            "welcome",
            welcome::v1(&key, b"w"),
            topic_bytes(1, &key),
            2003,
        ),
        Expected::new(
            "pointer",
            welcome::pointer(&key, b"w"),
            topic_bytes(1, &key),
            2003,
        ),
        Expected::new("identity update", update_envelope(update), inbox, 0),
        Expected::new("key package", package, topic_bytes(3, &key), 3005),
        Expected::new("commit-log entry", entry, log, 0),
    ]);
    all
}

/// Every field of the metadata is set, for every kind: the derived topic, the hash of the stored
/// bytes, the expiry of the kind (none for what never expires), and one time for the whole publish.
/// Ids follow the order of the request. All reads answer the same metadata (API-021, API-212,
/// API-221).
#[tokio::test]
async fn every_kind_is_stored_under_its_topic_with_complete_metadata() {
    let server = TestServer::builder()
        .table("retention", RETENTION)
        .start()
        .await;
    let expected = every_kind();
    let before_us = clock_us(&server).await;
    let envelopes = expected.iter().map(|row| row.envelope.clone()).collect();
    let metas = publish(&server, envelopes).await;
    let after_us = clock_us(&server).await;

    let server_ns = metas[0].server_ns;
    assert_eq!(server_ns % 1_000, 0, "a time of microseconds");
    assert!((before_us..=after_us).contains(&(server_ns / 1_000)));
    for (row, meta) in expected.iter().zip(&metas) {
        let claim = row.claim;
        assert_eq!(meta.server_ns, server_ns, "{claim}");
        assert_eq!(meta.topic.as_ref().unwrap().topic, row.topic, "{claim}");
        assert_eq!(
            meta.is_commit_or_proposal, row.is_commit_or_proposal,
            "{claim}"
        );
        let expiry_ns = match row.retention_s {
            0 => 0,
            seconds => server_ns + seconds * 1_000_000_000,
        };
        assert_eq!(meta.expiry_ns, expiry_ns, "{claim}");
        let hash = Sha256::digest(row.envelope.encode_to_vec()).to_vec();
        let sent = meta.message_hash.as_ref().unwrap().hash.clone();
        assert_eq!(sent, Some(Hash::Sha256(hash.into())), "{claim}");
    }
    let in_order: Vec<_> = metas.iter().map(id).collect();
    assert!(
        in_order[0] > 0 && in_order.is_sorted_by(|a, b| a < b),
        "{in_order:?}"
    );

    assert_rows(&server, &expected, &metas).await;
    assert_reads(&server, &expected, &metas).await;
    server.stop().await;
}

async fn clock_us(server: &TestServer) -> u64 {
    let mut connection = server.database().connection().await;
    let micros: i64 =
        sqlx::query_scalar("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
            .fetch_one(&mut connection)
            .await
            .unwrap();
    micros.unsigned_abs()
}

/// The rows of the table are the metadata, with a null where nothing expires (ARC-020, ARC-025).
async fn assert_rows(server: &TestServer, expected: &[Expected], metas: &[EnvelopeMeta]) {
    type Row = (i64, Vec<u8>, i64, Option<i64>, Vec<u8>, bool, Vec<u8>);
    let mut connection = server.database().connection().await;
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT sequence_id, topic, server_ns, expiry_ns, message_hash, is_commit_or_proposal,
                payload
         FROM envelopes ORDER BY sequence_id",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    let wanted: Vec<Row> = expected
        .iter()
        .zip(metas)
        .map(|(row, meta)| {
            let signed = |number: u64| i64::try_from(number).unwrap();
            let payload = row.envelope.encode_to_vec();
            (
                signed(id(meta)),
                row.topic.clone(),
                signed(meta.server_ns),
                (meta.expiry_ns != 0).then(|| signed(meta.expiry_ns)),
                Sha256::digest(&payload).to_vec(),
                meta.is_commit_or_proposal,
                payload,
            )
        })
        .collect();
    assert_eq!(rows, wanted);
}

/// Query and both forms of `QueryNewest` answer what the publish answered.
async fn assert_reads(server: &TestServer, expected: &[Expected], metas: &[EnvelopeMeta]) {
    for (row, meta) in expected.iter().zip(metas) {
        let claim = row.claim;
        if row.topic[0] != 3 {
            let request = page_of(vec![after(&row.topic, id(meta) - 1)], 1);
            let page = query(server, &request).await.unwrap();
            assert_eq!(page.envelopes.len(), 1, "{claim}");
            assert_eq!(page.envelopes[0].meta.as_ref(), Some(meta), "{claim}");
            assert_eq!(
                page.envelopes[0].envelope.as_ref(),
                Some(&row.envelope),
                "{claim}"
            );
        }
        let newest = expected
            .iter()
            .zip(metas)
            .rfind(|(other, _)| other.topic == row.topic);
        let (newest, newest_meta) = newest.unwrap();
        for full in [false, true] {
            let request = newest_of(&[&row.topic], full);
            let results = query_newest(server, &request).await.unwrap().results;
            assert_eq!(results.len(), 1, "{claim}");
            assert_eq!(results[0].topic, newest_meta.topic, "{claim}");
            assert_eq!(results[0].meta.as_ref(), Some(newest_meta), "{claim}");
            let envelope = full.then_some(&newest.envelope);
            assert_eq!(results[0].envelope.as_ref(), envelope, "{claim}");
        }
    }
}

/// A publish of nothing succeeds and stores nothing (inferred from API-031).
#[tokio::test]
async fn a_publish_of_nothing_succeeds() {
    let server = TestServer::start().await;
    for transport in Transport::ALL {
        let response: PublishResponse = transport
            .call(
                server.address(),
                "PublishService/Publish",
                &PublishRequest::default(),
            )
            .await
            .unwrap();
        assert_eq!(response.envelope_metas, []);
    }
    assert_eq!(stored(&server).await.envelopes, 0);
    server.stop().await;
}

/// Fields beside the MLS message and bytes after it come back byte for byte; one more byte makes
/// another envelope (API-025, API-040).
#[tokio::test]
async fn push_fields_and_trailing_bytes_come_back_unchanged() {
    let server = TestServer::start().await;
    let group = group_id(2);
    let data = group_message::private_message(&group, group_message::APPLICATION, b"x");
    let message = |tail: &[u8], hmac: &[u8], should_push| ClientEnvelope {
        payload: Some(Payload::GroupMessage(GroupMessage {
            data: [&data[..], tail].concat().into(),
            sender_hmac: hmac.to_vec().into(),
            should_push,
        })),
    };
    let envelopes = vec![
        message(b"", b"", false),
        message(b"\0", b"", false),
        message(b"", b"hmac", false),
        message(b"", b"", true),
        message(&filler(1, 300), &filler(2, 40), true),
    ];
    let metas = publish(&server, envelopes.clone()).await;

    let request = page_of(vec![after(&topic_bytes(0, &group), 0)], 0);
    let page = query(&server, &request).await.unwrap();
    assert_eq!(ids(&page), metas.iter().map(id).collect::<Vec<_>>());
    let read: Vec<_> = page
        .envelopes
        .into_iter()
        .filter_map(|e| e.envelope)
        .collect();
    assert_eq!(read, envelopes);
    server.stop().await;
}

/// The server checks no more than it must: a welcome for a destination that nobody registered, of
/// an unknown algorithm and without content, a commit-log entry with a worthless signature or none,
/// and a key package for an inbox that does not exist are all stored (ARC-013, API-230).
#[tokio::test]
async fn nothing_beyond_the_named_checks_is_checked() {
    let server = TestServer::start().await;
    let stranger = Installation::numbered(3);
    let mut welcome = welcome::v1(&filler(3, 32), b"");
    let Some(Payload::WelcomeMessage(message)) = &mut welcome.payload else {
        unreachable!("a welcome");
    };
    let Some(Version::V1(v1)) = &mut message.version else {
        unreachable!("of version 1");
    };
    v1.wrapper_algorithm = 77;
    let entry = commit_log::entry(&group_id(3), 1);
    let Some(Payload::CommitLogEntry(signed)) = &entry.payload else {
        unreachable!("an entry");
    };
    let unsigned = commit_log::with_parts(&signed.serialized_commit_log_entry, None);
    let envelopes = vec![
        welcome,
        entry.clone(),
        unsigned,
        KeyPackageBuilder::new(&stranger, "no inbox id at all").envelope(),
    ];
    publish(&server, envelopes).await;
    assert_eq!(stored(&server).await.envelopes, 4);
    server.stop().await;
}

/// A key package is admitted from the first second of its lifetime to the last, by the server's
/// clock (API-042).
#[tokio::test]
async fn a_key_package_is_admitted_within_its_lifetime() {
    const NOW_S: u64 = 1_900_000_000;
    let server = TestServer::builder().at_unix_seconds(NOW_S).start().await;
    let cases = [
        ("ends now", 0, NOW_S, false),
        ("ends in a second", 0, NOW_S + 1, true),
        ("begins now", NOW_S, NOW_S + 1, true),
        ("begins in a second", NOW_S + 1, u64::MAX, false),
        ("ended long ago", 1, 2, false),
    ];
    for (number, (claim, not_before_s, not_after_s, admitted)) in (10..).zip(cases) {
        let installation = Installation::numbered(number);
        let package = KeyPackageBuilder::new(&installation, "inbox");
        let envelope = package.lifetime(not_before_s, not_after_s).envelope();
        match (server.publish(vec![envelope]).await, admitted) {
            (Ok(_), true) => {}
            (Err(status), false) => {
                assert_rejected(claim, &status, Some(0), Reason::InvalidKeyPackage);
            }
            (other, _) => panic!("{claim}: {other:?}"),
        }
    }
    assert_eq!(stored(&server).await.envelopes, 2);
    server.stop().await;
}
