//! Bounds on publishes, at the value and one past it, with lowered configuration (API-031, API-130,
//! API-145).

use envelope::canonical;
use envelope::fixtures::{
    ContractWallet, Installation, ScriptedVerifier, UpdateBuilder, filler, group_id, group_message,
    update_envelope, welcome,
};
use envelope::wire::xmtp::backend::v1::publish_error::Reason;
use envelope::wire::xmtp::backend::v1::{ClientEnvelope, PublishRequest, PublishResponse};
use harness::{RawMessage, TestServer, Transport};
use prost::Message as _;
use tonic::{Code, Status};

use crate::reading::publish;
use crate::refusal::{assert_plain, assert_rejected, assert_silent, stored};

const PUBLISH: &str = "PublishService/Publish";

/// An envelope of exactly this many canonical bytes, for a destination of its own.
fn envelope_of(bytes: usize, number: u64) -> ClientEnvelope {
    let sized = |data: usize| welcome::v1(&filler(number, 32), &filler(number, data));
    let mut data = bytes.saturating_sub(canonical::encoded_len(&sized(0)));
    // Lengths of nested messages take more bytes as they grow.
    while canonical::encoded_len(&sized(data)) > bytes {
        data -= 1;
    }
    assert_eq!(
        canonical::encoded_len(&sized(data)),
        bytes,
        "a length that exists"
    );
    sized(data)
}

/// A welcome that has exactly this many canonical bytes, and five less as it is sent: its algorithm
/// is -1 in the five bytes of a 32-bit varint.
fn growing(canonical_bytes: usize, number: u64) -> Vec<u8> {
    let nest = |number, content: &Vec<u8>| {
        let mut bytes = Vec::new();
        prost::encoding::bytes::encode(number, content, &mut bytes);
        bytes
    };
    let sized = |data: usize| {
        let mut version = nest(1, &filler(number, 32));
        version.extend(nest(2, &filler(number, data)));
        version.extend([0x20, 0xff, 0xff, 0xff, 0xff, 0x0f]);
        nest(2, &nest(1, &version))
    };
    let sent = (1..canonical_bytes)
        .rev()
        .map(sized)
        .find(|sent| sent.len() + 5 == canonical_bytes)
        .expect("a length that exists");
    let envelope = ClientEnvelope::decode(&sent[..]).expect("a welcome");
    assert_eq!(canonical::encoded_len(&envelope), canonical_bytes);
    sent
}

fn raw_request(envelopes: &[Vec<u8>]) -> RawMessage {
    let mut request = Vec::new();
    for envelope in envelopes {
        prost::encoding::bytes::encode(1, envelope, &mut request);
    }
    request.into()
}

async fn send(
    server: &TestServer,
    transport: Transport,
    request: &RawMessage,
) -> Result<PublishResponse, Status> {
    transport.call(server.address(), PUBLISH, request).await
}

/// One envelope may have as many canonical bytes as the limit, whatever it had on the wire.
#[tokio::test]
async fn an_envelope_is_measured_in_its_canonical_form() {
    const LIMIT: usize = 1_000;
    let server = TestServer::builder()
        .table("limits", "max_envelope_bytes = 1000")
        .start()
        .await;
    for (number, transport) in (1..).zip(Transport::ALL) {
        let at_limit = envelope_of(LIMIT, number).encode_to_vec();
        let before = stored(&server).await.envelopes;
        send(&server, transport, &raw_request(&[at_limit]))
            .await
            .expect("at the limit");

        let past = envelope_of(LIMIT + 1, number + 10);
        let grown = growing(LIMIT, number + 20);
        let grown_past = growing(LIMIT + 1, number + 30);
        let good = envelope_of(100, number + 40).encode_to_vec();
        for (claim, envelopes, index) in [
            ("one past", vec![past.encode_to_vec()], 0),
            ("grown one past", vec![good.clone(), grown_past.clone()], 1),
        ] {
            let status = send(&server, transport, &raw_request(&envelopes))
                .await
                .unwrap_err();
            assert_rejected(claim, &status, Some(index), Reason::TooLarge);
            assert_silent(claim, &status, std::slice::from_ref(&past));
        }
        // A longer encoding of a shorter value is welcome.
        let padded = [good.clone(), RawMessage::padding(2_000).0.to_vec()].concat();
        send(&server, transport, &raw_request(&[grown, padded]))
            .await
            .expect("within");
        assert_eq!(stored(&server).await.envelopes, before + 3, "{transport:?}");
    }
    server.stop().await;
}

/// A request may be as long as the limit, on the wire and in canonical form. One byte more on the
/// wire is the transport's failure without a detail, one byte more in canonical form is the whole
/// request's failure, before any envelope of it is looked at (API-031, API-142, ARC-066).
#[tokio::test]
async fn a_request_is_measured_on_the_wire_and_in_its_canonical_form() {
    const LIMIT: usize = 2_000;
    let limits = "max_request_bytes = 2000\nmax_envelope_bytes = 1500";
    let server = TestServer::builder().table("limits", limits).start().await;
    for (number, transport) in (1..).zip(Transport::ALL) {
        let request_of = |bytes: usize, number| {
            let envelopes = vec![
                envelope_of(997, number),
                envelope_of(bytes - 1_000 - 3, number + 100),
            ];
            let request = PublishRequest { envelopes }.encode_to_vec();
            assert_eq!(request.len(), bytes);
            RawMessage::from(request)
        };
        let before = stored(&server).await;
        let past = request_of(LIMIT + 1, number + 200);
        let status = send(&server, transport, &past).await.unwrap_err();
        assert_plain("one past on the wire", &status, Code::OutOfRange);

        // Four values that grow by five bytes each. The first envelope is malformed as well, but
        // that is looked at later.
        let mut envelopes = vec![Vec::new()];
        envelopes.extend((0..4).map(|n| growing(498, number + 300 + n)));
        let grown = raw_request(&envelopes);
        assert!(
            (LIMIT - 19..=LIMIT).contains(&grown.0.len()),
            "{}",
            grown.0.len()
        );
        let status = send(&server, transport, &grown).await.unwrap_err();
        assert_rejected("grown past", &status, None, Reason::TooLarge);
        assert_eq!(stored(&server).await, before, "{transport:?}");

        send(&server, transport, &request_of(LIMIT, number))
            .await
            .expect("at the limit");
        assert_eq!(stored(&server).await.envelopes, before.envelopes + 2);
    }
    server.stop().await;
}

/// The canonical length of a request is compared exactly: it passes at the limit and fails one past
/// it, although both are within the limit on the wire.
#[tokio::test]
async fn the_canonical_length_of_a_request_is_compared_exactly() {
    for (limit, fits) in [(300, true), (299, false)] {
        let server = TestServer::builder()
            .table(
                "limits",
                &format!("max_request_bytes = {limit}\nmax_envelope_bytes = 297"),
            )
            .start()
            .await;
        // The framing of the envelope takes three bytes.
        let request = raw_request(&[growing(300 - 3, 1)]);
        let decoded = PublishRequest::decode(&request.0[..]).unwrap();
        assert_eq!((request.0.len(), decoded.encoded_len()), (295, 300));
        match send(&server, Transport::Native, &request).await {
            Ok(_) => assert!(fits, "{limit}"),
            Err(status) => {
                assert!(!fits, "{status}");
                assert_rejected("one past", &status, None, Reason::TooLarge);
            }
        }
        server.stop().await;
    }
}

/// Distinct topics are counted, not envelopes: repeats and several envelopes of a topic are free,
/// but what is stored already counts like what is new (API-031, ARC-031).
#[tokio::test]
async fn distinct_topics_of_a_request_are_bounded() {
    let server = TestServer::builder()
        .table("limits", "max_publish_topics = 3")
        .start()
        .await;
    let message = |group, number| group_message::numbered_application(&group_id(group), number);
    let three: Vec<_> = (0..30).map(|n| message(n % 3, n / 6)).collect();
    publish(&server, three.clone()).await;
    assert_eq!(stored(&server).await.envelopes, 15);
    let fourth = message(3, 0);
    publish(&server, vec![fourth.clone()]).await;

    let before = stored(&server).await;
    let new: Vec<_> = (0..4).map(|group| message(group, 99)).collect();
    let duplicates: Vec<_> = three.into_iter().chain([fourth]).collect();
    for (claim, envelopes) in [("new", new), ("duplicates", duplicates)] {
        for transport in Transport::ALL {
            let request = PublishRequest {
                envelopes: envelopes.clone(),
            };
            let answer: Result<PublishResponse, _> =
                transport.call(server.address(), PUBLISH, &request).await;
            let status = answer.unwrap_err();
            assert_rejected(claim, &status, None, Reason::TooLarge);
            assert_silent(claim, &status, &envelopes);
        }
    }
    assert_eq!(stored(&server).await, before);
    server.stop().await;
}

/// Signatures of contract wallets in one update are bounded, because each costs a call to a chain;
/// none is made for an update with too many (API-031).
#[tokio::test]
async fn contract_signatures_of_an_update_are_bounded() {
    let wallets = ScriptedVerifier::always(Ok(true));
    let server = TestServer::builder()
        .table("limits", "max_scw_signatures = 3")
        .wallets(wallets)
        .start()
        .await;
    let update = |number, signatures: u64| {
        let wallet = ContractWallet::numbered(number, 1);
        let installations: Vec<_> = (1..signatures).map(Installation::numbered).collect();
        let mut update = UpdateBuilder::creating(&wallet, 0);
        for installation in &installations {
            update = update.add(&wallet, installation);
        }
        update_envelope(update.build())
    };
    publish(&server, vec![update(1, 3), update(2, 3)]).await;
    let status = server
        .publish(vec![update(3, 3), update(4, 4)])
        .await
        .unwrap_err();
    assert_rejected("one past", &status, Some(1), Reason::TooLarge);
    assert_silent("one past", &status, &[update(4, 4)]);
    assert_eq!(stored(&server).await.envelopes, 2);
    server.stop().await;
}

/// There is no bound on the number of envelopes: far more than topics are allowed pass in one
/// request, and the answer has one entry each (API-031).
#[tokio::test]
async fn the_number_of_envelopes_is_not_bounded() {
    let server = TestServer::start().await;
    let envelopes: Vec<_> = (0..5_000)
        .map(|number| group_message::numbered_application(&group_id(1), number))
        .collect();
    let metas = publish(&server, envelopes).await;
    assert!(
        metas.is_sorted_by(|a, b| a.cursor.unwrap().sequence_id < b.cursor.unwrap().sequence_id)
    );
    assert_eq!(stored(&server).await.envelopes, 5_000);
    server.stop().await;
}
