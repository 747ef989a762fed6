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
