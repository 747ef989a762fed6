//! The sets of payloads that real clients sent (`tests/fixtures/real`), as requests to this server.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use envelope::canonical;
use envelope::ethereum::personal_message_digest;
use envelope::fixtures::client;
use envelope::scw::{AccountId, Verdict, VerdictFuture, Verify};
use envelope::wire::xmtp::backend::v1::client_envelope::Payload as Kind;
use envelope::wire::xmtp::backend::v1::{
    ClientEnvelope, EnvelopeMeta, PublishRequest, PublishResponse,
};
use envelope::wire::xmtp::identity::associations::IdentityUpdate;
use envelope::wire::xmtp::identity::associations::identity_action::Kind as Action;
use envelope::wire::xmtp::identity::associations::signature::Signature;
use harness::{TestServer, Transport};
use serde_json::Value;
use tonic::Status;

/// How long before an upload the lifetime of its key package begins, in seconds.
const BACKDATED_S: u64 = 3_600;

/// One payload with what the index knows of it.
pub(crate) struct Payload {
    facts: Value,
    pub(crate) envelope: ClientEnvelope,
    /// The topic that its client wrote beside it.
    pub(crate) client_topic: Option<Bytes>,
    /// What the server must store and return.
    pub(crate) canonical: Bytes,
    /// The MLS bytes as they lie in the client's own message, where the index says how many.
    pub(crate) mls: Option<Bytes>,
}

impl Payload {
    fn read(facts: &Value) -> Self {
        let bytes = Bytes::from(fs::read(root().join(text(facts, "file"))).expect("the file"));
        let length = [&facts["mls_bytes"], &facts["tls_bytes"]];
        let length = length.into_iter().find_map(Value::as_u64);
        let mls = length.map(|length| {
            let first = size(facts["mls_offset"].as_u64().expect("an offset"));
            bytes.slice(first..first + size(length))
        });
        let sent = client::unwrap(text(facts, "message_type"), bytes);
        Self {
            facts: facts.clone(),
            canonical: canonical::encode(&sent.envelope),
            envelope: sent.envelope,
            client_topic: sent.topic,
            mls,
        }
    }

    /// Where it lies, to name it in a failure.
    pub(crate) fn file(&self) -> &str {
        text(&self.facts, "file")
    }

    /// The topic that the index expects. Commit-log entries had none where they came from.
    pub(crate) fn topic(&self) -> Bytes {
        let hex = match self.facts["topic"].as_str() {
            Some(topic) => topic.to_owned(),
            None => format!("04{}", text(&self.facts, "group_id")),
        };
        hex::decode(hex).expect("hexadecimal").into()
    }

    /// Whether the index calls it a commit or proposal.
    pub(crate) fn is_commit_or_proposal(&self) -> bool {
        let flag = &self.facts["is_commit_or_proposal"];
        flag.as_bool().unwrap_or(false)
    }

    /// Whether it is a key package, which Query does not serve.
    pub(crate) fn is_key_package(&self) -> bool {
        matches!(self.envelope.payload, Some(Kind::KeyPackage(_)))
    }

    /// The first second of a key package's lifetime, and the first one after it.
    pub(crate) fn lifetime_s(&self) -> Option<[u64; 2]> {
        let lifetime = &self.facts["lifetime"];
        let first = lifetime["not_before"].as_u64()?;
        Some([first, lifetime["not_after"].as_u64()?])
    }

    /// Whether no signature needs a chain; none unless it is an identity update.
    pub(crate) fn is_verifiable_offline(&self) -> Option<bool> {
        self.facts["verifiable_offline"].as_bool()
    }

    pub(crate) fn update(&self) -> Option<&IdentityUpdate> {
        match self.envelope.payload.as_ref()? {
            Kind::IdentityUpdate(update) => Some(update),
            Kind::GroupMessage(_)
            | Kind::WelcomeMessage(_)
            | Kind::KeyPackage(_)
            | Kind::CommitLogEntry(_) => None,
        }
    }
}

/// One set, in the order in which it was sent.
pub(crate) struct Capture {
    pub(crate) payloads: Vec<Payload>,
    /// What the clients themselves made of every inbox in the end.
    pub(crate) states: Vec<Value>,
}

impl Capture {
    /// Reads the set of that name.
    pub(crate) fn load(set: &str) -> Self {
        let index = json("index.json");
        let entries = index["sets"][set].as_array().expect("a set of that name");
        let states = json("inbox_states.json");
        let states = states.as_array().expect("a list").iter();
        Self {
            payloads: entries.iter().map(Payload::read).collect(),
            states: states
                .filter(|state| state["set"] == set)
                .cloned()
                .collect(),
        }
    }

    /// The payloads by the request that brought them.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &[Payload]> {
        self.payloads
            .chunk_by(|a, b| a.facts["request"] == b.facts["request"])
    }

    /// When its last key package was uploaded, in seconds since the Unix epoch.
    pub(crate) fn moment_s(&self) -> u64 {
        let firsts = self.payloads.iter().filter_map(Payload::lifetime_s);
        let last = firsts.map(|[first, _]| first).max();
        last.expect("every set has key packages") + BACKDATED_S
    }

    /// Contract wallets that vouch for the signatures of this set and for nothing else.
    pub(crate) fn wallets(&self) -> RecordedWallets {
        let mut known = HashSet::new();
        for payload in &self.payloads {
            let Some(update) = payload.update() else {
                continue;
            };
            let hash = personal_message_digest(text(&payload.facts, "signed_text").as_bytes());
            for signature in signatures(update) {
                if let Signature::Erc6492(contract) = signature {
                    known.insert(Question {
                        account: contract.account_id.clone(),
                        hash,
                        signature: contract.signature.to_vec(),
                        block: Some(contract.block_number),
                    });
                }
            }
        }
        RecordedWallets(known)
    }
}

/// What a contract wallet can be asked.
#[derive(PartialEq, Eq, Hash)]
struct Question {
    account: String,
    hash: [u8; 32],
    signature: Vec<u8>,
    block: Option<u64>,
}

/// Says yes to the questions that it knows.
pub(crate) struct RecordedWallets(HashSet<Question>);

impl Verify for RecordedWallets {
    fn verify<'a>(
        &'a self,
        account: &'a AccountId,
        hash: &'a [u8; 32],
        signature: &'a [u8],
        block: Option<u64>,
    ) -> VerdictFuture<'a> {
        let question = Question {
            account: account.as_str().to_owned(),
            hash: *hash,
            signature: signature.to_vec(),
            block,
        };
        let verdict = Verdict {
            is_valid: self.0.contains(&question),
            block_number: block.unwrap_or(0),
        };
        Box::pin(std::future::ready(Ok(verdict)))
    }
}

/// Every signature of an update.
fn signatures(update: &IdentityUpdate) -> impl Iterator<Item = &Signature> {
    update.actions.iter().flat_map(|action| {
        let signatures = match &action.kind {
            Some(Action::CreateInbox(create)) => [&create.initial_identifier_signature, &None],
            Some(Action::Add(add)) => [&add.existing_member_signature, &add.new_member_signature],
            Some(Action::Revoke(revoke)) => [&revoke.recovery_identifier_signature, &None],
            Some(Action::ChangeRecoveryAddress(change)) => {
                [&change.existing_recovery_identifier_signature, &None]
            }
            None => [&None, &None],
        };
        signatures
            .into_iter()
            .filter_map(|signature| signature.as_ref()?.signature.as_ref())
    })
}

/// Publishes payloads in one request.
pub(crate) async fn publish(
    server: &TestServer,
    transport: Transport,
    payloads: &[Payload],
) -> Result<Vec<EnvelopeMeta>, Status> {
    let envelopes = payloads.iter().map(|payload| payload.envelope.clone());
    let request = PublishRequest {
        envelopes: envelopes.collect(),
    };
    let response: PublishResponse = transport
        .call(server.address(), "PublishService/Publish", &request)
        .await?;
    assert_eq!(response.envelope_metas.len(), payloads.len());
    Ok(response.envelope_metas)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/real")
}

fn json(name: &str) -> Value {
    let bytes = fs::read(root().join(name)).expect("the file");
    serde_json::from_slice(&bytes).expect("JSON")
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().expect("a text")
}

fn size(number: u64) -> usize {
    usize::try_from(number).expect("sizes fit")
}
