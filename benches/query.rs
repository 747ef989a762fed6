//! Pages per second against the same rows selected without a server.
//!
//! One topic holds a thousand messages; both sides read its first envelopes again and again, the raw
//! side with one `SELECT` on as many connections as there are requests in flight, ours with gRPC
//! queries. What counts is the ratio; absolute numbers belong to the machine.

mod load;

use client::QueryServiceClient;
use envelope::wire::xmtp::backend::v1::{QueryRequest, Topic, TopicQuery};
use harness::TestServer;
use sqlx::postgres::PgConnection;
use tonic::transport::Channel;

use load::{Repeat, channels, group_message, group_topic, print_head, print_row, rate, rows};

/// What is measured: envelopes a page, requests in flight.
const ROWS: [(usize, usize); 4] = [(100, 1), (100, 32), (1000, 1), (1000, 32)];

/// The group whose topic is read.
const GROUP: u64 = 1;

/// Messages on the topic.
const MESSAGES: u64 = 1000;

#[tokio::main]
async fn main() {
    let server = TestServer::start().await;
    for first in (0..MESSAGES).step_by(100) {
        let envelopes = (first..first + 100)
            .map(|n| group_message(GROUP, n))
            .collect();
        server
            .publish(envelopes)
            .await
            .expect("messages are stored");
    }
    print_head("pages/s");
    for row in rows(&ROWS) {
        print_row(row, raw(&server, row).await, ours(&server, row).await);
    }
    server.stop().await;
}

/// Selects a page over a connection of its own.
struct Select {
    connection: PgConnection,
    envelopes: usize,
}

impl Repeat for Select {
    async fn once(&mut self) {
        let rows = sqlx::query(
            "SELECT sequence_id, server_ns, expiry_ns, message_hash, is_commit_or_proposal, payload
               FROM envelopes WHERE topic = $1 AND sequence_id > $2 ORDER BY sequence_id LIMIT $3",
        )
        .bind(group_topic(GROUP))
        .bind(0i64)
        .bind(i64::try_from(self.envelopes).expect("a page is small"))
        .fetch_all(&mut self.connection)
        .await
        .expect("rows can be selected");
        assert_eq!(rows.len(), self.envelopes);
    }
}

async fn raw(server: &TestServer, (envelopes, in_flight): (usize, usize)) -> f64 {
    let mut loops = Vec::new();
    for _ in 0..in_flight {
        loops.push(Select {
            connection: server.database().connection().await,
            envelopes,
        });
    }
    rate(loops).await
}

/// Queries a page over a connection that it shares with some of the others.
struct Query {
    client: QueryServiceClient<Channel>,
    envelopes: usize,
}

impl Repeat for Query {
    async fn once(&mut self) {
        let topic = Some(Topic {
            topic: group_topic(GROUP).into(),
        });
        let request = QueryRequest {
            queries: vec![TopicQuery {
                topic,
                cursor: None,
            }],
            limit: u32::try_from(self.envelopes).expect("a page is small"),
        };
        let page = self
            .client
            .query(request)
            .await
            .expect("a query succeeds")
            .into_inner();
        assert_eq!(page.envelopes.len(), self.envelopes);
    }
}

async fn ours(server: &TestServer, (envelopes, in_flight): (usize, usize)) -> f64 {
    let loops = channels(server.address(), in_flight)
        .await
        .into_iter()
        .map(|channel| Query {
            client: QueryServiceClient::new(channel),
            envelopes,
        })
        .collect();
    rate(loops).await
}
