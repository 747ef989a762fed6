//! A client that follows topics, changes its mind, loses its connection, and remembers everything
//! that it was told.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use client::SubscriptionServiceClient;
use envelope::wire::xmtp::backend::v1::subscribe_request::{Request, Update};
use envelope::wire::xmtp::backend::v1::subscribe_response::Response;
use envelope::wire::xmtp::backend::v1::subscribe_static_response::Response as StaticResponse;
use envelope::wire::xmtp::backend::v1::{
    Cursor, Pong, ServerEnvelope, SubscribeRequest, SubscribeStaticRequest, Topic, TopicQuery,
};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};
use harness::Random;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::GROUPS;
use crate::instance::Instance;
use crate::ledger::{Ledger, Registration, Seen, Stored, seen, topic};

/// After a stream that did not open or ended.
const RETRY: Duration = Duration::from_millis(100);

/// How long the client waits for a frame before it changes something.
const IDLE: Duration = Duration::from_millis(200);

/// How long the last envelopes may take, once faults are over.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is stored, once no more is published.
type Finished = watch::Receiver<Option<Arc<Stored>>>;

/// One of several subscribers.
pub(crate) struct Subscriber {
    number: u64,
    is_static: bool,
    random: Random,
    instances: Arc<[Instance; 2]>,
    ledger: Arc<Ledger>,
    /// The last id of each group that this client has seen.
    cursors: HashMap<u64, u64>,
    /// Registrations that have ended.
    ended: Vec<Registration>,
}

/// One stream and what this client believes of it.
struct Open {
    requests: Option<mpsc::UnboundedSender<SubscribeRequest>>,
    active: HashMap<u64, Registration>,
    /// Updates without an answer: their id, what they add and what they remove.
    pending: Vec<(u64, Vec<Registration>, Vec<u64>)>,
    last_update: u64,
    started: bool,
}

/// A frame of either kind of stream.
enum Frame {
    Started,
    Applied(u64, Vec<u64>),
    Messages(Vec<ServerEnvelope>),
    Ping(u64),
    Other,
}

type Frames = BoxStream<'static, Option<Frame>>;

impl Subscriber {
    /// The subscriber of that number.
    pub(crate) fn new(
        number: u64,
        is_static: bool,
        random: Random,
        instances: Arc<[Instance; 2]>,
        ledger: Arc<Ledger>,
    ) -> Self {
        Self {
            number,
            is_static,
            random,
            instances,
            ledger,
            cursors: HashMap::new(),
            ended: Vec::new(),
        }
    }

    /// Follows topics until everything is known that there will be, then reads the rest.
    pub(crate) async fn run(mut self, finished: Finished) {
        while finished.borrow().is_none() {
            self.stream(&finished).await;
            tokio::time::sleep(RETRY).await;
        }
        let stored = finished.borrow().clone();
        let Some(stored) = stored else { return };
        if timeout(PATIENCE, self.read_the_rest(&stored))
            .await
            .is_err()
        {
            self.ledger.violation(format!(
                "subscriber {} does not get what is stored",
                self.number
            ));
        }
        for registration in &self.ended {
            self.ledger.check(registration, &stored, false);
        }
    }

    /// One stream, until it breaks or this client drops it.
    async fn stream(&mut self, finished: &Finished) {
        let groups = self.some_groups();
        let Some((mut open, mut frames)) = self.open(groups).await else {
            return;
        };
        while finished.borrow().is_none() {
            match timeout(IDLE, frames.next()).await {
                Ok(Some(Some(frame))) => {
                    if !self.take(&mut open, frame) {
                        break;
                    }
                }
                Ok(Some(None) | None) => break,
                Err(_) => {}
            }
            if self.random.once_in(200) {
                // Reads nothing for a while.
                tokio::time::sleep(IDLE * 2).await;
            }
            if self.random.once_in(400) {
                break;
            }
            if !self.is_static && self.random.once_in(20) {
                self.change(&mut open);
            }
        }
        self.close(open);
    }

    /// Takes everything of a static or bidirectional stream of all groups, from this client's cursors.
    async fn read_the_rest(&mut self, stored: &Stored) {
        let is_complete = |cursors: &HashMap<u64, u64>| {
            (0..GROUPS)
                .all(|group| cursors.get(&group).copied().unwrap_or_default() >= stored.last(group))
        };
        while !is_complete(&self.cursors) {
            let groups = (0..GROUPS)
                .map(|group| (group, self.cursors.get(&group).copied().unwrap_or_default()))
                .collect();
            if let Some((mut open, mut frames)) = self.open(groups).await {
                while !is_complete(&self.cursors) {
                    let Some(Some(frame)) = frames.next().await else {
                        break;
                    };
                    if !self.take(&mut open, frame) {
                        break;
                    }
                }
                if is_complete(&self.cursors) {
                    for registration in open.active.values() {
                        self.ledger.check(registration, stored, true);
                    }
                    return;
                }
                self.close(open);
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Groups to begin with, mostly from where this client is.
    fn some_groups(&mut self) -> Vec<(u64, u64)> {
        let number = 1 + self.random.below(GROUPS);
        let first = self.random.below(GROUPS);
        (first..first + number)
            .map(|group| {
                let group = group % GROUPS;
                (group, self.start(group))
            })
            .collect()
    }

    fn start(&mut self, group: u64) -> u64 {
        let cursor = self.cursors.get(&group).copied().unwrap_or_default();
        if self.random.once_in(10) {
            self.random.below(cursor + 1)
        } else {
            cursor
        }
    }

    async fn open(&mut self, groups: Vec<(u64, u64)>) -> Option<(Open, Frames)> {
        let instance = usize::from(self.random.once_in(2));
        let channel = self.instances[instance].connect().await.ok()?;
        let mut client =
            SubscriptionServiceClient::new(channel).max_decoding_message_size(usize::MAX);
        let mut open = Open {
            requests: None,
            active: HashMap::new(),
            pending: Vec::new(),
            last_update: 0,
            started: false,
        };
        let frames = if self.is_static {
            let topics = groups
                .iter()
                .map(|(group, after)| query(*group, *after))
                .collect();
            let request = SubscribeStaticRequest { topics };
            let responses = client.subscribe_static(request).await.ok()?.into_inner();
            open.active = groups.into_iter().map(registration).collect();
            let frames = responses.map(|response| match response.ok()?.response? {
                StaticResponse::Started(_) => Some(Frame::Started),
                StaticResponse::Messages(messages) => Some(Frame::Messages(messages.envelopes)),
                StaticResponse::Keepalive(_) => Some(Frame::Other),
            });
            frames.boxed()
        } else {
            let (requests, outbound) = mpsc::unbounded_channel();
            let outbound = UnboundedReceiverStream::new(outbound);
            let responses = client.subscribe(outbound).await.ok()?.into_inner();
            open.requests = Some(requests);
            self.update(&mut open, groups, Vec::new());
            bidirectional(responses).boxed()
        };
        self.ledger.opened();
        Some((open, frames))
    }

    /// Adds or removes something.
    fn change(&mut self, open: &mut Open) {
        if !open.pending.is_empty() {
            return;
        }
        let group = self.random.below(GROUPS);
        if open.active.contains_key(&group) {
            self.update(open, Vec::new(), vec![group]);
        } else {
            let start = self.start(group);
            self.update(open, vec![(group, start)], Vec::new());
        }
    }

    fn update(&self, open: &mut Open, adds: Vec<(u64, u64)>, removes: Vec<u64>) {
        let Some(requests) = &open.requests else {
            return;
        };
        open.last_update += 1;
        let update = Update {
            id: open.last_update,
            adds: adds
                .iter()
                .map(|(group, after)| query(*group, *after))
                .collect(),
            removes: removes
                .iter()
                .map(|group| Topic {
                    topic: topic(*group).into(),
                })
                .collect(),
        };
        let adds = adds.into_iter().map(|add| registration(add).1).collect();
        open.pending.push((open.last_update, adds, removes));
        let request = Some(Request::Update(update));
        // The stream may have ended; its frames tell.
        let _ = requests.send(SubscribeRequest { request });
    }

    /// Checks and remembers a frame. Tells whether to go on.
    fn take(&mut self, open: &mut Open, frame: Frame) -> bool {
        if open.started == matches!(frame, Frame::Started) {
            self.violation("Started is not the first frame, or not the only one");
            return false;
        }
        match frame {
            Frame::Started => open.started = true,
            Frame::Applied(id, targets) => return self.applied(open, id, &targets),
            Frame::Messages(envelopes) => {
                if envelopes.is_empty() {
                    self.violation("a frame without envelopes");
                }
                for envelope in &envelopes {
                    self.delivered(open, envelope);
                }
            }
            Frame::Ping(nonce) => {
                if let Some(requests) = &open.requests {
                    let request = Some(Request::Pong(Pong { nonce }));
                    let _ = requests.send(SubscribeRequest { request });
                }
            }
            Frame::Other => {}
        }
        true
    }

    fn applied(&mut self, open: &mut Open, id: u64, targets: &[u64]) -> bool {
        if open.pending.is_empty() {
            self.violation("an Applied without an Update");
            return false;
        }
        let (expected, adds, removes) = open.pending.remove(0);
        if expected != id || targets.len() != adds.len() {
            self.violation("an Applied that does not answer its Update");
            return false;
        }
        for group in removes {
            self.ended.extend(open.active.remove(&group));
        }
        for added in adds {
            open.active.insert(added.group, added);
        }
        true
    }

    fn delivered(&mut self, open: &mut Open, envelope: &ServerEnvelope) {
        let of_group = || -> Option<(u64, Seen)> {
            let meta = envelope.meta.as_ref()?;
            let bytes = &meta.topic.as_ref()?.topic;
            let group = (0..GROUPS).find(|group| topic(*group) == bytes.as_ref())?;
            Some((group, seen(meta)?))
        };
        let Some((group, seen)) = of_group() else {
            self.violation("an envelope with incomplete metadata or of an unknown topic");
            return;
        };
        let Some(registration) = open.active.get_mut(&group) else {
            self.violation("an envelope of a topic that is not registered");
            return;
        };
        registration.delivered.push(seen);
        let cursor = self.cursors.entry(group).or_default();
        *cursor = seen.0.max(*cursor);
    }

    /// What the stream delivered is checked when it is known what is stored.
    fn close(&mut self, open: Open) {
        self.ended.extend(open.active.into_values());
    }

    fn violation(&self, what: &str) {
        self.ledger
            .violation(format!("subscriber {}: {what}", self.number));
    }
}

fn bidirectional(
    responses: tonic::Streaming<envelope::wire::xmtp::backend::v1::SubscribeResponse>,
) -> impl Stream<Item = Option<Frame>> + Send + 'static {
    responses.map(|response| match response.ok()?.response? {
        Response::Started(_) => Some(Frame::Started),
        Response::Applied(applied) => {
            let targets = applied.added_targets.iter();
            let targets = targets.map(|target| target.through_sequence_id).collect();
            Some(Frame::Applied(applied.id, targets))
        }
        Response::Messages(messages) => Some(Frame::Messages(messages.envelopes)),
        Response::Ping(ping) => Some(Frame::Ping(ping.nonce)),
        Response::Pong(_) => Some(Frame::Other),
    })
}

fn registration((group, after): (u64, u64)) -> (u64, Registration) {
    let registration = Registration {
        group,
        after,
        delivered: Vec::new(),
    };
    (group, registration)
}

fn query(group: u64, after: u64) -> TopicQuery {
    TopicQuery {
        topic: Some(Topic {
            topic: topic(group).into(),
        }),
        cursor: Some(Cursor { sequence_id: after }),
    }
}
