//! Subscribers, frame by frame.

use std::net::SocketAddr;
use std::time::Duration;

use client::SubscriptionServiceClient;
use envelope::wire::xmtp::backend::v1::subscribe_request::{self, Request};
use envelope::wire::xmtp::backend::v1::subscribe_response::{self, Response};
use envelope::wire::xmtp::backend::v1::{
    Cursor, Ping, Pong, ServerEnvelope, SubscribeRequest, SubscribeResponse,
    SubscribeStaticRequest, SubscribeStaticResponse, Topic, TopicQuery, subscribe_static_response,
};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::transport::{Transport, channel};
use super::web::{Form, Http, WebCall, WebStream};

/// When a frame that must come counts as missing: far above what a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A bidirectional stream over native gRPC.
#[derive(Debug)]
pub struct Subscription {
    requests: Option<mpsc::UnboundedSender<SubscribeRequest>>,
    responses: Streaming<SubscribeResponse>,
    last_update: u64,
}

impl Subscription {
    /// Opens a stream on a connection of its own, and reads nothing yet.
    pub async fn open(address: SocketAddr) -> Result<Self, Status> {
        Self::open_on(channel(address).await).await
    }

    /// Opens a stream on this connection.
    pub async fn open_on(channel: Channel) -> Result<Self, Status> {
        let (requests, outbound) = mpsc::unbounded_channel();
        let mut client =
            SubscriptionServiceClient::new(channel).max_decoding_message_size(usize::MAX);
        let outbound = UnboundedReceiverStream::new(outbound);
        let responses = client.subscribe(outbound).await?.into_inner();
        Ok(Self {
            requests: Some(requests),
            responses,
            last_update: 0,
        })
    }

    /// Opens a stream and reads its first frame.
    pub async fn start(address: SocketAddr) -> Self {
        let mut subscription = Self::open(address).await.expect("the stream opens");
        let first = subscription.next().await.expect("a first frame");
        assert!(matches!(first, Response::Started(_)), "{first:?}");
        subscription
    }

    /// Sends a frame as it is.
    pub fn send(&self, request: Option<Request>) {
        let requests = self.requests.as_ref().expect("the stream is open");
        // The server may have ended the stream; what it said is read from the responses.
        let _ = requests.send(SubscribeRequest { request });
    }

    /// Sends an Update.
    pub fn update(&self, id: u64, adds: Vec<TopicQuery>, removes: Vec<Topic>) {
        let update = subscribe_request::Update { id, adds, removes };
        self.send(Some(Request::Update(update)));
    }

    /// Adds topics from after these ids on, and returns their targets once that is applied. Envelopes
    /// that come before are returned as well.
    pub async fn add(&mut self, topics: &[(&[u8], u64)]) -> (Vec<u64>, Vec<ServerEnvelope>) {
        let adds = topics.iter().map(|(topic, after)| query(topic, *after));
        self.last_update += 1;
        self.update(self.last_update, adds.collect(), Vec::new());
        self.until_applied().await
    }

    /// Removes topics, and returns the envelopes that came before that was applied.
    pub async fn remove(&mut self, topics: &[&[u8]]) -> Vec<ServerEnvelope> {
        self.last_update += 1;
        let removes = topics.iter().map(|bytes| topic(bytes)).collect();
        self.update(self.last_update, Vec::new(), removes);
        self.until_applied().await.1
    }

    async fn until_applied(&mut self) -> (Vec<u64>, Vec<ServerEnvelope>) {
        let mut envelopes = Vec::new();
        loop {
            match self.next().await.expect("the stream is open") {
                Response::Applied(applied) => {
                    assert_eq!(applied.id, self.last_update);
                    let targets = applied.added_targets.iter();
                    let targets = targets.map(|target| target.through_sequence_id).collect();
                    return (targets, envelopes);
                }
                Response::Messages(messages) => envelopes.extend(messages.envelopes),
                Response::Ping(ping) => self.pong(ping.nonce),
                other @ (Response::Started(_) | Response::Pong(_)) => panic!("{other:?}"),
            }
        }
    }

    /// Asks the server for a sign of life.
    pub fn ping(&self, nonce: u64) {
        self.send(Some(Request::Ping(Ping { nonce })));
    }

    /// Answers the server's question.
    pub fn pong(&self, nonce: u64) {
        self.send(Some(Request::Pong(Pong { nonce })));
    }

    /// Ends the client's side.
    pub fn half_close(&mut self) {
        self.requests = None;
    }

    /// The next frame; `Err` with the status that ended the stream, `OK` included.
    pub async fn next(&mut self) -> Result<Response, Status> {
        let message = timeout(PATIENCE, self.responses.message())
            .await
            .expect("a frame in time")?;
        match message {
            Some(message) => Ok(message.response.expect("a frame has a kind")),
            None => Err(Status::ok("")),
        }
    }

    /// The next frame, which must be of envelopes. Answers Pings meanwhile.
    pub async fn messages(&mut self) -> Vec<ServerEnvelope> {
        loop {
            match self.next().await.expect("the stream is open") {
                Response::Messages(subscribe_response::Messages { envelopes }) => {
                    assert!(!envelopes.is_empty(), "a frame of nothing");
                    return envelopes;
                }
                Response::Ping(ping) => self.pong(ping.nonce),
                other @ (Response::Started(_) | Response::Applied(_) | Response::Pong(_)) => {
                    panic!("envelopes are due, not {other:?}")
                }
            }
        }
    }

    /// Reads so many envelopes.
    pub async fn envelopes(&mut self, number: usize) -> Vec<ServerEnvelope> {
        let mut envelopes = Vec::new();
        while envelopes.len() < number {
            envelopes.extend(self.messages().await);
        }
        assert_eq!(envelopes.len(), number, "no more than that are due");
        envelopes
    }

    /// Reads until the stream ends, and returns its status.
    pub async fn end(&mut self) -> Status {
        loop {
            if let Err(status) = self.next().await {
                return status;
            }
        }
    }
}

/// A static stream over any protocol.
#[derive(Debug)]
pub struct StaticSubscription {
    responses: StaticResponses,
}

#[derive(Debug)]
enum StaticResponses {
    Native(Box<Streaming<SubscribeStaticResponse>>),
    Web(WebStream<SubscribeStaticResponse>),
}

const SUBSCRIBE_STATIC: &str = "/xmtp.backend.v1.SubscriptionService/SubscribeStatic";

impl StaticSubscription {
    /// Opens a stream, and reads nothing yet.
    pub async fn open(
        transport: Transport,
        address: SocketAddr,
        topics: Vec<TopicQuery>,
    ) -> Result<Self, Status> {
        let request = SubscribeStaticRequest { topics };
        let web = async |http, form| {
            let call = WebCall {
                address,
                http,
                form,
            };
            let stream = call
                .stream(SUBSCRIBE_STATIC, std::slice::from_ref(&request))
                .await?;
            Ok::<_, Status>(StaticResponses::Web(stream))
        };
        let responses = match transport {
            Transport::Native => {
                let mut client = SubscriptionServiceClient::new(channel(address).await)
                    .max_decoding_message_size(usize::MAX);
                let responses = client.subscribe_static(request).await?;
                StaticResponses::Native(Box::new(responses.into_inner()))
            }
            Transport::WebHttp1 => web(Http::One, Form::Binary).await?,
            Transport::WebTextHttp1 => web(Http::One, Form::Text).await?,
            Transport::WebHttp2 => web(Http::Two, Form::Binary).await?,
        };
        Ok(Self { responses })
    }

    /// The next frame; `Err` with the status that ended the stream, `OK` included.
    pub async fn next(&mut self) -> Result<subscribe_static_response::Response, Status> {
        let message = async {
            match &mut self.responses {
                StaticResponses::Native(responses) => responses.message().await,
                StaticResponses::Web(responses) => responses.next().await,
            }
        };
        let message = timeout(PATIENCE, message).await.expect("a frame in time")?;
        match message {
            Some(message) => Ok(message.response.expect("a frame has a kind")),
            None => Err(Status::ok("")),
        }
    }

    /// Reads so many envelopes; frames of another kind are passed over.
    pub async fn envelopes(&mut self, number: usize) -> Vec<ServerEnvelope> {
        let mut envelopes = Vec::new();
        while envelopes.len() < number {
            match self.next().await.expect("the stream is open") {
                subscribe_static_response::Response::Messages(messages) => {
                    envelopes.extend(messages.envelopes);
                }
                subscribe_static_response::Response::Started(_)
                | subscribe_static_response::Response::Keepalive(_) => {}
            }
        }
        assert_eq!(envelopes.len(), number, "no more than that are due");
        envelopes
    }
}

fn topic(bytes: &[u8]) -> Topic {
    Topic {
        topic: bytes.to_vec().into(),
    }
}

fn query(bytes: &[u8], after: u64) -> TopicQuery {
    TopicQuery {
        topic: Some(topic(bytes)),
        cursor: Some(Cursor { sequence_id: after }),
    }
}
