//! What the tests of subscriptions share: histories to read, frames to expect, and a client that
//! sees bytes.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use envelope::canonical;
use envelope::fixtures::{filler, group_id, group_message};
use envelope::wire::xmtp::backend::v1::subscribe_request::{Request, Update};
use envelope::wire::xmtp::backend::v1::subscribe_response::{Applied, Response};
use envelope::wire::xmtp::backend::v1::{
    ClientEnvelope, ServerEnvelope, SubscribeRequest, SubscribeResponse, TopicQuery,
};
use harness::{RawMessage, Subscription, TestServer, channel, eventually};
use http::uri::PathAndQuery;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;

use crate::given::{group_topic, id_of, ids, message};

/// The path of the bidirectional stream.
pub(crate) const SUBSCRIBE: &str = "/xmtp.backend.v1.SubscriptionService/Subscribe";

/// When a frame that must come counts as missing.
const PATIENCE: Duration = Duration::from_secs(30);

/// Envelopes of one publish of [`store`].
const AT_ONCE: u64 = 500;

/// The bytes of the topic of the group of that number.
pub(crate) fn topic(group: u64) -> Vec<u8> {
    group_topic(group).as_bytes().to_vec()
}

/// The id of a delivered envelope.
pub(crate) fn of(envelope: &ServerEnvelope) -> u64 {
    id_of(envelope.meta.as_ref().expect("complete metadata"))
}

/// The ids of delivered envelopes, as they came.
pub(crate) fn received(envelopes: &[ServerEnvelope]) -> Vec<u64> {
    envelopes.iter().map(of).collect()
}

/// The topic of a delivered envelope.
pub(crate) fn topic_of(envelope: &ServerEnvelope) -> Vec<u8> {
    let meta = envelope.meta.as_ref().expect("complete metadata");
    meta.topic.as_ref().expect("a topic").topic.to_vec()
}

/// The ids of those that are of one topic, as they came.
pub(crate) fn received_on(topic: &[u8], envelopes: &[ServerEnvelope]) -> Vec<u64> {
    let on_topic = envelopes.iter().filter(|e| topic_of(e) == topic);
    on_topic.map(of).collect()
}

/// Publishes these messages of a group, and answers their ids.
pub(crate) async fn store(server: &TestServer, group: u64, numbers: Range<u64>) -> Vec<u64> {
    let mut stored = Vec::new();
    let mut next = numbers.start;
    while next < numbers.end {
        let end = numbers.end.min(next + AT_ONCE);
        let batch = (next..end).map(|number| message(group, number)).collect();
        stored.extend(ids(server.publish(batch).await));
        next = end;
    }
    stored
}

/// A message of a group whose stored form has exactly so many bytes, different for every number.
pub(crate) fn sized(group: u64, number: u64, bytes: usize) -> ClientEnvelope {
    let build = |length: usize| {
        let ciphertext = filler(number, 32.min(length))
            .into_iter()
            .chain(std::iter::repeat(0x5a))
            .take(length);
        let ciphertext: Vec<u8> = ciphertext.collect();
        let group = group_id(group);
        let kind = group_message::APPLICATION;
        group_message::with_data(group_message::private_message(&group, kind, &ciphertext))
    };
    let mut length = bytes.saturating_sub(64);
    for _ in 0..4 {
        let envelope = build(length);
        let got = canonical::encode(&envelope).len();
        if got == bytes {
            return envelope;
        }
        length = length + bytes - got;
    }
    panic!("no message has {bytes} bytes");
}

/// The next frame, which must be an Applied: its id and its targets.
pub(crate) async fn applied(stream: &mut Subscription) -> (u64, Vec<u64>) {
    match stream.next().await.expect("the stream is open") {
        Response::Applied(Applied { id, added_targets }) => {
            let targets = added_targets.iter();
            (
                id,
                targets.map(|target| target.through_sequence_id).collect(),
            )
        }
        other @ (Response::Started(_)
        | Response::Messages(_)
        | Response::Ping(_)
        | Response::Pong(_)) => panic!("an Applied is due, not {other:?}"),
    }
}

/// Asks for a sign of life, and answers the envelopes that come before it: everything that was
/// queued by then. Costs a Ping.
pub(crate) async fn until_pong(stream: &mut Subscription, nonce: u64) -> Vec<ServerEnvelope> {
    stream.ping(nonce);
    let mut envelopes = Vec::new();
    loop {
        match stream.next().await.expect("the stream is open") {
            Response::Pong(pong) => {
                assert_eq!(pong.nonce, nonce);
                return envelopes;
            }
            Response::Messages(messages) => envelopes.extend(messages.envelopes),
            Response::Ping(ping) => stream.pong(ping.nonce),
            other @ (Response::Started(_) | Response::Applied(_)) => panic!("{other:?}"),
        }
    }
}

/// A metric of ended streams.
pub(crate) fn ended(reason: &str) -> String {
    format!("xmtp_stream_ended_total{{reason=\"{reason}\"}}")
}

/// Every reason why streams end.
pub(crate) const REASONS: [&str; 9] = [
    "client",
    "invalid",
    "rate_limited",
    "backpressure",
    "capacity",
    "keepalive",
    "tailer",
    "database",
    "shutdown",
];

/// Streams that ended so far, for whatever reason.
pub(crate) async fn all_ended(server: &TestServer) -> u64 {
    let mut all = 0;
    for reason in REASONS {
        all += server.metric(&ended(reason)).await;
    }
    all
}

/// The registry gauges: sessions of both kinds, and registered topics.
pub(crate) async fn registered(server: &TestServer) -> [u64; 3] {
    [
        server.metric("xmtp_stream_sessions{kind=\"bidi\"}").await,
        server.metric("xmtp_stream_sessions{kind=\"static\"}").await,
        server.metric("xmtp_stream_topics_registered").await,
    ]
}

/// Waits until nothing is registered, and checks that so many streams ended, all of them for this
/// reason (ARC-082).
pub(crate) async fn until_all_ended(server: &TestServer, reason: &str, number: u64) {
    eventually("nothing is registered", async || {
        registered(server).await == [0; 3]
    })
    .await;
    assert_eq!(server.metric(&ended(reason)).await, number, "{reason}");
    assert_eq!(all_ended(server).await, number, "other reasons");
}

/// A connection with small windows: what its client does not read stays with the server.
pub(crate) async fn narrow_channel(address: SocketAddr, window_bytes: u32) -> Channel {
    Endpoint::from_shared(format!("http://{address}"))
        .expect("an address makes a URI")
        .initial_stream_window_size(window_bytes)
        .initial_connection_window_size(window_bytes.max(65_535))
        .connect()
        .await
        .expect("the server accepts connections")
}

/// A bidirectional stream of bytes: frames are sent and received as they are.
pub(crate) struct RawSubscription {
    requests: mpsc::UnboundedSender<RawMessage>,
    responses: Streaming<RawMessage>,
}

impl RawSubscription {
    /// Opens a stream on a connection of its own, and reads nothing yet.
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let mut client =
            tonic::client::Grpc::new(channel(address).await).max_decoding_message_size(usize::MAX);
        client.ready().await.unwrap();
        let (requests, outbound) = mpsc::unbounded_channel();
        let responses = client
            .streaming(
                tonic::Request::new(UnboundedReceiverStream::new(outbound)),
                PathAndQuery::from_static(SUBSCRIBE),
                ProstCodec::<RawMessage, RawMessage>::default(),
            )
            .await
            .expect("the stream opens");
        Self {
            requests,
            responses: responses.into_inner(),
        }
    }

    /// Sends a frame.
    pub(crate) fn send(&self, bytes: Vec<u8>) {
        // The server may have ended the stream; what it said is read from the responses.
        let _ = self.requests.send(bytes.into());
    }

    /// Sends an Update that only adds.
    pub(crate) fn update(&self, id: u64, adds: Vec<TopicQuery>) {
        let update = Update {
            id,
            adds,
            removes: Vec::new(),
        };
        let request = Some(Request::Update(update));
        self.send(SubscribeRequest { request }.encode_to_vec());
    }

    /// The next frame, which must be of envelopes, with its length.
    pub(crate) async fn messages(&mut self) -> (usize, Vec<ServerEnvelope>) {
        let frame = self.next().await.expect("the stream is open");
        let length = frame.len();
        match SubscribeResponse::decode(frame).unwrap().response {
            Some(Response::Messages(messages)) => (length, messages.envelopes),
            other => panic!("envelopes are due, not {other:?}"),
        }
    }

    /// The next frame; `Err` with the status that ended the stream, `OK` included.
    pub(crate) async fn next(&mut self) -> Result<Bytes, Status> {
        let message = timeout(PATIENCE, self.responses.message())
            .await
            .expect("a frame in time")?;
        message.map(|raw| raw.0).ok_or_else(|| Status::ok(""))
    }
}
