//! The bytes of frames, as clients in other languages read them (API-100 to API-105, API-108).

use bytes::{Buf as _, Bytes, BytesMut};
use harness::{
    Form, Http, RawMessage, StaticSubscription, TestDatabase, TestServer, Transport, WebCall,
};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;

use crate::given::ids;
use crate::reading::after;
use crate::subscribers::RawSubscription;
use envelope::fixtures::group_message;
use harness::TestServerBuilder;

/// A group topic, `00` and the bytes 0 to 15, as hexadecimal.
const GROUP: &str = "00000102030405060708090a0b0c0d0e0f";

/// A welcome topic, `01` and 32 bytes of 0x11.
fn welcome() -> String {
    format!("01{}", "11".repeat(32))
}

fn bytes(hex: &str) -> Vec<u8> {
    hex::decode(hex).unwrap()
}

/// A server whose next envelope gets the id 42.
async fn builder() -> TestServerBuilder {
    let database = TestDatabase::create().await;
    let mut connection = database.connection().await;
    sqlx::raw_sql("SELECT setval('envelope_sequence', 41)")
        .execute(&mut connection)
        .await
        .unwrap();
    TestServer::builder().database(database)
}

async fn publish(server: &TestServer) -> Vec<u64> {
    let group: Vec<u8> = (0..16).collect();
    let message = group_message::application(&group);
    ids(server.publish(vec![message]).await)
}

/// The frames of a bidirectional stream, in both directions, over native gRPC.
#[tokio::test]
async fn native_frames_have_the_published_bytes() {
    let server = builder().await.start().await;
    assert_eq!(publish(&server).await, [42]);
    let mut stream = RawSubscription::open(server.address()).await;
    assert_eq!(stream.next().await.unwrap()[..], bytes("0a0408b0ea01"));

    // Removes a topic that is not there.
    stream.send(bytes(&format!(
        "0a42080712190a130a11{GROUP}1202080a1a230a21{}",
        welcome()
    )));
    assert_eq!(
        stream.next().await.unwrap()[..],
        bytes(&format!("121b080712170a130a11{GROUP}102a"))
    );
    // History above 10: one envelope, with its metadata first.
    let messages = stream.next().await.unwrap();
    assert_eq!(messages[0], 0x1a);

    // Both topics new, the first with its head and the second without one.
    let mut stream = RawSubscription::open(server.address()).await;
    stream.next().await.unwrap();
    stream.send(bytes(&format!(
        "0a44080712190a130a11{GROUP}1202082a12250a230a21{}",
        welcome()
    )));
    assert_eq!(
        stream.next().await.unwrap()[..],
        bytes(&format!(
            "1242080712170a130a11{GROUP}102a12250a230a21{}",
            welcome()
        ))
    );
    // A Ping of the client and the server's Pong; nonce 0 is not written.
    stream.send(bytes("120a0888ef99abc5e88c9111"));
    assert_eq!(
        stream.next().await.unwrap()[..],
        bytes("2a0a0888ef99abc5e88c9111")
    );
    stream.send(bytes("1200"));
    assert_eq!(stream.next().await.unwrap()[..], bytes("2a00"));
    server.stop().await;
}

/// A Ping of the server, and that a Pong with its nonce is what it waits for: the next one comes, with
/// another nonce, long after the first one's deadline has passed.
#[tokio::test]
async fn a_ping_of_the_server_has_the_published_bytes() {
    let server = TestServer::builder()
        .table(
            "streams",
            "keepalive_interval_ms = 50\nmax_pong_wait_ms = 30000",
        )
        .start()
        .await;
    let mut stream = RawSubscription::open(server.address()).await;
    assert_eq!(stream.next().await.unwrap()[..], bytes("0a020832"));
    let mut nonces = Vec::new();
    for _ in 0..3 {
        let ping = stream.next().await.unwrap();
        assert_eq!(ping[0], 0x22, "{ping:?}");
        assert_eq!(usize::from(ping[1]), ping.len() - 2);
        assert_eq!(ping[2], 0x08);
        let mut pong = ping.to_vec();
        pong[0] = 0x1a;
        stream.send(pong);
        nonces.push(ping);
    }
    nonces.sort();
    nonces.dedup();
    assert_eq!(nonces.len(), 3, "each has a nonce of its own");
    server.stop().await;
}

/// A body of gRPC-Web, frame by frame.
struct Body {
    body: Incoming,
    buffer: BytesMut,
}

impl Body {
    async fn frame(&mut self) -> (u8, Bytes) {
        loop {
            if let Some(mut head) = self.buffer.get(..5) {
                let flag = head.get_u8();
                let length = head.get_u32() as usize;
                if self.buffer.len() >= 5 + length {
                    self.buffer.advance(5);
                    return (flag, self.buffer.split_to(length).freeze());
                }
            }
            let frame = self.body.frame().await.expect("more").expect("no failure");
            if let Ok(data) = frame.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }
}

async fn open_static(server: &TestServer, http: Http) -> Body {
    let message = bytes(&format!("0a150a130a11{GROUP}0a250a230a21{}", welcome()));
    let mut body = vec![0];
    body.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    body.extend_from_slice(&message);
    let address = server.address();
    let path = "xmtp.backend.v1.SubscriptionService/SubscribeStatic";
    let request = Request::post(format!("http://{address}/{path}"))
        .header("host", address.to_string())
        .header("content-type", "application/grpc-web+proto")
        .body(Full::new(body.into()))
        .unwrap();
    let call = WebCall {
        address,
        http,
        form: Form::Binary,
    };
    let response = call.send(request).await;
    assert_eq!(response.status(), 200);
    assert_eq!(
        response.headers()["content-type"],
        "application/grpc-web+proto"
    );
    Body {
        body: response.into_body(),
        buffer: BytesMut::new(),
    }
}

/// A static stream over gRPC-Web: its first frame and its trailers, to the byte.
#[tokio::test]
async fn static_frames_over_grpc_web_have_the_published_bytes() {
    let server = builder().await.start().await;
    assert_eq!(publish(&server).await, [42]);
    let mut streams = Vec::new();
    for http in [Http::One, Http::Two] {
        let mut stream = open_static(&server, http).await;
        let started = format!(
            "0a4408b0ea0112170a130a11{GROUP}102a12250a230a21{}",
            welcome()
        );
        let started = bytes(&started);
        assert_eq!(started.len(), 70);
        assert_eq!(stream.frame().await, (0, started.into()), "{http:?}");
        let (flag, messages) = stream.frame().await;
        assert_eq!((flag, messages[0]), (0, 0x12), "{http:?}");
        streams.push(stream);
    }
    let stopping = tokio::spawn(server.stop());
    for mut stream in streams {
        let (flag, trailers) = stream.frame().await;
        assert_eq!(flag, 0x80);
        let trailers = String::from_utf8(trailers.to_vec()).unwrap();
        assert!(
            trailers.lines().any(|line| line == "grpc-status:14"),
            "{trailers}"
        );
        assert!(trailers.contains("grpc-message:"), "{trailers}");
    }
    stopping.await.unwrap();
}

/// The sign of life of a static stream, over native gRPC and gRPC-Web; it comes again and again and
/// wants no answer (ARC-084).
#[tokio::test]
async fn the_keepalive_of_a_static_stream_has_the_published_bytes() {
    let server = builder()
        .await
        .table(
            "streams",
            "keepalive_interval_ms = 50\nmax_pong_wait_ms = 60",
        )
        .start()
        .await;
    for http in [Http::One, Http::Two] {
        let mut stream = open_static(&server, http).await;
        let (_, started) = stream.frame().await;
        assert_eq!(started[..4], bytes("0a400832")[..]);
        for _ in 0..4 {
            assert_eq!(stream.frame().await, (0, Bytes::from_static(&[0x1a, 0])));
        }
    }
    let topics = vec![after(&bytes(GROUP), 0)];
    let mut stream = StaticSubscription::open(Transport::Native, server.address(), topics)
        .await
        .unwrap();
    stream.next().await.unwrap();
    for _ in 0..4 {
        let frame = stream.next().await.unwrap();
        let mut encoded = Vec::new();
        frame.encode(&mut encoded);
        assert_eq!(encoded, [0x1a, 0]);
    }
    server.stop().await;
}

/// A stored envelope comes as the bytes that were stored, also where this server would write others:
/// frames carry payloads as they are (API-025).
#[tokio::test]
async fn stored_bytes_are_delivered_as_they_are() {
    let server = builder().await.start().await;
    let group: Vec<u8> = (0..16).collect();
    let sent = group_message::application(&group);
    let canonical = envelope::canonical::encode(&sent);
    let request = RawMessage::from(prost::Message::encode_to_vec(
        &envelope::wire::xmtp::backend::v1::PublishRequest {
            envelopes: vec![sent],
        },
    ));
    let _: RawMessage = server
        .call("PublishService/Publish", &request)
        .await
        .unwrap();
    let mut stream = RawSubscription::open(server.address()).await;
    stream.next().await.unwrap();
    stream.send(bytes(&format!("0a17080112130a110a0f{}", &GROUP[..30])));
    assert!(stream.next().await.is_err(), "15 bytes are no group");
    let mut stream = RawSubscription::open(server.address()).await;
    stream.next().await.unwrap();
    stream.send(bytes(&format!("0a19080112150a130a11{GROUP}")));
    stream.next().await.unwrap();
    let messages = stream.next().await.unwrap();
    assert!(
        messages
            .windows(canonical.len())
            .any(|part| part == &canonical[..]),
        "the stored bytes are in the frame"
    );
    server.stop().await;
}
