//! The port as HTTP sees it: paths, content types, compression, sizes and settings (API-132,
//! API-152, API-282, ARC-002).

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use bytes::Bytes;
use envelope::canonical;
use envelope::fixtures::welcome;
use envelope::wire::xmtp::backend::v1::{
    ClientEnvelope, PublishError, PublishRequest, PublishResponse, QueryResponse, publish_error,
};
use harness::{Form, Http, RawMessage, TestServer, Transport, WebCall};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;
use tonic_types::pb;

use crate::reading::{after, has_more, page_of, query, topic_bytes};
use crate::refusal::{assert_plain, stored};

const QUERY: &str = "/xmtp.backend.v1.QueryService/Query";
const PUBLISH: &str = "/xmtp.backend.v1.PublishService/Publish";

/// Every unary method of the port, by whole path.
const UNARY: [&str; 8] = [
    QUERY,
    "/xmtp.backend.v1.QueryService/QueryNewest",
    PUBLISH,
    "/xmtp.backend.v1.IdentityService/GetInboxIds",
    "/xmtp.backend.v1.IdentityService/VerifySmartContractWalletSignatures",
    "/xmtp.backend.v1.ConfigurationService/GetConfiguration",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/List",
];

/// A whole answer: headers and trailers, wherever the status travels, and the body.
struct Answer {
    status: http::StatusCode,
    headers: HeaderMap,
    trailers: HeaderMap,
    body: Bytes,
}

impl Answer {
    /// The gRPC code, from headers or trailers.
    fn code(&self) -> Option<Code> {
        let of = |map: &HeaderMap| {
            let code = map.get("grpc-status")?;
            Some(Code::from_bytes(code.as_bytes()))
        };
        of(&self.headers).or_else(|| of(&self.trailers))
    }
}

/// Sends one request of any method, headers and body.
async fn send(
    server: &TestServer,
    http: Http,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Answer {
    let address = server.address();
    let mut request = Request::builder()
        .method(method)
        .uri(format!("http://{address}{path}"))
        .header("host", address.to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body.into())).unwrap();
    let call = WebCall {
        address,
        http,
        form: Form::Binary,
    };
    let (parts, body) = call.send(request).await.into_parts();
    let body = body.collect().await.unwrap();
    Answer {
        status: parts.status,
        headers: parts.headers,
        trailers: body.trailers().cloned().unwrap_or_default(),
        body: body.to_bytes(),
    }
}

/// A gRPC frame of a message.
fn frame(flag: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[flag][..], &length, message].concat()
}

/// What nobody serves is not implemented, over every protocol: unknown services and methods, the
/// retired `Get`, another case, and the services of older deployments (API-152, ARC-067).
#[tokio::test]
async fn unknown_paths_are_not_implemented() {
    let server = TestServer::start().await;
    let unknown = [
        "/",
        "/healthz",
        "/metrics",
        "/xmtp.backend.v1.QueryService",
        "/xmtp.backend.v1.QueryService/",
        "/xmtp.backend.v1.QueryService/Get",
        "/xmtp.backend.v1.QueryService/query",
        "/xmtp.backend.v1.QueryService/Query/",
        "/xmtp.backend.v1.QueryService/Publish",
        "/xmtp.backend.v1.Unknown/Query",
        "/xmtp.backend.v2.QueryService/Query",
        "/grpc.health.v1.Health/Unknown",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/xmtp.mls.api.v1.MlsApi/SendGroupMessages",
        "/xmtp.identity.api.v1.IdentityApi/PublishIdentityUpdate",
        "/xmtp.xmtpv4.message_api.ReplicationApi/QueryEnvelopes",
        "/xmtp.xmtpv4.payer_api.PayerApi/PublishClientEnvelopes",
        "/xmtp.message_api.v1.MessageApi/Publish",
    ];
    for path in unknown {
        for transport in Transport::ALL {
            let answer: Result<RawMessage, _> = transport
                .call_path(server.address(), path, &RawMessage::default())
                .await;
            let status = answer.unwrap_err();
            assert_eq!(
                status.code(),
                Code::Unimplemented,
                "{path} over {transport:?}"
            );
            assert!(status.details().is_empty(), "{path} over {transport:?}");
        }
    }
    server.stop().await;
}

/// Services that the port announces but does not serve yet are like unknown ones (API-152). Whoever
/// serves one of them removes it here.
#[tokio::test]
async fn services_that_are_not_built_are_not_implemented() {
    let server = TestServer::start().await;
    for method in [
        "NotificationService/Register",
        "NotificationService/Unregister",
        "NotificationService/UpdateSubscriptions",
    ] {
        for transport in Transport::ALL {
            let answer: Result<RawMessage, _> = transport
                .call(server.address(), method, &RawMessage::default())
                .await;
            let status = answer.unwrap_err();
            assert_eq!(
                status.code(),
                Code::Unimplemented,
                "{method} over {transport:?}"
            );
        }
    }
    server.stop().await;
}

/// A request that names a compression is refused with what is accepted, and not run; one that names
/// `identity` is run (API-282).
#[tokio::test]
async fn compression_is_refused_and_identity_accepted() {
    let server = TestServer::start().await;
    let request = PublishRequest {
        envelopes: vec![welcome::v1(&[1; 32], b"w")],
    };
    let body = frame(0, &request.encode_to_vec());
    let native = (Http::Two, "application/grpc");
    let forms = [
        native,
        (Http::One, Form::Binary.content_type()),
        (Http::Two, Form::Binary.content_type()),
    ];
    for encoding in ["gzip", "deflate", "zstd", "unknown"] {
        for (http, content_type) in forms {
            let headers = [("content-type", content_type), ("grpc-encoding", encoding)];
            let answer = send(&server, http, Method::POST, PUBLISH, &headers, body.clone()).await;
            let claim = format!("{encoding} over {content_type}, {http:?}");
            assert_eq!(answer.status, 200, "{claim}");
            assert_eq!(answer.code(), Some(Code::Unimplemented), "{claim}");
            assert_eq!(
                answer.headers["grpc-accept-encoding"], "identity",
                "{claim}"
            );
        }
    }
    assert_eq!(stored(&server).await.envelopes, 0);

    let headers = [
        ("content-type", native.1),
        ("grpc-encoding", "identity"),
        ("grpc-accept-encoding", "gzip, identity"),
    ];
    let answer = send(&server, native.0, Method::POST, PUBLISH, &headers, body).await;
    assert_eq!(answer.code(), Some(Code::Ok));
    assert_eq!(
        answer.body[0], 0,
        "an answer is not compressed, whatever the client takes"
    );
    assert_eq!(answer.headers.get("grpc-encoding"), None);
    assert_eq!(stored(&server).await.envelopes, 1);
    server.stop().await;
}

/// A frame that says it is compressed although no compression was named, a unary call without its
/// message, and one that is cut off are failures of the transport, and nothing is run.
#[tokio::test]
async fn broken_frames_are_refused() {
    let server = TestServer::start().await;
    let request = PublishRequest {
        envelopes: vec![welcome::v1(&[1; 32], b"w")],
    };
    let message = request.encode_to_vec();
    let mut short = frame(0, &message);
    short.pop();
    let broken = [
        ("compressed flag", frame(1, &message)),
        ("no message", Vec::new()),
        ("cut off", short),
        ("half a header", vec![0, 0, 0]),
    ];
    for (claim, body) in broken {
        let headers = [("content-type", "application/grpc")];
        let answer = send(&server, Http::Two, Method::POST, PUBLISH, &headers, body).await;
        assert_eq!(answer.code(), Some(Code::Internal), "{claim}");
        assert_eq!(
            answer.headers.get("grpc-status-details-bin"),
            None,
            "{claim}"
        );
    }
    assert_eq!(stored(&server).await.envelopes, 0);
    server.stop().await;
}

/// What is no gRPC and no gRPC-Web gets plain HTTP refusals: 405 for gRPC-Web that is not a POST,
/// 400 for anything else over HTTP/1.1.
#[tokio::test]
async fn other_http_is_refused_as_http() {
    let server = TestServer::start().await;
    let web = Form::Binary.content_type();
    let text = Form::Text.content_type();
    for http in [Http::One, Http::Two] {
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            for content_type in [
                web,
                text,
                "application/grpc-web",
                "application/grpc-web-text",
            ] {
                let headers = [("content-type", content_type)];
                let answer = send(&server, http, method.clone(), QUERY, &headers, vec![]).await;
                assert_eq!(answer.status, 405, "{method} {content_type} over {http:?}");
            }
        }
    }
    for (method, headers) in [
        (Method::GET, vec![]),
        (Method::POST, vec![]),
        (Method::POST, vec![("content-type", "application/json")]),
        (Method::POST, vec![("content-type", "application/grpc")]),
        (
            Method::POST,
            vec![("content-type", "application/grpc+proto")],
        ),
    ] {
        for path in [QUERY, "/", "/healthz"] {
            let body = frame(0, &[]);
            let answer = send(&server, Http::One, method.clone(), path, &headers, body).await;
            assert_eq!(answer.status, 400, "{method} {path} {headers:?}");
        }
    }
    server.stop().await;
}

/// The four media types of gRPC-Web are all served, with the media type of the request.
#[tokio::test]
async fn every_media_type_of_grpc_web_is_served() {
    let server = TestServer::start().await;
    let body = frame(0, &[]);
    for (content_type, is_text) in [
        ("application/grpc-web", false),
        ("application/grpc-web+proto", false),
        ("application/grpc-web-text", true),
        ("application/grpc-web-text+proto", true),
    ] {
        for http in [Http::One, Http::Two] {
            let headers = [("content-type", content_type), ("accept", content_type)];
            let sent = if is_text {
                STANDARD.encode(&body).into_bytes()
            } else {
                body.clone()
            };
            let answer = send(&server, http, Method::POST, QUERY, &headers, sent).await;
            assert_eq!(answer.status, 200, "{content_type} over {http:?}");
            let answered = answer.headers["content-type"].to_str().unwrap();
            assert_eq!(
                answered.contains("-text"),
                is_text,
                "{content_type} over {http:?}"
            );
            let first = if is_text {
                STANDARD.decode(&answer.body[..8]).unwrap()
            } else {
                answer.body.to_vec()
            };
            // A continuation that says no, then the trailers.
            assert_eq!(first[..5], [0, 0, 0, 0, 2], "{content_type} over {http:?}");
        }
    }
    server.stop().await;
}

/// The detail of a refused publish is unpadded base64 in the header that clients read, the same for
/// gRPC and gRPC-Web; an index of 0 is in its bytes (API-150).
#[tokio::test]
async fn the_detail_of_a_refusal_is_in_the_header_that_clients_read() {
    let server = TestServer::start().await;
    let body = frame(0, &[0x0a, 0x00]);
    for (http, content_type) in [
        (Http::Two, "application/grpc"),
        (Http::Two, Form::Binary.content_type()),
        (Http::One, Form::Binary.content_type()),
    ] {
        let headers = [("content-type", content_type)];
        let answer = send(&server, http, Method::POST, PUBLISH, &headers, body.clone()).await;
        assert_eq!(answer.code(), Some(Code::InvalidArgument), "{content_type}");
        let header = answer.headers["grpc-status-details-bin"].as_bytes();
        let status = STANDARD_NO_PAD.decode(header).expect("unpadded base64");
        let status = pb::Status::decode(&status[..]).unwrap();
        let detail = &status.details[0].value;
        assert_eq!(detail[..4], [0x08, 0x00, 0x10, 0x01], "{content_type}");
        let detail = PublishError::decode(&detail[..]).unwrap();
        assert_eq!(detail.index, Some(0), "{content_type}");
        assert_eq!(detail.reason(), publish_error::Reason::MalformedPayload);
    }
    server.stop().await;
}

/// Every method takes a request of the configured length and refuses one byte more, over every
/// protocol, without a detail (API-130, API-282).
#[tokio::test]
async fn every_request_is_bounded_on_the_wire() {
    const LIMIT: usize = 1_000;
    let server = TestServer::builder()
        .table(
            "limits",
            "max_request_bytes = 1000\nmax_envelope_bytes = 1000",
        )
        .start()
        .await;
    for path in UNARY {
        for transport in Transport::ALL {
            let claim = format!("{path} over {transport:?}");
            let call = async |bytes| {
                let request = RawMessage::padding(bytes);
                let answer: Result<RawMessage, _> =
                    transport.call_path(server.address(), path, &request).await;
                answer
            };
            call(LIMIT).await.expect(&claim);
            let status = call(LIMIT + 1).await.expect_err(&claim);
            assert_plain(&claim, &status, Code::OutOfRange);
        }
    }
    server.stop().await;
}

/// An envelope of exactly this many canonical bytes.
fn envelope_of(bytes: usize, fill: u8) -> ClientEnvelope {
    let sized = |data| welcome::v1(&[fill; 32], &vec![fill; data]);
    let mut data = bytes - canonical::encoded_len(&sized(0));
    while canonical::encoded_len(&sized(data)) > bytes {
        data -= 1;
    }
    sized(data)
}

/// With default limits a request of 25 MiB to the byte is carried and one byte more is not. Read
/// back, its envelopes and their metadata are more than one answer may have: that fails, and a
/// smaller page does not (API-031, API-134, API-282).
#[tokio::test]
async fn a_request_of_25_mib_is_carried() {
    const MIB: usize = 1024 * 1024;
    let server = TestServer::start().await;
    // 25 envelopes, and four bytes of framing each.
    let envelopes = (1..=25).map(|fill| envelope_of(MIB - 4, fill)).collect();
    let request = PublishRequest { envelopes };
    assert_eq!(request.encoded_len(), 25 * MIB);

    for transport in Transport::ALL {
        let published: PublishResponse = transport
            .call_path(server.address(), PUBLISH, &request)
            .await
            .expect("25 MiB");
        assert_eq!(published.envelope_metas.len(), 25, "{transport:?}");
    }
    assert_eq!(stored(&server).await.envelopes, 25);

    let past: RawMessage = [request.encode_to_vec(), vec![0]].concat().into();
    let answer: Result<RawMessage, _> = Transport::Native
        .call_path(server.address(), PUBLISH, &past)
        .await;
    assert_plain("one past 25 MiB", &answer.unwrap_err(), Code::OutOfRange);

    let queries: Vec<_> = (1..=25)
        .map(|fill| after(&topic_bytes(1, &[fill; 32]), 0))
        .collect();
    let whole = query(&server, &page_of(queries.clone(), 0))
        .await
        .unwrap_err();
    assert!(
        matches!(whole.code(), Code::OutOfRange | Code::ResourceExhausted),
        "{whole}"
    );
    for transport in Transport::ALL {
        let page: QueryResponse = transport
            .call_path(server.address(), QUERY, &page_of(queries.clone(), 24))
            .await
            .expect("24 MiB and some");
        assert_eq!(page.envelopes.len(), 24, "{transport:?}");
        assert!(has_more(&page), "{transport:?}");
    }
    server.stop().await;
}

/// The SETTINGS frame that opens an HTTP/2 connection advertises the configured number of
/// concurrent streams. Read from the socket, so that no library can make it up (API-132).
#[tokio::test]
async fn the_number_of_streams_is_advertised() {
    for (limits, expected) in [("", 100), ("max_http2_streams = 7", 7)] {
        let server = TestServer::builder().table("limits", limits).start().await;
        let mut socket = TcpStream::connect(server.address()).await.unwrap();
        // The client's preface ends in its own SETTINGS frame, which is empty.
        let preface = [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(),
            &[0, 0, 0, 4, 0, 0, 0, 0, 0],
        ];
        socket.write_all(&preface.concat()).await.unwrap();

        let mut header = [0; 9];
        socket.read_exact(&mut header).await.unwrap();
        assert_eq!(
            header[3..5],
            [4, 0],
            "the first frame is SETTINGS, and no acknowledgement"
        );
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; length as usize];
        socket.read_exact(&mut payload).await.unwrap();
        let advertised = payload.chunks_exact(6).find_map(|setting| {
            let (id, value) = setting.split_at(2);
            (id == [0, 3]).then(|| u32::from_be_bytes(value.try_into().unwrap()))
        });
        assert_eq!(advertised, Some(expected));
        drop(socket);
        server.stop().await;
    }
}
