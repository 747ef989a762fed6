//! Publishing over the real service (API-030 to API-052).

use envelope::wire::xmtp::backend::v1::{
    ClientEnvelope, Cursor, PublishRequest, PublishResponse, QueryRequest, QueryResponse, Topic,
    TopicQuery, WelcomeMessage, client_envelope::Payload, welcome_message,
};

use harness::{TestServer, Transport};

fn welcome(fill: u8) -> ClientEnvelope {
    ClientEnvelope {
        payload: Some(Payload::WelcomeMessage(WelcomeMessage {
            version: Some(welcome_message::Version::V1(welcome_message::V1 {
                installation_key: vec![fill; 32].into(),
                data: vec![0x10, 0x11].into(),
                hpke_public_key: vec![0x12, 0x13].into(),
                wrapper_algorithm: 1,
                welcome_metadata: vec![0x14, 0x15].into(),
            })),
        })),
    }
}

/// An envelope can be published and read back over every protocol of the port (ARC-002).
#[tokio::test]
async fn every_protocol_publishes_and_reads_back() {
    let server = TestServer::start().await;
    for (fill, transport) in (0x11..).zip(Transport::ALL) {
        let request = PublishRequest {
            envelopes: vec![welcome(fill)],
        };
        let published: PublishResponse = transport
            .call(server.address(), "PublishService/Publish", &request)
            .await
            .unwrap_or_else(|status| panic!("{transport:?}: {status}"));
        assert_eq!(published.envelope_metas.len(), 1);

        let topic = Topic {
            topic: [&[1][..], &[fill; 32]].concat().into(),
        };
        let cursor = Some(Cursor { sequence_id: 0 });
        let request = QueryRequest {
            queries: vec![TopicQuery {
                topic: Some(topic),
                cursor,
            }],
            limit: 0,
        };
        let page: QueryResponse = transport
            .call(server.address(), "QueryService/Query", &request)
            .await
            .unwrap_or_else(|status| panic!("{transport:?}: {status}"));
        assert_eq!(page.envelopes.len(), 1);
        assert_eq!(
            page.envelopes[0].meta.as_ref(),
            published.envelope_metas.first()
        );
        assert_eq!(page.envelopes[0].envelope, Some(welcome(fill)));
    }
    server.stop().await;
}
