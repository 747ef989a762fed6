//! `SubscriptionService`: frames to messages and back.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use envelope::wire::xmtp::backend::v1::subscribe_request::{self, Request as RequestFrame};
use envelope::wire::xmtp::backend::v1::{
    CatchupTarget, Ping, Pong, SubscribeRequest, SubscribeStaticRequest, Topic, TopicQuery,
    subscribe_response, subscribe_static_response,
};
use futures_util::Stream;
use tonic::{Code, Request, Response, Status, Streaming};

use super::generated::xmtp::backend::v1::subscription_service_server::SubscriptionService;
use super::status::Statuses;
use super::wire::{
    Messages, StoredEnvelope, SubscribeFrame, SubscribeResponse, SubscribeStaticFrame,
    SubscribeStaticResponse, envelope_meta,
};
use crate::streams::{Add, ClientFrame, Delivery, End, Frame, Frames, Streams, Target, Update};

/// Serves `SubscriptionService`.
pub(super) struct SubscriptionApi {
    streams: Streams,
    statuses: Statuses,
}

impl SubscriptionApi {
    /// Opens streams here.
    #[must_use]
    pub(super) fn new(streams: Streams, statuses: Statuses) -> Self {
        Self { streams, statuses }
    }

    fn responses<M>(
        &self,
        frames: Frames,
        message: fn(Frame) -> M,
        unreadable: Unreadable,
    ) -> Responses<M> {
        Responses {
            frames,
            message,
            statuses: self.statuses.clone(),
            unreadable,
        }
    }
}

#[tonic::async_trait]
impl SubscriptionService for SubscriptionApi {
    type SubscribeStream = Responses<SubscribeResponse>;
    type SubscribeStaticStream = Responses<SubscribeStaticResponse>;

    async fn subscribe(
        &self,
        request: Request<Streaming<SubscribeRequest>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let unreadable = Unreadable::default();
        let inbound = Inbound {
            messages: request.into_inner(),
            unreadable: unreadable.clone(),
        };
        let frames = self
            .streams
            .subscribe(inbound)
            .map_err(|refusal| self.statuses.of_refused_stream(&refusal))?;
        Ok(Response::new(self.responses(
            frames,
            subscribe_message,
            unreadable,
        )))
    }

    async fn subscribe_static(
        &self,
        request: Request<SubscribeStaticRequest>,
    ) -> Result<Response<Self::SubscribeStaticStream>, Status> {
        let topics = request.into_inner().topics.into_iter().map(add).collect();
        let frames = self
            .streams
            .subscribe_static(topics)
            .await
            .map_err(|refusal| self.statuses.of_refused_stream(&refusal))?;
        Ok(Response::new(self.responses(
            frames,
            static_message,
            Unreadable::default(),
        )))
    }
}

/// What the transport said of a message it could not read. Its status ends the stream (API-134).
#[derive(Clone, Debug, Default)]
struct Unreadable(Arc<Mutex<Option<Status>>>);

impl Unreadable {
    fn note(&self, status: Status) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    }

    fn take(&self) -> Option<Status> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The frames of a client, as they come in.
struct Inbound {
    messages: Streaming<SubscribeRequest>,
    unreadable: Unreadable,
}

impl Stream for Inbound {
    type Item = ClientFrame;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<ClientFrame>> {
        let message = ready!(Pin::new(&mut self.messages).poll_next(context));
        Poll::Ready(message.map(|message| match message {
            Ok(SubscribeRequest { request }) => client_frame(request),
            Err(status) if is_about_the_message(&status) => {
                self.unreadable.note(status);
                ClientFrame::Unreadable
            }
            Err(_) => ClientFrame::Lost,
        }))
    }
}

/// Whether a status is of a message, rather than of a connection that broke: that one has a source.
fn is_about_the_message(status: &Status) -> bool {
    let is_decoding = matches!(
        status.code(),
        Code::OutOfRange | Code::Internal | Code::Unimplemented
    );
    is_decoding && std::error::Error::source(status).is_none()
}

fn client_frame(request: Option<RequestFrame>) -> ClientFrame {
    match request {
        Some(RequestFrame::Update(update)) => {
            let subscribe_request::Update { id, adds, removes } = update;
            ClientFrame::Update(Update {
                id,
                adds: adds.into_iter().map(add).collect(),
                removes: removes.into_iter().map(|topic| topic.topic).collect(),
            })
        }
        Some(RequestFrame::Ping(ping)) => ClientFrame::Ping(ping.nonce),
        Some(RequestFrame::Pong(pong)) => ClientFrame::Pong(pong.nonce),
        None => ClientFrame::Unset,
    }
}

/// An absent topic is an empty one, which is not well formed; an absent cursor is the start.
fn add(query: TopicQuery) -> Add {
    Add {
        topic: query.topic.unwrap_or_default().topic,
        after: query.cursor.unwrap_or_default().sequence_id,
    }
}

/// The messages of a stream, then its status.
pub(super) struct Responses<M> {
    frames: Frames,
    message: fn(Frame) -> M,
    statuses: Statuses,
    unreadable: Unreadable,
}

impl<M> Stream for Responses<M> {
    type Item = Result<M, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let frame = ready!(Pin::new(&mut self.frames).poll_next(context));
        let message = self.message;
        Poll::Ready(frame.map(|frame| {
            frame.map(message).map_err(|end| {
                let said = (end == End::Unreadable)
                    .then(|| self.unreadable.take())
                    .flatten();
                said.unwrap_or_else(|| self.statuses.of_ended_stream(&end))
            })
        }))
    }
}

fn subscribe_message(frame: Frame) -> SubscribeResponse {
    let response = match frame {
        Frame::Started {
            keepalive_interval_ms,
            targets: _,
        } => Some(SubscribeFrame::Started(subscribe_response::Started {
            keepalive_interval_ms,
        })),
        Frame::Applied { id, targets } => {
            Some(SubscribeFrame::Applied(subscribe_response::Applied {
                id,
                added_targets: targets.into_iter().map(target).collect(),
            }))
        }
        Frame::Messages(deliveries) => Some(SubscribeFrame::Messages(messages(&deliveries))),
        Frame::Ping(nonce) => Some(SubscribeFrame::Ping(Ping { nonce })),
        Frame::Pong(nonce) => Some(SubscribeFrame::Pong(Pong { nonce })),
        // Sessions of this kind ask with a Ping.
        Frame::Keepalive => None,
    };
    SubscribeResponse { response }
}

fn static_message(frame: Frame) -> SubscribeStaticResponse {
    let response = match frame {
        Frame::Started {
            keepalive_interval_ms,
            targets,
        } => Some(SubscribeStaticFrame::Started(
            subscribe_static_response::Started {
                keepalive_interval_ms,
                targets: targets.into_iter().map(target).collect(),
            },
        )),
        Frame::Messages(deliveries) => Some(SubscribeStaticFrame::Messages(messages(&deliveries))),
        Frame::Keepalive => Some(SubscribeStaticFrame::Keepalive(
            subscribe_static_response::Keepalive {},
        )),
        // Sessions of this kind answer nothing.
        Frame::Applied { .. } | Frame::Ping(_) | Frame::Pong(_) => None,
    };
    SubscribeStaticResponse { response }
}

fn target(target: Target) -> CatchupTarget {
    CatchupTarget {
        topic: Some(Topic {
            topic: target.topic,
        }),
        through_sequence_id: target.through.to_wire(),
    }
}

fn messages(deliveries: &[Arc<Delivery>]) -> Messages {
    let envelopes = deliveries.iter().map(|delivery| StoredEnvelope {
        meta: Some(envelope_meta(
            delivery.topic.clone(),
            delivery.hash.clone(),
            &delivery.meta,
        )),
        envelope: delivery.payload.clone(),
    });
    Messages {
        envelopes: envelopes.collect(),
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::db::{SequenceId, StoredMeta};

    /// Numbers at which an integer or a length takes one byte more.
    const EDGES: [u64; 7] = [0, 1, 127, 128, 16_383, 16_384, i64::MAX as u64];

    fn targets(number: usize, through: u64) -> Vec<Target> {
        let kinds = [17, 33];
        (0..number)
            .map(|index| Target {
                topic: vec![0x11; kinds[index % 2]].into(),
                through: SequenceId::from_wire(through).unwrap(),
            })
            .collect()
    }

    /// The length that is charged for a control frame is its encoded length, on both kinds of streams.
    #[test]
    fn a_control_frame_is_as_long_as_it_says() {
        let mut frames = vec![Frame::Keepalive];
        for edge in EDGES {
            frames.extend([Frame::Ping(edge), Frame::Pong(edge)]);
            for number in [0, 1, 2, 3, 5, 200, 800] {
                frames.push(Frame::Applied {
                    id: edge,
                    targets: targets(number, edge),
                });
                frames.push(Frame::Started {
                    keepalive_interval_ms: u32::try_from(edge).unwrap_or(u32::MAX),
                    targets: targets(number, edge),
                });
            }
        }
        frames.push(Frame::Ping(u64::MAX));
        for frame in frames {
            let bytes = frame.bytes();
            let message = match &frame {
                Frame::Applied { .. } | Frame::Ping(_) | Frame::Pong(_) => {
                    subscribe_message(frame).encode_to_vec()
                }
                Frame::Started { targets, .. } if targets.is_empty() => {
                    let of_static = static_message(frame.clone()).encode_to_vec();
                    let of_bidi = subscribe_message(frame).encode_to_vec();
                    assert_eq!(of_static, of_bidi);
                    of_bidi
                }
                Frame::Started { .. } | Frame::Keepalive | Frame::Messages(_) => {
                    static_message(frame).encode_to_vec()
                }
            };
            assert_eq!(message.len() as u64, bytes);
        }
    }

    fn delivery(payload_bytes: usize) -> Arc<Delivery> {
        Arc::new(Delivery {
            topic: vec![0x11; 33].into(),
            hash: vec![0x22; 32].into(),
            meta: StoredMeta {
                sequence_id: SequenceId::MAX,
                server_ns: i64::MAX,
                expiry_ns: Some(i64::MAX),
                is_commit_or_proposal: true,
            },
            payload: vec![0x0a; payload_bytes].into(),
        })
    }

    /// What is charged for envelopes is never less than they take with the longest metadata there can
    /// be, the frame's own header on the wire included (ARC-079).
    #[test]
    fn a_frame_of_envelopes_is_not_longer_than_it_says() {
        for payload_bytes in [0, 1, 127, 128, 16_383, 16_384, 1 << 20, (2 << 20) - 256] {
            for number in [1, 2, 64, 300] {
                if payload_bytes > 20_000 && number > 2 {
                    continue;
                }
                let frame = Frame::Messages(vec![delivery(payload_bytes); number]);
                let bytes = frame.bytes();
                let of_static = static_message(frame.clone()).encode_to_vec();
                let of_bidi = subscribe_message(frame).encode_to_vec();
                assert!(of_static.len() as u64 + 5 <= bytes);
                assert!(of_bidi.len() as u64 + 5 <= bytes);
            }
        }
    }

    /// The bytes of a Ping, as clients in other languages read them.
    #[test]
    fn a_ping_has_the_published_bytes() {
        let message = subscribe_message(Frame::Ping(0x1122_3344_5566_7788));
        assert_eq!(
            hex::encode(message.encode_to_vec()),
            "220a0888ef99abc5e88c9111"
        );
    }
}
