//! Publishes that are refused: which reason, at which index, in which order of checks, and nothing
//! of it stored or quoted (API-030, API-047, API-150, API-223).

use envelope::fixtures::{
    ContractWallet, Installation, KeyPackageBuilder, ScriptedVerifier, UpdateBuilder, Wallet,
    group_id, group_message, identity, malformed, update_envelope, valid, welcome,
};
use envelope::scw::VerifierError;
use envelope::wire::xmtp::backend::v1::publish_error::Reason;
use envelope::wire::xmtp::backend::v1::{ClientEnvelope, PublishRequest, PublishResponse};
use harness::{RawMessage, TestServer, Transport};
use tonic::{Code, Status};

use crate::reading::publish;
use crate::refusal::{Stored, assert_plain, assert_rejected, assert_silent, stored};

const PUBLISH: &str = "PublishService/Publish";

/// The chain whose provider fails in these tests.
const BROKEN_CHAIN: u64 = 666;

/// What a publish must answer.
#[derive(Clone, Copy)]
enum Answer {
    /// `INVALID_ARGUMENT` with this index and reason.
    Rejected(Option<u32>, Reason),
    /// Another code, without a detail.
    Plain(Code),
}

/// A publish and what it must answer.
struct Case {
    claim: String,
    envelopes: Vec<ClientEnvelope>,
    answer: Answer,
}

fn case(claim: &str, envelopes: Vec<ClientEnvelope>, answer: Answer) -> Case {
    Case {
        claim: claim.to_owned(),
        envelopes,
        answer,
    }
}

fn at(index: u32, reason: Reason) -> Answer {
    Answer::Rejected(Some(index), reason)
}

async fn refuse(server: &TestServer, transport: Transport, case: &Case) -> Status {
    let request = PublishRequest {
        envelopes: case.envelopes.clone(),
    };
    let answer: Result<PublishResponse, _> =
        transport.call(server.address(), PUBLISH, &request).await;
    let claim = format!("{} over {transport:?}", case.claim);
    let status = answer.expect_err(&claim);
    match case.answer {
        Answer::Rejected(index, reason) => {
            assert_rejected(&claim, &status, index, reason);
        }
        Answer::Plain(code) => assert_plain(&claim, &status, code),
    }
    assert_silent(&claim, &status, &case.envelopes);
    status
}

/// Checks every case over every protocol, and that the database is as it was before.
async fn refuse_all(server: &TestServer, cases: &[Case]) {
    let before = stored(server).await;
    for case in cases {
        for transport in Transport::ALL {
            refuse(server, transport, case).await;
        }
        assert_eq!(stored(server).await, before, "{}", case.claim);
    }
}

/// A server whose contract wallets accept every signature, except on a chain that is broken.
async fn server(limits: &str) -> TestServer {
    let wallets = ScriptedVerifier::new(|account, _| match account.ethereum_chain_id() {
        Some(BROKEN_CHAIN) => Err(VerifierError::Provider),
        _ => Ok(true),
    });
    TestServer::builder()
        .table("limits", limits)
        .wallets(wallets)
        .start()
        .await
}

/// A valid message of a group of its own.
fn good(number: u64) -> ClientEnvelope {
    group_message::application(&group_id(number))
}

/// Parses, and belongs to a topic of its own, but has expired.
fn expired(number: u64) -> ClientEnvelope {
    let installation = Installation::numbered(number);
    KeyPackageBuilder::new(&installation, "inbox")
        .lifetime(1, 2)
        .envelope()
}

/// Parses, but adds to an inbox that nobody has created.
fn orphan(number: u64) -> ClientEnvelope {
    let wallet = Wallet::numbered(number);
    let inbox_id = identity::inbox_of(&wallet, 0);
    let installation = Installation::numbered(number);
    update_envelope(
        UpdateBuilder::new(&inbox_id)
            .add(&wallet, &installation)
            .build(),
    )
}

/// Creates an inbox with another wallet's signature.
fn forged(number: u64) -> ClientEnvelope {
    let wallet = Wallet::numbered(number);
    let signed = identity::create_inbox(&wallet, &Installation::numbered(number));
    let mut forged = signed.clone();
    // The text that is signed has seconds.
    forged.client_timestamp_ns += 1_000_000_000;
    update_envelope(forged)
}

/// Creates the inbox of a contract wallet and adds that many more installations: one contract
/// signature each.
fn by_contract(chain_id: u64, number: u64, signatures: u64) -> ClientEnvelope {
    let wallet = ContractWallet::numbered(number, chain_id);
    let installations: Vec<_> = (1..signatures)
        .map(|n| Installation::numbered(1_000 + n))
        .collect();
    let mut update = UpdateBuilder::creating(&wallet, 0);
    for installation in &installations {
        update = update.add(&wallet, installation);
    }
    update_envelope(update.build())
}

fn unset() -> ClientEnvelope {
    ClientEnvelope::default()
}

/// A payload that does not parse is refused alone, after good envelopes and before them, with the
/// index at which it stands, whatever its kind (API-040 to API-046, TOPIC-002).
#[tokio::test]
async fn every_malformed_payload_is_refused_at_its_index() {
    let server = TestServer::start().await;
    let empty = stored(&server).await;
    for (number, (claim, envelope)) in (100..).zip(malformed(7)) {
        for (index, envelopes) in [
            vec![envelope.clone()],
            vec![envelope.clone(), good(number)],
            vec![good(number), envelope.clone(), envelope.clone()],
        ]
        .into_iter()
        .enumerate()
        {
            let index = u32::from(index == 2);
            let case = case(claim, envelopes, at(index, Reason::MalformedPayload));
            refuse(&server, Transport::Native, &case).await;
        }
        let case = case(claim, vec![envelope], at(0, Reason::MalformedPayload));
        refuse(&server, Transport::WebTextHttp1, &case).await;
    }
    assert_eq!(stored(&server).await, empty);
    server.stop().await;
}

/// What parses but may not be stored is refused with the reason of its kind (API-042 to API-044).
#[tokio::test]
async fn every_failed_check_has_its_reason() {
    let server = server("max_identity_entries = 1").await;
    let wallet = Wallet::numbered(1);
    let upper = identity::inbox_of(&wallet, 0).to_uppercase();
    let upper = UpdateBuilder::new(&upper).create(&wallet, 0).build();
    let [_, _, full, _, _] = valid(2);
    publish(&server, vec![full]).await;
    let full_inbox = identity::inbox_of(&Wallet::numbered(2), 0);
    let (full_wallet, newcomer) = (Wallet::numbered(2), Wallet::numbered(3));
    let one_more = UpdateBuilder::new(&full_inbox)
        .add(&full_wallet, &newcomer)
        .build();
    let refused = [
        ("expired key package", expired(1), Reason::InvalidKeyPackage),
        (
            "update without inbox",
            orphan(1),
            Reason::InvalidIdentityUpdate,
        ),
        ("forged signature", forged(1), Reason::InvalidSignature),
        (
            "full inbox",
            update_envelope(one_more),
            Reason::InvalidIdentityUpdate,
        ),
        (
            "inbox id in upper case",
            update_envelope(upper),
            Reason::InvalidIdentityUpdate,
        ),
    ];
    let cases: Vec<_> = refused
        .into_iter()
        .flat_map(|(claim, envelope, reason)| {
            [
                case(claim, vec![envelope.clone()], at(0, reason)),
                case(claim, vec![good(1), envelope], at(1, reason)),
            ]
        })
        .collect();
    refuse_all(&server, &cases).await;
    server.stop().await;
}

/// An update that creates the numbered wallet's inbox, and another one that does so as well.
fn two_updates(number: u64) -> (ClientEnvelope, ClientEnvelope) {
    let wallet = Wallet::numbered(number);
    let installation = Installation::numbered(number);
    let one = identity::create_inbox(&wallet, &installation);
    let other = UpdateBuilder::creating(&wallet, 0).build();
    (update_envelope(one), update_envelope(other))
}

/// Parsing stops at the first envelope that fails, and at the first thing wrong with it (API-047).
#[tokio::test]
async fn the_lowest_envelope_that_does_not_parse_is_named() {
    use Reason::{MalformedPayload, TooLarge};
    let server = server("max_envelope_bytes = 2000\nmax_scw_signatures = 2").await;
    let long = |destination: &[u8]| welcome::v1(destination, &[7; 2_000]);
    let wallet = ContractWallet::numbered(1, 1);
    let mut nameless = UpdateBuilder::creating(&wallet, 0)
        .create(&wallet, 1)
        .create(&wallet, 2)
        .build();
    nameless.inbox_id.push('0');
    let nameless = update_envelope(nameless);
    let by_three = by_contract(1, 1, 3);
    #[rustfmt::skip]
    let cases = [
        case("unset before long", vec![unset(), long(&[1; 32])], at(0, MalformedPayload)),
        case("long before unset", vec![long(&[1; 32]), unset()], at(0, TooLarge)),
        case("good, unset, unset", vec![good(1), unset(), unset()], at(1, MalformedPayload)),
        case("length, then parsing", vec![long(&[1; 31])], at(0, TooLarge)),
        case("parsing, then signatures", vec![nameless], at(0, MalformedPayload)),
        case("signatures, then the next", vec![good(1), by_three, unset()], at(1, TooLarge)),
    ];
    refuse_all(&server, &cases).await;
    server.stop().await;
}

/// The first failing step answers, whatever later steps would say of a lower index: parsing, number
/// of topics, one update per inbox, validation (API-047, API-050, API-233).
#[tokio::test]
async fn the_first_failing_step_answers() {
    use Reason::{InvalidIdentityUpdate, InvalidKeyPackage, MalformedPayload, TooLarge};
    let server = server("max_publish_topics = 3").await;
    let (one, other) = two_updates(50);
    let (a, b) = (|| one.clone(), || other.clone());
    let four = || vec![good(1), good(2), good(3), good(4)];
    let request_too_large = Answer::Rejected(None, TooLarge);
    #[rustfmt::skip]
    let cases = [
        case("parsing, then topics", [four(), vec![unset()]].concat(), at(4, MalformedPayload)),
        case("topics, then inboxes", [vec![a(), b()], four()].concat(), request_too_large),
        case("topics, then validation", [vec![expired(1)], four()].concat(), request_too_large),
        case("two updates", vec![a(), good(1), b()], at(2, InvalidIdentityUpdate)),
        case("two updates, one twice", vec![a(), a(), b()], at(2, InvalidIdentityUpdate)),
        case("inboxes, then validation", vec![expired(1), a(), b()], at(2, InvalidIdentityUpdate)),
        case("parsing, then validation", vec![expired(1), unset()], at(1, MalformedPayload)),
    ];
    refuse_all(&server, &cases).await;

    // Of two updates the one that is stored does not save the other.
    publish(&server, vec![a(), good(1)]).await;
    #[rustfmt::skip]
    let cases = [
        case("the first is stored", vec![a(), b()], at(1, InvalidIdentityUpdate)),
        case("the later is stored", vec![b(), a()], at(1, InvalidIdentityUpdate)),
        case("a failure behind", vec![a(), good(1), expired(1)], at(2, InvalidKeyPackage)),
    ];
    refuse_all(&server, &cases).await;
    server.stop().await;
}

/// Of several failed checks the one at the lowest input index answers, also between a refusal and a
/// chain that cannot be asked (API-047, API-223).
#[tokio::test]
async fn the_lowest_failed_check_answers() {
    use Reason::{InvalidIdentityUpdate, InvalidKeyPackage, InvalidSignature};
    let server = server("").await;
    let unanswered = || by_contract(BROKEN_CHAIN, 1, 1);
    let unavailable = Answer::Plain(Code::Unavailable);
    let repeated = vec![good(1), good(1), good(1), expired(1), expired(1)];
    #[rustfmt::skip]
    let cases = [
        case("key package", vec![good(1), expired(1), orphan(1)], at(1, InvalidKeyPackage)),
        case("update", vec![orphan(1), expired(1)], at(0, InvalidIdentityUpdate)),
        case("signature", vec![forged(1), orphan(2), expired(1)], at(0, InvalidSignature)),
        case("indices count repeats", repeated, at(3, InvalidKeyPackage)),
        case("no verdict first", vec![unanswered(), expired(1)], unavailable),
        case("no verdict second", vec![expired(1), unanswered()], at(0, InvalidKeyPackage)),
    ];
    refuse_all(&server, &cases).await;
    server.stop().await;
}

/// One bad envelope at any place among good ones of every kind keeps all of them out; without it
/// they are stored (API-030, API-220).
#[tokio::test]
async fn one_bad_envelope_keeps_all_others_out() {
    let server = TestServer::start().await;
    let good = valid(8);
    for bad in [unset(), expired(1), orphan(1)] {
        for place in 0..=good.len() {
            let mut envelopes = good.to_vec();
            envelopes.insert(place, bad.clone());
            let status = server.publish(envelopes.clone()).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{status}");
            assert_silent("one of many", &status, &envelopes);
        }
    }
    assert_eq!(
        stored(&server).await,
        Stored {
            envelopes: 0,
            watermarks: 0,
            associations: 0
        }
    );
    publish(&server, good.to_vec()).await;
    assert_eq!(
        stored(&server).await,
        Stored {
            envelopes: 5,
            watermarks: 5,
            associations: 1
        }
    );
    server.stop().await;
}

/// A request that does not decode fails as Tonic says, without a detail: broken framing of fields,
/// an envelope that is cut off, a nested text that is not UTF-8 (API-130).
#[tokio::test]
async fn a_request_that_does_not_decode_has_no_detail() {
    let server = TestServer::start().await;
    let cases = [
        ("no protobuf", vec![0xff; 8]),
        ("cut off", vec![0x0a, 0x20, 0x0a]),
        ("wrong wire type", vec![0x08, 0x01]),
        // An identity update whose inbox id is the byte ff.
        (
            "text that is not UTF-8",
            vec![0x0a, 0x05, 0x22, 0x03, 0x1a, 0x01, 0xff],
        ),
    ];
    for (claim, bytes) in cases {
        for transport in Transport::ALL {
            let request = RawMessage::from(bytes.clone());
            let answer: Result<RawMessage, _> =
                transport.call(server.address(), PUBLISH, &request).await;
            assert_plain(claim, &answer.unwrap_err(), Code::Internal);
        }
    }
    assert_eq!(stored(&server).await.envelopes, 0);
    server.stop().await;
}

/// A deployment without chains cannot judge a contract wallet's signature: it says so, retryably,
/// and stores nothing, not even what stands beside it (API-044, ARC-091).
#[tokio::test]
async fn a_contract_signature_without_a_chain_is_unavailable() {
    let server = TestServer::start().await;
    let update = by_contract(1, 1, 1);
    let unavailable = Answer::Plain(Code::Unavailable);
    refuse_all(
        &server,
        &[
            case("alone", vec![update.clone()], unavailable),
            case("behind a good one", vec![good(1), update], unavailable),
        ],
    )
    .await;
    server.stop().await;
}

/// The verdict of the chain decides: yes is stored, no is an invalid signature, no verdict is
/// unavailable and the same update can be sent again (API-044, API-231, ARC-091).
#[tokio::test]
async fn a_verdict_is_an_admission_and_its_lack_is_not_a_refusal() {
    let update = by_contract(1, 2, 2);
    let failures = [
        VerifierError::NoRoute,
        VerifierError::Provider,
        VerifierError::Io,
    ];
    let scripts = failures
        .map(|failure| (Err(failure), Answer::Plain(Code::Unavailable)))
        .into_iter()
        .chain([(Ok(false), at(0, Reason::InvalidSignature))]);
    let mut server = TestServer::start().await;
    for (script, answer) in scripts {
        let database = server.stop_keeping_database().await;
        let wallets = ScriptedVerifier::always(script);
        server = TestServer::builder()
            .database(database)
            .wallets(wallets)
            .start()
            .await;
        refuse_all(
            &server,
            &[case(&format!("{script:?}"), vec![update.clone()], answer)],
        )
        .await;
    }

    let database = server.stop_keeping_database().await;
    let wallets = ScriptedVerifier::always(Ok(true));
    let server = TestServer::builder()
        .database(database)
        .wallets(wallets)
        .start()
        .await;
    let metas = publish(&server, vec![update.clone()]).await;
    let database = server.stop_keeping_database().await;

    // A duplicate needs no verdict.
    let server = TestServer::builder().database(database).start().await;
    assert_eq!(publish(&server, vec![update]).await, metas);
    server.stop().await;
}
