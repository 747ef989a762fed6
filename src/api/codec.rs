//! How requests are decoded: only after they were weighed.
//!
//! The transport bounds a request's length. What its bytes grow to in memory is bounded here, before
//! anything is decoded, for every RPC: a request that would grow far beyond its length is refused
//! without being decoded (ARC-010, API-282).

use std::fmt;
use std::marker::PhantomData;

use bytes::{Buf as _, Bytes};
use envelope::weight::{self, Shape, Shaped};
use envelope::wire::xmtp::backend::v1 as wire;
use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::ProstEncoder;

use super::generated::grpc::health::v1::{HealthCheckRequest, HealthListRequest};
use super::status;

/// A request that can be refused for its weight.
pub(super) trait Request: Shaped {
    /// The status of the refusal.
    fn too_heavy() -> Status {
        status::too_heavy()
    }
}

impl Request for wire::PublishRequest {
    fn too_heavy() -> Status {
        status::publish_too_heavy()
    }
}

macro_rules! requests {
    ($($message:ty,)+) => {
        $(impl Request for $message {})+
    };
}

requests! {
    wire::QueryRequest,
    wire::QueryNewestRequest,
    wire::SubscribeRequest,
    wire::SubscribeStaticRequest,
    wire::GetInboxIdsRequest,
    wire::VerifySmartContractWalletSignaturesRequest,
    wire::GetConfigurationRequest,
    wire::RegisterRequest,
    wire::UnregisterRequest,
    wire::UpdateSubscriptionsRequest,
    HealthCheckRequest,
    HealthListRequest,
}

// Neither has a list, so their length is their weight.
impl Shaped for HealthCheckRequest {
    const SHAPE: &'static Shape = &Shape::new::<Self>(&[]);
}

impl Shaped for HealthListRequest {
    const SHAPE: &'static Shape = &Shape::new::<Self>(&[]);
}

/// Decodes requests `Q` within their bounds, and encodes answers `A`.
pub(super) struct Bounded<A, Q>(PhantomData<(A, Q)>);

impl<A, Q> Default for Bounded<A, Q> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<A, Q> fmt::Debug for Bounded<A, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bounded")
    }
}

impl<A, Q> Codec for Bounded<A, Q>
where
    A: Message + Send + 'static,
    Q: Message + Default + Request + Send + 'static,
{
    type Encode = A;
    type Decode = Q;
    type Encoder = ProstEncoder<A>;
    type Decoder = BoundedDecoder<Q>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(PhantomData)
    }
}

/// Weighs a request, then decodes it.
pub(super) struct BoundedDecoder<Q>(PhantomData<Q>);

impl<Q: Message + Default + Request> Decoder for BoundedDecoder<Q> {
    type Item = Q;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Q>, Status> {
        // Shares the memory of the buffer.
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        decode(bytes).map(Some)
    }
}

fn decode<Q: Message + Default + Request>(bytes: Bytes) -> Result<Q, Status> {
    weight::check::<Q>(&bytes).map_err(|_| Q::too_heavy())?;
    Q::decode(bytes).map_err(|error| status::undecodable(&error))
}
