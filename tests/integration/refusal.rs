//! What a refused call must look like: its status, its detail, its silence about the request, and
//! a database that did not change.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use envelope::wire::xmtp::backend::v1::publish_error::Reason;
use envelope::wire::xmtp::backend::v1::{ClientEnvelope, PublishError};
use harness::TestServer;
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tonic::{Code, Status};
use tonic_types::pb;

/// The shortest piece of a request that would give it away, in characters or bytes of a text.
const PIECE: usize = 8;

/// Checks that a publish was refused for this reason, and answers its detail.
///
/// The detail is read from the bytes of `grpc-status-details-bin`: one `PublishError` inside a
/// `google.rpc.Status` that repeats code and text of the status (API-150).
pub(crate) fn assert_rejected(
    claim: &str,
    status: &Status,
    index: Option<u32>,
    reason: Reason,
) -> PublishError {
    assert_eq!(status.code(), Code::InvalidArgument, "{claim}: {status}");
    let details = pb::Status::decode(status.details()).expect("a google.rpc.Status");
    assert_eq!(details.code, 3, "{claim}");
    assert_eq!(details.message, status.message(), "{claim}");
    let [any] = &details.details[..] else {
        panic!("{claim}: {} details", details.details.len());
    };
    assert_eq!(
        any.type_url, "type.googleapis.com/xmtp.backend.v1.PublishError",
        "{claim}"
    );
    let detail = PublishError::decode(&any.value[..]).expect("a PublishError");
    assert_eq!(detail.message, status.message(), "{claim}");
    assert_eq!(
        (detail.index, detail.reason()),
        (index, reason),
        "{claim}: {status}"
    );
    // Presence is explicit: an index of 0 is written, an absent one is not.
    let written = any.value.first() == Some(&0x08);
    assert_eq!(written, index.is_some(), "{claim}: {:02x?}", any.value);
    detail
}

/// Checks that a call failed with this code and without a detail.
pub(crate) fn assert_plain(claim: &str, status: &Status, code: Code) {
    assert_eq!(status.code(), code, "{claim}: {status}");
    assert!(status.details().is_empty(), "{claim}: {status}");
    assert!(!status.message().is_empty(), "{claim}: {status}");
}

/// Checks that neither text nor detail of a status holds a piece of the envelopes or of their
/// hashes: as it is, in hexadecimal, or in base64 of either alphabet (ARC-099, ARC-101).
pub(crate) fn assert_silent(claim: &str, status: &Status, envelopes: &[ClientEnvelope]) {
    let encoded: Vec<_> = envelopes
        .iter()
        .map(ClientEnvelope::encode_to_vec)
        .collect();
    let mut secrets: Vec<&[u8]> = encoded.iter().map(Vec::as_slice).collect();
    let hashes: Vec<_> = encoded.iter().map(Sha256::digest).collect();
    secrets.extend(hashes.iter().map(|hash| hash.as_slice()));
    assert_silent_about(claim, status, &secrets);
}

/// Checks that neither text nor detail of a status holds a piece of any secret.
pub(crate) fn assert_silent_about(claim: &str, status: &Status, secrets: &[&[u8]]) {
    let said: HashSet<&[u8]> = [status.message().as_bytes(), status.details()]
        .into_iter()
        .flat_map(|text| text.windows(PIECE))
        .collect();
    for secret in secrets {
        for form in spellings(secret) {
            let leaked = form.windows(PIECE).find(|piece| said.contains(piece));
            assert_eq!(leaked, None, "{claim}: {status}");
        }
    }
}

/// Every way in which bytes could show up in a text.
fn spellings(secret: &[u8]) -> Vec<Vec<u8>> {
    let mut spellings = vec![
        secret.to_vec(),
        hex::encode(secret).into_bytes(),
        hex::encode_upper(secret).into_bytes(),
    ];
    // A piece of the secret may begin anywhere in a group of three bytes.
    for tail in (0..3).filter_map(|start| secret.get(start..)) {
        spellings.push(STANDARD.encode(tail).into_bytes());
        spellings.push(URL_SAFE.encode(tail).into_bytes());
    }
    spellings
}

/// How many rows there are of everything that a publish writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct Stored {
    pub(crate) envelopes: i64,
    pub(crate) watermarks: i64,
    pub(crate) associations: i64,
}

/// Looks into the database of a server.
pub(crate) async fn stored(server: &TestServer) -> Stored {
    let mut connection = server.database().connection().await;
    sqlx::query_as(
        "SELECT (SELECT count(*) FROM envelopes) AS envelopes,
                (SELECT count(*) FROM topic_watermark) AS watermarks,
                (SELECT count(*) FROM identifier_association) AS associations",
    )
    .fetch_one(&mut connection)
    .await
    .expect("the schema")
}
