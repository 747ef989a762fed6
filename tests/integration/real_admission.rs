//! Admission of real payloads whose verdict depends on something outside them: the time, or what a
//! contract wallet says (ARC-091, API-043).

use envelope::fixtures::ScriptedVerifier;
use envelope::wire::xmtp::backend::v1::publish_error::Reason;
use envelope::wire::xmtp::backend::v1::{PublishRequest, PublishResponse};
use harness::{TestServer, Transport};
use tonic::Code;

use crate::captures::{Capture, publish};
use crate::raw_reading::{drain, refusal};

/// A contract wallet's signature is worth what the wallet says of it: without a chain nobody knows,
/// a no is the publisher's fault, and neither stores anything (ARC-091).
#[tokio::test]
async fn a_contract_wallet_decides_about_its_update() {
    let capture = Capture::load("node-api");
    let at = capture
        .payloads
        .iter()
        .position(|payload| payload.is_verifiable_offline() == Some(false));
    let at = at.expect("an update that needs a chain");
    let update = &capture.payloads[at..=at];

    let server = TestServer::start().await;
    let status = publish(&server, Transport::Native, update)
        .await
        .expect_err("no chain");
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.details().is_empty());
    let database = server.stop_keeping_database().await;

    let wallets = ScriptedVerifier::always(Ok(false));
    let server = TestServer::builder()
        .database(database)
        .wallets(wallets)
        .start()
        .await;
    let status = publish(&server, Transport::Native, update)
        .await
        .expect_err("a no");
    assert_eq!(refusal(&status), (Some(0), Reason::InvalidSignature));
    let stored = drain(
        (server.address(), Transport::Native),
        [update[0].topic()],
        1,
    )
    .await;
    assert_eq!(stored, []);
    let database = server.stop_keeping_database().await;

    let wallets = capture.wallets();
    let server = TestServer::builder()
        .database(database)
        .wallets(wallets)
        .start()
        .await;
    let metas = publish(&server, Transport::Native, update)
        .await
        .expect("a yes");
    let database = server.stop_keeping_database().await;

    // Nobody is asked about what is stored already (ARC-030).
    let server = TestServer::builder().database(database).start().await;
    let again = publish(&server, Transport::Native, update)
        .await
        .expect("a duplicate");
    assert_eq!(again, metas);
    server.stop().await;
}

/// A key package is admitted from the first second of its lifetime to the last, and refused one
/// second before and at its end (API-043).
#[tokio::test]
async fn a_key_package_is_admitted_within_its_lifetime_only() {
    let capture = Capture::load("node-api");
    let [first, end] = capture.payloads[0].lifetime_s().expect("a key package");
    let package = &capture.payloads[..1];
    let refused = (Some(0), Reason::InvalidKeyPackage);
    for (now_s, expected) in [
        (first - 1, Err(refused)),
        (first, Ok(())),
        (end - 1, Ok(())),
        (end, Err(refused)),
    ] {
        let server = TestServer::builder().at_unix_seconds(now_s).start().await;
        let answer = publish(&server, Transport::Native, package).await;
        let outcome = answer.map(drop).map_err(|status| refusal(&status));
        assert_eq!(outcome, expected, "at {now_s}");
        server.stop().await;
    }
}

/// What was stored in time can be sent again forever; what was not is refused, together with
/// everything in its request (ARC-030, API-222).
#[tokio::test]
async fn expired_key_packages_are_accepted_as_duplicates_only() {
    let capture = Capture::load("node-api");
    let packages: Vec<_> = capture
        .payloads
        .iter()
        .filter(|p| p.is_key_package())
        .collect();
    let [known, new] = [0, 1].map(|index| packages[index].envelope.clone());
    let server = TestServer::builder()
        .at_unix_seconds(capture.moment_s())
        .start()
        .await;
    let stored = server.publish(vec![known.clone()]).await.expect("in time");
    let database = server.stop_keeping_database().await;

    let ends = packages.iter().filter_map(|package| package.lifetime_s());
    let after_all = ends.map(|[_, end]| end).max().expect("lifetimes");
    let late = TestServer::builder()
        .database(database)
        .at_unix_seconds(after_all)
        .start()
        .await;
    for transport in Transport::ALL {
        let send = async |envelopes: &[_]| {
            let request = PublishRequest {
                envelopes: envelopes.to_vec(),
            };
            let method = "PublishService/Publish";
            transport
                .call::<_, PublishResponse>(late.address(), method, &request)
                .await
        };
        let again = send(std::slice::from_ref(&known))
            .await
            .expect("a duplicate");
        assert_eq!(again, stored, "{transport:?}");
        for (envelopes, index) in [
            (vec![new.clone()], 0),
            (vec![known.clone(), new.clone()], 1),
            (vec![new.clone(), known.clone()], 0),
        ] {
            let status = send(&envelopes).await.expect_err("too late");
            let expected = (Some(index), Reason::InvalidKeyPackage);
            assert_eq!(refusal(&status), expected, "{transport:?}");
        }
    }
    let pool = late.database().pool().await;
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM envelopes")
        .fetch_one(&pool)
        .await
        .expect("a count");
    assert_eq!(rows, 1);
    pool.close().await;
    late.stop().await;
}
