//! Health checks: the names, their one status, and how watchers hear of a shutdown (ARC-002,
//! ARC-003, ARC-098).

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use client::health::health_check_response::ServingStatus;
use client::health::health_client::HealthClient;
use client::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse,
};
use harness::{Form, Http, TestServer, Transport, WebCall, channel};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use tonic::{Code, Status, Streaming};

use crate::refusal::assert_plain;

const NAMES: [&str; 7] = [
    "",
    "xmtp.backend.v1.QueryService",
    "xmtp.backend.v1.PublishService",
    "xmtp.backend.v1.SubscriptionService",
    "xmtp.backend.v1.IdentityService",
    "xmtp.backend.v1.ConfigurationService",
    "xmtp.backend.v1.NotificationService",
];

/// Names that no service has.
const STRANGERS: [&str; 6] = [
    " ",
    "xmtp.backend.v1",
    "xmtp.backend.v1.queryservice",
    "xmtp.backend.v1.QueryService/Query",
    "xmtp.mls.api.v1.MlsApi",
    "grpc.health.v1.Health",
];

/// Nothing here takes longer unless it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

fn named(name: &str) -> HealthCheckRequest {
    HealthCheckRequest {
        service: name.to_owned(),
    }
}

async fn check(
    server: &TestServer,
    transport: Transport,
    name: &str,
) -> Result<HealthCheckResponse, Status> {
    transport
        .call_path(
            server.address(),
            "/grpc.health.v1.Health/Check",
            &named(name),
        )
        .await
}

async fn watch(server: &TestServer, name: &str) -> Streaming<HealthCheckResponse> {
    let mut health = HealthClient::new(channel(server.address()).await);
    health
        .watch(named(name))
        .await
        .expect("a stream")
        .into_inner()
}

async fn next(stream: &mut Streaming<HealthCheckResponse>) -> Result<ServingStatus, Status> {
    let message = tokio::time::timeout(PATIENCE, stream.message()).await;
    message
        .expect("in time")
        .map(|response| response.expect("a message").status())
}

/// Every name is serving as soon as the port answers; another name is not found.
#[tokio::test]
async fn every_name_is_serving_and_no_other_is_found() {
    let server = TestServer::start().await;
    for transport in Transport::ALL {
        for name in NAMES {
            let response = check(&server, transport, name).await.unwrap();
            assert_eq!(
                response.status(),
                ServingStatus::Serving,
                "{name} over {transport:?}"
            );
        }
        for name in STRANGERS {
            let status = check(&server, transport, name).await.unwrap_err();
            assert_plain(name, &status, Code::NotFound);
        }
    }
    server.stop().await;
}

/// The list has exactly the names, with the one status.
#[tokio::test]
async fn the_list_has_exactly_the_names() {
    let server = TestServer::start().await;
    for transport in Transport::ALL {
        let path = "/grpc.health.v1.Health/List";
        let list: HealthListResponse = transport
            .call_path(server.address(), path, &HealthListRequest {})
            .await
            .unwrap();
        let statuses: BTreeMap<_, _> = list
            .statuses
            .iter()
            .map(|(name, response)| (name.as_str(), response.status()))
            .collect();
        let expected: BTreeMap<_, _> = NAMES
            .into_iter()
            .map(|name| (name, ServingStatus::Serving))
            .collect();
        assert_eq!(statuses, expected, "{transport:?}");
    }
    server.stop().await;
}

/// Watchers of all names hear the status at once; at shutdown they hear that nothing is served, and
/// then their stream ends as unavailable. A watcher of an unknown name is told so and is ended too.
#[tokio::test]
async fn watchers_hear_of_the_shutdown_and_then_their_stream_ends() {
    let server = TestServer::start().await;
    let mut watched = Vec::new();
    for name in NAMES {
        let mut stream = watch(&server, name).await;
        assert_eq!(
            next(&mut stream).await.unwrap(),
            ServingStatus::Serving,
            "{name}"
        );
        watched.push((name, stream));
    }
    let mut stranger = watch(&server, "stranger").await;
    let heard = next(&mut stranger).await.unwrap();
    assert_eq!(heard, ServingStatus::ServiceUnknown);

    let stopping = tokio::spawn(server.stop());
    for (name, mut stream) in watched {
        assert_eq!(
            next(&mut stream).await.unwrap(),
            ServingStatus::NotServing,
            "{name}"
        );
        let status = next(&mut stream).await.unwrap_err();
        assert_plain(name, &status, Code::Unavailable);
        assert!(
            stream.message().await.unwrap().is_none(),
            "{name}: nothing after the end"
        );
    }
    let status = loop {
        match next(&mut stranger).await {
            Ok(heard) => assert_eq!(heard, ServingStatus::ServiceUnknown),
            Err(status) => break status,
        }
    };
    assert_plain("stranger", &status, Code::Unavailable);
    tokio::time::timeout(PATIENCE, stopping)
        .await
        .expect("in time")
        .unwrap();
}

/// Over gRPC-Web a watcher hears the same: each message as it is made, and the status in the
/// trailers frame.
#[tokio::test]
async fn watchers_over_grpc_web_hear_the_same() {
    for http in [Http::One, Http::Two] {
        let server = TestServer::start().await;
        let call = WebCall {
            address: server.address(),
            http,
            form: Form::Binary,
        };
        // A message of no bytes: the whole server.
        let request = Request::post(format!(
            "http://{}/grpc.health.v1.Health/Watch",
            call.address
        ))
        .header("host", call.address.to_string())
        .header("content-type", Form::Binary.content_type())
        .body(Full::new(Bytes::from_static(&[0; 5])))
        .unwrap();
        let mut body = call.send(request).await.into_body();
        let serving = [&[0, 0, 0, 0, 2][..], &encoded(ServingStatus::Serving)].concat();
        let mut heard = Vec::new();
        let mut read = async |until: usize| {
            while heard.len() < until {
                let frame = tokio::time::timeout(PATIENCE, body.frame())
                    .await
                    .expect("in time");
                let Some(frame) = frame else { break };
                heard.extend(frame.unwrap().into_data().expect("data"));
            }
            heard.clone()
        };
        assert_eq!(read(serving.len()).await, serving, "{http:?}");

        let stopping = tokio::spawn(server.stop());
        let all = read(usize::MAX).await;
        let rest = &all[serving.len()..];
        let stopped = [&[0, 0, 0, 0, 2][..], &encoded(ServingStatus::NotServing)].concat();
        assert_eq!(rest[..stopped.len()], stopped, "{http:?}");
        let trailers = &rest[stopped.len()..];
        assert_eq!(trailers[0], 0x80, "{http:?}");
        let text = std::str::from_utf8(&trailers[5..]).unwrap();
        assert!(text.contains("grpc-status:14\r\n"), "{http:?}: {text}");
        tokio::time::timeout(PATIENCE, stopping)
            .await
            .expect("in time")
            .unwrap();
    }
}

fn encoded(status: ServingStatus) -> Vec<u8> {
    HealthCheckResponse {
        status: status.into(),
    }
    .encode_to_vec()
}
