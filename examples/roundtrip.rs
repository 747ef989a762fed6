//! Follows a topic on a running server, publishes one envelope to it, and reads it back.
//!
//! ```text
//! cargo run --example roundtrip -- http://127.0.0.1:5050
//! ```
//!
//! Exit status 0 means that the server stored the envelope, delivered it to the open stream and
//! returned it byte for byte.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use client::{PublishServiceClient, QueryServiceClient, SubscriptionServiceClient};
use envelope::wire::xmtp::backend::v1::subscribe_static_response::Response;
use envelope::wire::xmtp::backend::v1::{
    ClientEnvelope, Cursor, PublishRequest, QueryNewestRequest, QueryRequest, ServerEnvelope,
    SubscribeStaticRequest, SubscribeStaticResponse, Topic, TopicQuery, WelcomeMessage,
    client_envelope::Payload, welcome_message,
};
use tokio::time::timeout;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

/// The kind byte of a topic of welcomes.
const WELCOME: u8 = 1;

/// The installation that is welcomed; any 32 bytes will do.
const INSTALLATION: [u8; 32] = [0x42; 32];

/// How long a live envelope may take.
const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args()
        .nth(1)
        .context("usage: roundtrip http://HOST:PORT")?;
    let channel = Endpoint::new(url.clone())?
        .connect()
        .await
        .with_context(|| format!("no server answers at {url}"))?;
    let envelope = new_envelope()?;

    let mut stream = follow(&channel).await?;
    let sequence_id = publish(&channel, &envelope).await?;
    println!("published  sequence id {sequence_id}");

    let published = Instant::now();
    let arrived = timeout(PATIENCE, arrival(&mut stream))
        .await
        .context("the envelope did not arrive on the stream")??;
    ensure!(
        arrived.envelope.as_ref() == Some(&envelope),
        "another envelope arrived on the stream"
    );
    let after = published.elapsed().as_millis();
    println!("delivered  the same envelope on an open stream, {after} ms later");

    // Everything above the id before ours: our envelope is the first of it.
    let read = read_after(&channel, sequence_id - 1).await?;
    ensure!(
        read.envelope == Some(envelope),
        "another envelope came back"
    );
    println!("read back  the same envelope");
    Ok(())
}

/// A welcome that nobody published before: it contains the time.
fn new_envelope() -> anyhow::Result<ClientEnvelope> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
    Ok(ClientEnvelope {
        payload: Some(Payload::WelcomeMessage(Box::new(WelcomeMessage {
            version: Some(welcome_message::Version::V1(welcome_message::V1 {
                installation_key: INSTALLATION.to_vec().into(),
                data: now.to_be_bytes().to_vec().into(),
                ..welcome_message::V1::default()
            })),
        }))),
    })
}

fn topic() -> Topic {
    Topic {
        topic: [&[WELCOME][..], &INSTALLATION].concat().into(),
    }
}

/// Opens a stream of the topic from after everything that it may hold, so that only what is published
/// from now on can arrive.
async fn follow(channel: &Channel) -> anyhow::Result<Streaming<SubscribeStaticResponse>> {
    let newest = QueryNewestRequest {
        topics: vec![topic()],
        include_full_envelope: false,
    };
    let mut reader = QueryServiceClient::new(channel.clone());
    let newest = reader.query_newest(newest).await?.into_inner().results;
    let request = SubscribeStaticRequest {
        topics: vec![TopicQuery {
            topic: Some(topic()),
            cursor: newest.into_iter().find_map(|result| result.meta?.cursor),
        }],
    };
    let mut subscriber = SubscriptionServiceClient::new(channel.clone());
    let mut stream = subscriber.subscribe_static(request).await?.into_inner();
    let first = stream.message().await?.and_then(|frame| frame.response);
    ensure!(
        matches!(first, Some(Response::Started(_))),
        "the stream does not begin"
    );
    Ok(stream)
}

/// Publishes the envelope and answers its id.
async fn publish(channel: &Channel, envelope: &ClientEnvelope) -> anyhow::Result<u64> {
    let request = PublishRequest {
        envelopes: vec![envelope.clone()],
    };
    let mut publisher = PublishServiceClient::new(channel.clone());
    let metas = publisher
        .publish(request)
        .await?
        .into_inner()
        .envelope_metas;
    let cursor = metas.into_iter().find_map(|meta| meta.cursor);
    Ok(cursor.context("no metadata came back")?.sequence_id)
}

/// Waits for the next envelope of the stream.
async fn arrival(
    stream: &mut Streaming<SubscribeStaticResponse>,
) -> anyhow::Result<ServerEnvelope> {
    loop {
        let frame = stream.message().await?.context("the stream ended")?;
        if let Some(Response::Messages(messages)) = frame.response {
            let first = messages.envelopes.into_iter().next();
            return first.context("a frame of nothing");
        }
    }
}

/// Reads the first envelope of the topic after an id.
async fn read_after(channel: &Channel, sequence_id: u64) -> anyhow::Result<ServerEnvelope> {
    let request = QueryRequest {
        queries: vec![TopicQuery {
            topic: Some(topic()),
            cursor: Some(Cursor { sequence_id }),
        }],
        limit: 1,
    };
    let mut reader = QueryServiceClient::new(channel.clone());
    let page = reader.query(request).await?.into_inner();
    let first = page.envelopes.into_iter().next();
    first.context("the envelope did not come back")
}
