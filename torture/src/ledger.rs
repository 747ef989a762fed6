//! Everything that was sent, acknowledged and delivered, and the rules that it must keep.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use client::QueryServiceClient;
use envelope::fixtures::group_id;
use envelope::wire::xmtp::backend::v1::message_hash::Hash;
use envelope::wire::xmtp::backend::v1::{Cursor, EnvelopeMeta, QueryRequest, Topic, TopicQuery};
use envelope::{Topic as ParsedTopic, TopicKind};

use crate::GROUPS;
use crate::instance::Instance;

/// What tells an envelope from every other one.
pub(crate) type HashBytes = [u8; 32];

/// An envelope as it was seen: its id and its hash.
pub(crate) type Seen = (u64, HashBytes);

/// The topic of a group.
pub(crate) fn topic(group: u64) -> Vec<u8> {
    ParsedTopic::new(TopicKind::GroupMessage, &group_id(group))
        .expect("a group id makes a topic")
        .as_bytes()
        .to_vec()
}

/// The id and the hash in complete metadata.
pub(crate) fn seen(meta: &EnvelopeMeta) -> Option<Seen> {
    let id = meta.cursor.as_ref()?.sequence_id;
    let Hash::Sha256(hash) = meta.message_hash.as_ref()?.hash.as_ref()?;
    Some((id, hash.as_ref().try_into().ok()?))
}

/// What all publishers and subscribers report to.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    sent: HashMap<HashBytes, u64>,
    acknowledged: HashMap<HashBytes, u64>,
    delivered: u64,
    registrations: u64,
    streams: u64,
    faults: BTreeMap<&'static str, u64>,
    violations: Vec<String>,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An envelope is about to be sent.
    pub(crate) fn sent(&self, hash: HashBytes, group: u64) {
        self.lock().sent.insert(hash, group);
    }

    /// An envelope was acknowledged.
    pub(crate) fn acknowledged(&self, (id, hash): Seen) {
        let before = self.lock().acknowledged.insert(hash, id);
        if before.is_some_and(|before| before != id) {
            self.violation(format!(
                "an envelope was acknowledged as {before:?} and as {id}"
            ));
        }
    }

    /// Something happened to servers or databases.
    pub(crate) fn fault(&self, kind: &'static str) {
        *self.lock().faults.entry(kind).or_default() += 1;
    }

    /// A stream was opened.
    pub(crate) fn opened(&self) {
        self.lock().streams += 1;
    }

    /// Something that must not be.
    pub(crate) fn violation(&self, violation: String) {
        self.lock().violations.push(violation);
    }

    /// All of them.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    /// The figures of the run in one line.
    pub(crate) fn summary(&self) -> String {
        let entries = self.lock();
        let faults: u64 = entries.faults.values().sum();
        let kinds: Vec<String> = entries
            .faults
            .iter()
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        format!(
            "acknowledged={} delivered={} registrations={} streams={} faults={faults} ({})",
            entries.acknowledged.len(),
            entries.delivered,
            entries.registrations,
            entries.streams,
            kinds.join(", "),
        )
    }

    /// Compares what is stored with what was sent and acknowledged.
    pub(crate) fn check_stored(&self, stored: &Stored) {
        let mut ids = HashMap::new();
        for (group, envelopes) in &stored.0 {
            for (id, hash) in envelopes {
                if self.lock().sent.get(hash) != Some(group) {
                    self.violation(format!("{id} was not sent to the topic it is stored on"));
                }
                if ids.insert(*hash, *id).is_some() {
                    self.violation(format!("{id} is stored twice"));
                }
            }
        }
        let acknowledged = self.lock().acknowledged.clone();
        for (hash, id) in acknowledged {
            if ids.get(&hash) != Some(&id) {
                self.violation(format!("{id} was acknowledged and is not stored so"));
            }
        }
    }

    /// Compares what a registration delivered with what is stored. `complete` says that it must have
    /// delivered everything.
    pub(crate) fn check(&self, registration: &Registration, stored: &Stored, complete: bool) {
        let Registration {
            group,
            after,
            delivered,
        } = registration;
        {
            let mut entries = self.lock();
            entries.registrations += 1;
            entries.delivered += delivered.len() as u64;
        }
        let due: Vec<Seen> = stored.0[group]
            .iter()
            .filter(|(id, _)| id > after)
            .copied()
            .collect();
        let first_wrong = delivered
            .iter()
            .zip(&due)
            .position(|(delivered, due)| delivered != due);
        if let Some(place) = first_wrong {
            self.violation(format!(
                "group {group} after {after}: envelope {place} is {} and should be {}",
                delivered[place].0, due[place].0
            ));
        } else if delivered.len() > due.len() {
            self.violation(format!(
                "group {group} after {after}: {} envelopes that are not stored",
                delivered.len() - due.len()
            ));
        } else if complete && delivered.len() < due.len() {
            self.violation(format!(
                "group {group} after {after}: the last {} envelopes never came",
                due.len() - delivered.len()
            ));
        }
    }
}

/// What one registration of a topic delivered, from its start to its end.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    /// The group of the topic.
    pub(crate) group: u64,
    /// Where it started.
    pub(crate) after: u64,
    /// In the order of delivery.
    pub(crate) delivered: Vec<Seen>,
}

/// What is stored in the end, by group.
#[derive(Debug)]
pub(crate) struct Stored(pub(crate) HashMap<u64, Vec<Seen>>);

impl Stored {
    /// Reads every topic of the primary to its end.
    pub(crate) async fn read(instances: &[Instance; 2]) -> anyhow::Result<Self> {
        let mut stored = HashMap::new();
        for group in 0..GROUPS {
            let mut envelopes: Vec<Seen> = Vec::new();
            loop {
                let after = envelopes.last().map_or(0, |(id, _)| *id);
                let (page, has_more) = page(&instances[0], group, after).await?;
                envelopes.extend(page);
                if !has_more {
                    break;
                }
            }
            stored.insert(group, envelopes);
        }
        Ok(Self(stored))
    }

    /// The last id of a group's topic.
    pub(crate) fn last(&self, group: u64) -> u64 {
        self.0[&group].last().map_or(0, |(id, _)| *id)
    }
}

/// How often a page is asked for: the server may just be starting.
const TRIES: usize = 300;

async fn page(instance: &Instance, group: u64, after: u64) -> anyhow::Result<(Vec<Seen>, bool)> {
    let query = TopicQuery {
        topic: Some(Topic {
            topic: topic(group).into(),
        }),
        cursor: Some(Cursor { sequence_id: after }),
    };
    for _ in 0..TRIES {
        let request = QueryRequest {
            queries: vec![query.clone()],
            limit: 200,
        };
        let answer = async {
            let channel = instance.connect().await?;
            let mut client = QueryServiceClient::new(channel).max_decoding_message_size(usize::MAX);
            anyhow::Ok(client.query(request).await?.into_inner())
        };
        if let Ok(page) = answer.await {
            let envelopes = page.envelopes.iter();
            let seen: Option<Vec<Seen>> = envelopes
                .map(|envelope| seen(envelope.meta.as_ref()?))
                .collect();
            let more = page.continuation.is_some_and(|page| page.has_more);
            return Ok((seen.context("complete metadata")?, more));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    anyhow::bail!("the server does not answer queries any more")
}
