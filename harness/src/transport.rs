//! One way to call an RPC, over every protocol that the port serves.

use std::net::SocketAddr;

use http::HeaderMap;
use http::uri::PathAndQuery;
use prost::Message;
use tonic::Status;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::web::{Form, Http, WebCall};

/// A protocol of the gRPC port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// gRPC over HTTP/2 with prior knowledge.
    Native,
    /// gRPC-Web, binary, over HTTP/1.1.
    WebHttp1,
    /// gRPC-Web, base64 text, over HTTP/1.1.
    WebTextHttp1,
    /// gRPC-Web, binary, over HTTP/2.
    WebHttp2,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Native,
        Self::WebHttp1,
        Self::WebTextHttp1,
        Self::WebHttp2,
    ];

    /// Calls `method` (`Service/Method` of the backend's package) and reads its one answer.
    pub async fn call<Q, A>(
        self,
        address: SocketAddr,
        method: &str,
        request: &Q,
    ) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.call_path(address, &format!("/xmtp.backend.v1.{method}"), request)
            .await
    }

    /// Like [`call`](Self::call), with the whole path.
    pub async fn call_path<Q, A>(
        self,
        address: SocketAddr,
        path: &str,
        request: &Q,
    ) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.call_with(address, path, &HeaderMap::new(), request)
            .await
    }

    /// Like [`call_path`](Self::call_path), with request headers.
    pub async fn call_with<Q, A>(
        self,
        address: SocketAddr,
        path: &str,
        headers: &HeaderMap,
        request: &Q,
    ) -> Result<A, Status>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let web = |http, form| WebCall {
            address,
            http,
            form,
        };
        match self {
            Self::Native => native(channel(address).await, path, headers, request).await,
            Self::WebHttp1 => {
                web(Http::One, Form::Binary)
                    .unary(path, headers, request)
                    .await
            }
            Self::WebTextHttp1 => {
                web(Http::One, Form::Text)
                    .unary(path, headers, request)
                    .await
            }
            Self::WebHttp2 => {
                web(Http::Two, Form::Binary)
                    .unary(path, headers, request)
                    .await
            }
        }
    }
}

/// The HTTP/2 windows that real clients open: of a stream, and of a connection.
const WINDOWS_BYTES: (u32, u32) = (2 * 1024 * 1024, i32::MAX.unsigned_abs());

/// A connection for gRPC, with the windows of real clients.
pub async fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}"))
        .expect("an address makes a URI")
        .initial_stream_window_size(WINDOWS_BYTES.0)
        .initial_connection_window_size(WINDOWS_BYTES.1)
        .connect()
        .await
        .expect("the server accepts connections")
}

async fn native<Q, A>(
    channel: Channel,
    path: &str,
    headers: &HeaderMap,
    request: &Q,
) -> Result<A, Status>
where
    Q: Message + Clone + 'static,
    A: Message + Default + 'static,
{
    let mut client = tonic::client::Grpc::new(channel).max_decoding_message_size(usize::MAX);
    client.ready().await.expect("the connection is usable");
    let path = PathAndQuery::try_from(path).expect("a path");
    let codec = ProstCodec::<Q, A>::default();
    let mut request = tonic::Request::new(request.clone());
    *request.metadata_mut() = MetadataMap::from_headers(headers.clone());
    let answer = client.unary(request, path, codec).await?;
    Ok(answer.into_inner())
}
