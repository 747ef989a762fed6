//! Publishes one envelope to a running server and reads it back.
//!
//! ```text
//! cargo run --example roundtrip -- http://127.0.0.1:5050
//! ```
//!
//! Exit status 0 means that the server stored the envelope and returned it byte for byte.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use client::{PublishServiceClient, QueryServiceClient};
use envelope::wire::xmtp::backend::v1::{
    ClientEnvelope, PublishRequest, QueryRequest, TopicQuery, WelcomeMessage,
    client_envelope::Payload, welcome_message,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args()
        .nth(1)
        .context("usage: roundtrip http://HOST:PORT")?;

    // A welcome may be addressed to any 32 bytes; the time makes this envelope a new one.
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    let envelope = ClientEnvelope {
        payload: Some(Payload::WelcomeMessage(WelcomeMessage {
            version: Some(welcome_message::Version::V1(welcome_message::V1 {
                installation_key: vec![0x42; 32].into(),
                data: now.to_be_bytes().to_vec().into(),
                ..welcome_message::V1::default()
            })),
        })),
    };

    let mut publisher = PublishServiceClient::connect(url.clone())
        .await
        .with_context(|| format!("no server answers at {url}"))?;
    let request = PublishRequest {
        envelopes: vec![envelope.clone()],
    };
    let response = publisher.publish(request).await?.into_inner();
    let meta = response
        .envelope_metas
        .into_iter()
        .next()
        .context("no metadata came back")?;
    let sequence_id = meta
        .cursor
        .as_ref()
        .context("the metadata has no cursor")?
        .sequence_id;
    println!(
        "published  sequence id {sequence_id}, server time {} ns",
        meta.server_ns
    );

    // Everything above the id before ours: our envelope is the first of it.
    let mut cursor = meta.cursor;
    if let Some(cursor) = &mut cursor {
        cursor.sequence_id -= 1;
    }
    let mut reader = QueryServiceClient::connect(url).await?;
    let query = TopicQuery {
        topic: meta.topic,
        cursor,
    };
    let page = reader
        .query(QueryRequest {
            queries: vec![query],
            limit: 1,
        })
        .await?
        .into_inner();
    let read = page
        .envelopes
        .into_iter()
        .next()
        .context("the envelope did not come back")?;
    ensure!(
        read.envelope == Some(envelope),
        "another envelope came back"
    );
    println!("read back  the same envelope");
    Ok(())
}
