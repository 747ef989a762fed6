//! Different encodings of one value: they are the same envelope, stored in one form (API-020 to
//! API-025, API-211). The requests here are made of bytes that no encoder of ours makes.

use bytes::Bytes;
use envelope::wire::xmtp::backend::v1::message_hash::Hash;
use envelope::wire::xmtp::backend::v1::{EnvelopeMeta, PublishResponse, QueryResponse};
use harness::{RawMessage, TestServer, Transport};
use prost::encoding::{WireType, encode_key, encode_varint};

use crate::reading::{after, page_of, topic_bytes};
use crate::refusal::stored;

/// The welcome of the published vectors, canonical.
const WELCOME: &str = "12320a300a2011111111111111111111111111111111111111111111111111111111111111\
                       11120210111a02121320012a021415";
/// Its hash.
const WELCOME_HASH: &str = "cd99b877f8515038379a9c89745e81a3c9026ed02c0c1d32eac6716530989239";
/// The same value: fields reversed, and a varint longer than it must be.
const WELCOME_REVERSED: &str = "12330a312a0214152081001a021213120210110a2011111111111111111111111111\
                                11111111111111111111111111111111111111";
/// An unknown field 99.
const UNKNOWN_FIELD: &str = "9a060178";

/// A repeated message field 1 of these values: a publish request of envelopes as they are.
fn request(envelopes: &[Vec<u8>]) -> RawMessage {
    let mut bytes = Vec::new();
    for envelope in envelopes {
        encode_key(1, WireType::LengthDelimited, &mut bytes);
        encode_varint(envelope.len() as u64, &mut bytes);
        bytes.extend_from_slice(envelope);
    }
    bytes.into()
}

fn hex(text: &str) -> Vec<u8> {
    hex::decode(text).expect("hexadecimal")
}

async fn publish(
    server: &TestServer,
    transport: Transport,
    envelopes: &[Vec<u8>],
) -> Vec<EnvelopeMeta> {
    let response: PublishResponse = transport
        .call(
            server.address(),
            "PublishService/Publish",
            &request(envelopes),
        )
        .await
        .unwrap_or_else(|status| panic!("{transport:?}: {status}"));
    response.envelope_metas
}

fn hash_of(meta: &EnvelopeMeta) -> String {
    let Some(Hash::Sha256(hash)) = &meta.message_hash.as_ref().expect("a hash").hash else {
        panic!("of the only kind there is");
    };
    hex::encode(hash)
}

/// What a topic's first row holds.
async fn payload(server: &TestServer, topic: &[u8]) -> Vec<u8> {
    let mut connection = server.database().connection().await;
    sqlx::query_scalar("SELECT payload FROM envelopes WHERE topic = $1")
        .bind(topic)
        .fetch_one(&mut connection)
        .await
        .expect("one row")
}

/// Every encoding of the welcome.
fn welcomes() -> Vec<Vec<u8>> {
    let canonical = hex(WELCOME);
    // Singular messages merge: the version given in two halves is one version.
    let halves = [
        hex(&format!("12240a220a20{}", "11".repeat(32))),
        hex("12100a0e120210111a02121320012a021415"),
    ];
    // The last of several payloads counts. The first is a group message.
    let overridden = [hex("0a050a0301aabb"), canonical.clone()].concat();
    // An unknown field may also sit inside the message.
    let inner = hex(&format!(
        "12360a340a20{}120210111a02121320012a021415{UNKNOWN_FIELD}",
        "11".repeat(32)
    ));
    vec![
        canonical.clone(),
        hex(WELCOME_REVERSED),
        [canonical, hex(UNKNOWN_FIELD)].concat(),
        halves.concat(),
        overridden,
        inner,
    ]
}

/// All encodings of one value in one request, and in one request each over every protocol, are one
/// row, and the stored bytes are the canonical ones. The answer has the stored bytes too.
#[tokio::test]
async fn encodings_of_one_value_are_one_envelope() {
    let server = TestServer::start().await;
    let topic = topic_bytes(1, &[0x11; 32]);
    let metas = publish(&server, Transport::Native, &welcomes()).await;
    assert_eq!(metas.len(), welcomes().len());
    assert_eq!(hash_of(&metas[0]), WELCOME_HASH);
    assert_eq!(metas[0].topic.as_ref().unwrap().topic, topic);
    assert!(metas.iter().all(|meta| *meta == metas[0]), "{metas:?}");

    for transport in Transport::ALL {
        for encoding in welcomes() {
            let again = publish(&server, transport, &[encoding]).await;
            assert_eq!(again, metas[..1], "{transport:?}");
        }
    }
    assert_eq!(stored(&server).await.envelopes, 1);
    assert_eq!(payload(&server, &topic).await, hex(WELCOME));

    let page: RawMessage = server
        .call("QueryService/Query", &page_of(vec![after(&topic, 0)], 0))
        .await
        .unwrap();
    let canonical = hex(WELCOME);
    assert!(
        page.0
            .windows(canonical.len())
            .any(|window| window == canonical)
    );
    server.stop().await;
}

/// Whichever encoding comes first, the canonical one is stored.
#[tokio::test]
async fn the_first_encoding_does_not_decide_what_is_stored() {
    for first in welcomes() {
        let server = TestServer::start().await;
        let metas = publish(&server, Transport::Native, &[first]).await;
        assert_eq!(hash_of(&metas[0]), WELCOME_HASH);
        assert_eq!(
            payload(&server, &topic_bytes(1, &[0x11; 32])).await,
            hex(WELCOME)
        );
        server.stop().await;
    }
}

/// The published vectors of group messages and of a commit-log entry: topic, flag and hash.
#[tokio::test]
async fn published_vectors_have_their_hashes() {
    const GROUP: &str = "000102030405060708090a0b0c0d0e0f";
    let message = |content_type: &str| {
        hex(&format!(
            "0a2a0a280001000210{GROUP}0000000000000007{content_type}0004aabbccdd03010203"
        ))
    };
    let plaintext = format!("0a10{GROUP}102a1a0401010101200128083204{}", "02".repeat(4));
    let signature = format!("0a40{}1220{}", "33".repeat(64), "44".repeat(32));
    let entry = hex(&format!("2a8c010a24{plaintext}1264{signature}"));
    assert_eq!(entry.len(), 143);
    let cases = [
        (
            message("01"),
            0,
            false,
            "e301222fdee046c80f4ee4e55c72c35f40aaab7b4d9cacd9bacf499b11d69f55",
        ),
        (
            message("02"),
            0,
            true,
            "dcedef20de7c2b47e488117c192f6c53e5311336ff7db4589315142ed33cc962",
        ),
        (
            message("03"),
            0,
            true,
            "eb19d4beea84c1a1aeeca3f357e38e2a85b39cef87ec108f87502a7546c88260",
        ),
        (
            entry,
            4,
            false,
            "36f4e050085a37866e334c2beb67c2cece2e517039d73d9a37d26e0dc6a7aa81",
        ),
    ];
    let server = TestServer::start().await;
    let envelopes: Vec<_> = cases.iter().map(|case| case.0.clone()).collect();
    let metas = publish(&server, Transport::Native, &envelopes).await;
    for ((_, kind, is_commit_or_proposal, hash), meta) in cases.iter().zip(&metas) {
        assert_eq!(hash_of(meta), *hash);
        assert_eq!(meta.is_commit_or_proposal, *is_commit_or_proposal);
        let topic = topic_bytes(*kind, &hex(GROUP));
        assert_eq!(meta.topic.as_ref().unwrap().topic, topic);
        let expires = *kind == 0 && !is_commit_or_proposal;
        assert_eq!(meta.expiry_ns != 0, expires, "{hash}");
    }
    server.stop().await;
}

/// A value whose canonical encoding is longer than what was sent is stored in that longer form.
#[tokio::test]
async fn an_encoding_that_grows_is_stored_grown() {
    let key = "11".repeat(32);
    // -1 as the five bytes of a 32-bit varint; canonical are ten.
    let sent = hex(&format!("122a0a280a20{key}20ffffffff0f"));
    let canonical = hex(&format!("122f0a2d0a20{key}20ffffffffffffffffff01"));
    assert_eq!(canonical.len(), sent.len() + 5);
    let server = TestServer::start().await;
    let metas = publish(&server, Transport::Native, &[sent, canonical.clone()]).await;
    assert_eq!(metas[0], metas[1]);
    assert_eq!(
        payload(&server, &topic_bytes(1, &[0x11; 32])).await,
        canonical
    );
    server.stop().await;
}

/// Metadata and framing add no more than they are said to: 124 bytes to an envelope that is alone
/// in an answer, with a topic of 33 bytes.
#[tokio::test]
async fn delivery_adds_no_more_than_its_bound() {
    let server = TestServer::start().await;
    publish(&server, Transport::Native, &[hex(WELCOME)]).await;
    let request = page_of(vec![after(&topic_bytes(1, &[0x11; 32]), 0)], 0);
    let raw: RawMessage = server.call("QueryService/Query", &request).await.unwrap();
    let page: QueryResponse = server.call("QueryService/Query", &request).await.unwrap();
    assert_eq!(raw.0, Bytes::from(prost::Message::encode_to_vec(&page)));
    assert!(raw.0.len() - WELCOME.len() / 2 <= 124, "{}", raw.0.len());
    server.stop().await;
}
