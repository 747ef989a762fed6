//! A client that publishes, and sends again whatever was not acknowledged.

use std::sync::Arc;
use std::time::Duration;

use client::PublishServiceClient;
use envelope::MessageHash;
use envelope::fixtures::group_id;
use envelope::fixtures::group_message::{APPLICATION, private_message, with_data};
use envelope::wire::xmtp::backend::v1::{ClientEnvelope, PublishRequest};
use harness::Random;
use prost::Message as _;
use tokio::sync::watch;
use tonic::transport::Channel;

use crate::GROUPS;
use crate::instance::Instance;
use crate::ledger::{Ledger, seen};

/// Between two requests, and after a failed one.
const PAUSE: Duration = Duration::from_millis(20);
const RETRY: Duration = Duration::from_millis(100);

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// One of several publishers.
pub(crate) struct Publisher {
    number: u64,
    random: Random,
    instances: Arc<[Instance; 2]>,
    ledger: Arc<Ledger>,
    channels: [Option<Channel>; 2],
    sent: u64,
}

impl Publisher {
    /// The publisher of that number.
    pub(crate) fn new(
        number: u64,
        random: Random,
        instances: Arc<[Instance; 2]>,
        ledger: Arc<Ledger>,
    ) -> Self {
        Self {
            number,
            random,
            instances,
            ledger,
            channels: [None, None],
            sent: 0,
        }
    }

    /// Publishes until told to stop; everything it sent is acknowledged then.
    pub(crate) async fn run(mut self, publishing: watch::Receiver<bool>) {
        while *publishing.borrow() {
            let envelopes = self.envelopes();
            self.publish(&envelopes).await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// One to five envelopes of random groups, seldom a large one.
    fn envelopes(&mut self) -> Vec<ClientEnvelope> {
        let number = 1 + self.random.below(5);
        let mut envelopes = Vec::new();
        for _ in 0..number {
            let group = self.random.below(GROUPS);
            self.sent += 1;
            let mut content = (self.number << 40 | self.sent).to_be_bytes().to_vec();
            if self.random.once_in(50) {
                content.resize(200 * 1024, 0xcd);
            }
            let data = private_message(&group_id(group), APPLICATION, &content);
            let envelope = with_data(data);
            let hash = MessageHash::of(&envelope.encode_to_vec());
            self.ledger.sent(*hash.as_bytes(), group);
            envelopes.push(envelope);
        }
        envelopes
    }

    /// Sends until it is acknowledged: a publish may be repeated at will (API-033).
    async fn publish(&mut self, envelopes: &[ClientEnvelope]) {
        loop {
            let instance = usize::from(self.random.once_in(2));
            if self.try_publish(instance, envelopes).await.is_some() {
                return;
            }
            self.channels[instance] = None;
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn try_publish(&mut self, instance: usize, envelopes: &[ClientEnvelope]) -> Option<()> {
        let channel = match &self.channels[instance] {
            Some(channel) => channel.clone(),
            None => self.instances[instance].connect().await.ok()?,
        };
        self.channels[instance] = Some(channel.clone());
        let request = PublishRequest {
            envelopes: envelopes.to_vec(),
        };
        let mut client = PublishServiceClient::new(channel);
        let answer = tokio::time::timeout(PATIENCE, client.publish(request));
        let answer = answer.await.ok()?.ok()?.into_inner();
        if answer.envelope_metas.len() != envelopes.len() {
            self.ledger
                .violation("an answer has another length than its request".to_owned());
        }
        for meta in &answer.envelope_metas {
            match seen(meta) {
                Some(seen) => self.ledger.acknowledged(seen),
                None => self.ledger.violation("incomplete metadata".to_owned()),
            }
        }
        Some(())
    }
}
