//! What authentication writes: nothing of a caller, a key or an address, at any level and in any
//! format; and of a rejection only two fields (ARC-101).

use harness::{Answer, KeyServer, Signer, TestDatabase, Transport, eventually};
use http::HeaderMap;
use serde_json::{Value, json};
use tonic::Status;

use crate::auth::{QUERY, authorization};
use crate::process::{Process, document, free_address};
use envelope::wire::xmtp::backend::v1::{QueryRequest, QueryResponse};

/// A part of every secret here, in upper and lower case alike.
const CANARY: &str = "canary5d1e";

/// An API key.
const KEY: &str = "api-key-canary5d1e-0123456789abcdef";

/// A process with both mechanisms and a key server full of secrets.
struct Deployment {
    process: Process,
    source: KeyServer,
    database: TestDatabase,
    address: std::net::SocketAddr,
    metrics: std::net::SocketAddr,
}

/// A key set with good keys, an unusable one whose id is long, and members that nobody reads.
fn document_of_keys() -> Value {
    let mut good = Signer::RsaA.jwk("rs1", "RS256");
    good["d"] = format!("private-{CANARY}").into();
    let long = format!("line one\nline two {}{CANARY}", "k".repeat(100));
    json!({
        "keys": [good, {"kid": long, "alg": "HS256", "k": CANARY}, {"kid": 5}],
        "comment": CANARY,
    })
}

impl Deployment {
    async fn start(format: &str) -> Self {
        let body = document_of_keys().to_string();
        let source = KeyServer::start(Answer::document(body)).await;
        let database = TestDatabase::create_bare().await;
        let metrics = free_address();
        let url = source.url(&format!("/{CANARY}/keys?token={CANARY}"));
        let lines = format!(
            "server.log_level = \"trace\"\nserver.log_format = \"{format}\"\n\
             [auth]\nenabled = true\napi_keys.bot = \"{KEY}\"\njwks_url = \"env:JWKS\"\n\
             audiences = [\"xmtp\"]\njwks_refresh_seconds = 1"
        );
        let document = document(&database.url(), &lines).replace(
            "telemetry.metrics_listen = \"127.0.0.1:0\"",
            &format!("telemetry.metrics_listen = \"{metrics}\""),
        );
        let variables = [("JWKS", url.as_str())];
        let process = Process::trusting(source.authority_pem(), &document, &variables);
        let serving = || address_in(&process.output());
        eventually("the process serves", async || serving().is_some()).await;
        let address = serving().unwrap();
        Self {
            process,
            source,
            database,
            address,
            metrics,
        }
    }

    async fn query(
        &self,
        transport: Transport,
        headers: &HeaderMap,
    ) -> Result<QueryResponse, Status> {
        transport
            .call_with(self.address, QUERY, headers, &QueryRequest::default())
            .await
    }

    async fn exposition(&self) -> String {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let mut stream = tokio::net::TcpStream::connect(self.metrics).await.unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }
}

/// The address in the line that says that it serves, in either format.
fn address_in(output: &str) -> Option<std::net::SocketAddr> {
    let line = output.lines().find(|line| {
        line.contains("serving address=") || line.contains("\"message\":\"serving\"")
    })?;
    let (_, rest) = line.split_once("address")?;
    let rest = rest.trim_start_matches(['=', '"', ':']);
    rest.split(['"', ' ', ',']).next()?.parse().ok()
}

/// Credentials with a secret in every place where one can be.
fn credentials() -> Vec<String> {
    let claims = |changes: Value| {
        let mut claims = json!({
            "exp": 4_000_000_000_u64,
            "aud": "xmtp",
            "sub": format!("sub-{CANARY}"),
            "email": format!("{CANARY}@example.org"),
        });
        let Value::Object(changes) = changes else {
            panic!("changes are members");
        };
        claims.as_object_mut().unwrap().extend(changes);
        claims
    };
    let header = json!({"alg": "RS256", "kid": "rs1", "typ": CANARY});
    let token =
        |changes: Value| format!("Bearer {}", Signer::RsaA.token(&header, &claims(changes)));
    let unknown = json!({"alg": "RS256", "kid": CANARY});
    vec![
        CANARY.to_owned(),
        format!("Basic {CANARY}"),
        format!("Bearer {CANARY}"),
        format!("Bearer {KEY}"),
        format!("Bearer {KEY}x"),
        format!("Bearer {CANARY}.{CANARY}.{CANARY}"),
        format!(
            "Bearer {}",
            Signer::RsaA.token(&unknown, &claims(json!({})))
        ),
        token(json!({})),
        token(json!({"exp": 1})),
        token(json!({"nbf": 4_000_000_000_u64})),
        token(json!({"aud": CANARY})),
        token(json!({"iss": 5})),
    ]
}

/// Goal: no secret reaches any output. Method: plant canaries in headers, tokens, claims, an API key,
/// the URL and the document of the key set; make every fetch fail in the end; log everything; then
/// search the log in both formats, the metrics and the statuses, for the secrets as they are, for
/// whole tokens and for their parts.
#[tokio::test]
async fn nothing_secret_is_written() {
    for format in ["text", "json"] {
        let deployment = Deployment::start(format).await;
        let mut said = String::new();
        for credential in credentials() {
            for transport in Transport::ALL {
                let answer = deployment
                    .query(transport, &authorization(Some(&credential)))
                    .await;
                said.push_str(&format!("{answer:?}\n"));
            }
        }
        for broken in [CANARY.to_owned(), format!("{{\"keys\":[\"{CANARY}\"]}}")] {
            deployment.source.answer(Answer::document(broken));
            let requests = deployment.source.requests();
            eventually("it is fetched", async || {
                deployment.source.requests() > requests + 1
            })
            .await;
        }
        said.push_str(&deployment.exposition().await);
        deployment.process.signal("TERM");
        let Deployment {
            process,
            database,
            source,
            ..
        } = deployment;
        let ended = process.end().await;
        ended.check(0, "shutting down");
        said.push_str(ended.output());
        database.drop().await;

        let mut secrets = vec![
            CANARY.to_owned(),
            KEY.to_owned(),
            source.url(""),
            "localhost".to_owned(),
        ];
        for credential in credentials() {
            let parts = credential.split([' ', '.']).filter(|part| part.len() > 8);
            secrets.extend(parts.map(ToOwned::to_owned));
        }
        let lower = said.to_lowercase();
        for secret in secrets {
            assert!(
                !lower.contains(&secret.to_lowercase()),
                "{secret} in {format}:\n{said}"
            );
        }
        assert!(said.contains("cause"), "the failures were logged:\n{said}");
    }
}

/// Goal: a skipped key is named by at most 32 bytes of its id, on one line, once. Method: read the
/// log of the deployment's start.
#[tokio::test]
async fn a_skipped_key_is_named_briefly() {
    let deployment = Deployment::start("json").await;
    let output = deployment.process.output();
    let skipped: Vec<Value> = output
        .lines()
        .take_while(|line| !line.contains("key set loaded"))
        .filter(|line| line.contains("skipped a key"))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let ids: Vec<_> = skipped
        .iter()
        .map(|line| line["kid"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["line one\\nline two kkkkkkkkkkkkk", ""]);
    for line in &skipped {
        assert_eq!(line["level"], "WARN");
        let names: Vec<_> = line
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(names, ["kid", "level", "message", "target", "timestamp"]);
    }
    deployment.process.signal("TERM");
    deployment.process.end().await.check(0, "");
    deployment.database.drop().await;
}

/// Checks the line of a request that brought no credential.
fn assert_rejection(format: &str, line: &str, id: &str) {
    if format == "text" {
        let (start, fields) = line.split_once("request rejected ").unwrap();
        assert_eq!(fields, format!("request_id={id} reason=\"missing\""));
        assert!(
            start.contains("DEBUG") && !start.contains("grpc_request"),
            "{line}"
        );
        return;
    }
    let json: Value = serde_json::from_str(line).unwrap();
    let names: Vec<_> = json
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = [
        "level",
        "message",
        "reason",
        "request_id",
        "target",
        "timestamp",
    ];
    assert_eq!(names, expected, "{line}");
    assert_eq!(json["level"], "DEBUG");
    assert_eq!(json["request_id"], id);
    assert_eq!(json["reason"], "missing");
}

/// Goal: a rejection is one line at DEBUG with the generated request id and the reason, and nothing
/// of its span; a key is named in the span, a token is not. Method: a refused request that brings an
/// id of its own, and one with each kind of credential, in both formats.
#[tokio::test]
async fn a_rejection_is_logged_with_its_id_and_reason_alone() {
    for format in ["text", "json"] {
        let deployment = Deployment::start(format).await;
        let mut headers = HeaderMap::new();
        headers.insert("x-request-id", CANARY.parse().unwrap());
        let status = deployment
            .query(Transport::Native, &headers)
            .await
            .unwrap_err();
        let id = status
            .metadata()
            .get("x-request-id")
            .unwrap()
            .to_str()
            .unwrap();
        assert!(uuid::Uuid::parse_str(id).is_ok(), "{id}");
        for credential in credentials() {
            let headers = authorization(Some(&credential));
            let _ = deployment.query(Transport::Native, &headers).await;
        }
        deployment.process.signal("TERM");
        let ended = deployment.process.end().await;
        let lines = |text: &str| -> Vec<&str> {
            ended
                .output()
                .lines()
                .filter(|line| line.contains(text))
                .collect()
        };
        let rejections = lines("request rejected");
        // All but the API key and one token.
        assert_eq!(
            rejections.len(),
            1 + credentials().len() - 2,
            "{}",
            ended.output()
        );
        assert_rejection(format, rejections[0], id);
        let named = lines("auth.principal");
        assert!(
            !named.is_empty() && named.iter().all(|line| line.contains("bot")),
            "{named:#?}"
        );
        let completed = lines("request completed");
        let named = completed
            .iter()
            .filter(|line| line.contains("auth.principal"));
        assert_eq!(named.count(), 1, "{completed:#?}");
        deployment.database.drop().await;
    }
}
