//! Publishing what is stored already, or comes twice: it succeeds, with the first answer (API-032 to
//! API-036, API-222).

use envelope::fixtures::{
    Installation, KeyPackageBuilder, UpdateBuilder, Wallet, identity, key_package, update_envelope,
    valid,
};
use envelope::wire::xmtp::backend::v1::publish_error::Reason;
use envelope::wire::xmtp::backend::v1::{PublishRequest, PublishResponse};
use harness::{TestServer, Transport};

use crate::reading::{id, publish};
use crate::refusal::{Stored, assert_rejected, stored};

/// Of one inbox, one update is published, whether it comes once or twice in the request; what it
/// says of identifiers is projected (API-050, ARC-022).
#[tokio::test]
async fn identical_updates_of_one_inbox_make_one_row() {
    let server = TestServer::start().await;
    let wallet = Wallet::numbered(4);
    let update = identity::create_inbox(&wallet, &Installation::numbered(4));
    let envelope = update_envelope(update);
    let metas = publish(&server, vec![envelope.clone(), envelope.clone()]).await;
    assert_eq!(metas[0], metas[1]);
    let expected = Stored {
        envelopes: 1,
        watermarks: 1,
        associations: 1,
    };
    assert_eq!(stored(&server).await, expected);

    // Published again it would create an inbox that exists: only a duplicate may succeed.
    assert_eq!(publish(&server, vec![envelope]).await, metas[..1]);
    let again = UpdateBuilder::creating(&wallet, 0).at(7).build();
    let refused = server
        .publish(vec![update_envelope(again)])
        .await
        .unwrap_err();
    assert_rejected(
        "created twice",
        &refused,
        Some(0),
        Reason::InvalidIdentityUpdate,
    );
    assert_eq!(stored(&server).await, expected);
    server.stop().await;
}

/// A key package that has expired since it was stored is answered like at first; another expired
/// one is refused (API-033, API-036).
#[tokio::test]
async fn a_stored_key_package_is_a_duplicate_even_when_it_has_expired() {
    let expiring = |fill: u8| {
        let mut package = KeyPackageBuilder::new(&Installation::numbered(5), "inbox");
        package.init_key = vec![fill; 32];
        package.lifetime(0, 2_000).envelope()
    };
    let server = TestServer::builder().at_unix_seconds(1_000).start().await;
    let metas = publish(&server, vec![expiring(1)]).await;
    let database = server.stop_keeping_database().await;

    let server = TestServer::builder()
        .at_unix_seconds(3_000)
        .database(database)
        .start()
        .await;
    assert_eq!(publish(&server, vec![expiring(1)]).await, metas);
    let refused = server.publish(vec![expiring(2)]).await.unwrap_err();
    assert_rejected("another", &refused, Some(0), Reason::InvalidKeyPackage);
    // What succeeds as a duplicate does not excuse what stands beside it.
    let both = vec![expiring(1), expiring(2)];
    let refused = server.publish(both).await.unwrap_err();
    assert_rejected(
        "beside a duplicate",
        &refused,
        Some(1),
        Reason::InvalidKeyPackage,
    );
    assert_eq!(stored(&server).await.envelopes, 1);
    let package = key_package::with_bytes(b"not a package");
    let refused = server
        .publish(vec![expiring(1), package])
        .await
        .unwrap_err();
    assert_rejected(
        "beside a duplicate",
        &refused,
        Some(1),
        Reason::MalformedPayload,
    );
    server.stop().await;
}

/// A request may mix what is stored, what is new and what repeats within it: one entry per input,
/// at its index; only new envelopes get ids, ascending in request order (API-032, API-034, ARC-036).
#[tokio::test]
async fn duplicates_repeats_and_new_envelopes_are_answered_in_request_order() {
    let server = TestServer::start().await;
    let [message, welcome, update, package, entry] = valid(6);
    let old = publish(&server, vec![package.clone(), message.clone()]).await;

    let request = vec![
        entry.clone(),
        message.clone(),
        welcome.clone(),
        entry.clone(),
        package,
        update,
        welcome,
        message,
    ];
    let metas = publish(&server, request.clone()).await;
    assert_eq!(
        [&metas[4], &metas[1], &metas[7]],
        [&old[0], &old[1], &old[1]]
    );
    assert_eq!(metas[3], metas[0]);
    assert_eq!(metas[6], metas[2]);
    let new = [&metas[0], &metas[2], &metas[5]];
    assert!(new.iter().all(|meta| id(meta) > id(&old[1])));
    assert!(new.is_sorted_by(|a, b| id(a) < id(b)), "{new:?}");
    assert!(new.iter().all(|meta| meta.server_ns == metas[0].server_ns));
    assert_eq!(stored(&server).await.envelopes, 5);

    // Now everything is stored, and everything is answered as before, over every protocol.
    for transport in Transport::ALL {
        let request = PublishRequest {
            envelopes: request.clone(),
        };
        let response: PublishResponse = transport
            .call(server.address(), "PublishService/Publish", &request)
            .await
            .unwrap();
        assert_eq!(response.envelope_metas, metas, "{transport:?}");
    }
    server.stop().await;
}
