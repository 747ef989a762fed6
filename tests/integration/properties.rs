//! Random requests of all five kinds against a model of the rules of publishing (ARC-030, API-030 to
//! API-052, API-223).
//!
//! The model knows for every sample what is wrong with it, if anything, and keeps what must be
//! stored. It predicts each answer: the metadata of every position, or which envelope is to blame and
//! why; and after each answer how many rows there are.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use envelope::MessageHash;
use envelope::wire::xmtp::backend::v1::publish_error::Reason;
use envelope::wire::xmtp::backend::v1::{
    EnvelopeMeta, GetInboxIdsRequest, GetInboxIdsResponse, PublishResponse, get_inbox_ids_request,
};
use harness::{TestServer, Transport};
use prost::Message;
use sqlx::PgPool;
use tonic::Status;

use crate::random::{Random, seeds};
use crate::raw_reading::{Stored, drain, hash, refusal, sequence_id};
use crate::samples::{
    ENVELOPE_BYTES_MAX, Fault, NOW_S, PEOPLE, Sample, Step, identifiers, inbox_of, samples,
};

/// How many topics one request may name.
const TOPICS_MAX: usize = 5;
/// How many updates one inbox takes.
const ENTRIES_MAX: usize = 5;
/// Requests of one run.
const REQUESTS: usize = 120;
/// An unknown field with a number; it changes the bytes on the wire and not the envelope (API-025).
const UNKNOWN_FIELD: [u8; 4] = [0x9a, 0x06, 0x01, 0x78];

/// `PublishRequest` with envelopes of any bytes.
#[derive(Clone, PartialEq, Message)]
struct RawRequest {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    envelopes: Vec<Bytes>,
}

/// Every answer to random requests, and what is stored in the end, is what the model predicts.
#[tokio::test]
async fn every_answer_to_random_requests_is_what_the_model_predicts() {
    for seed in seeds(2) {
        let mut run = Run::start(seed).await;
        for _ in 0..REQUESTS {
            run.request().await;
        }
        run.check_what_is_stored().await;
        run.stop().await;
    }
}

/// What is wrong with a request: which envelope, if it is one, and why.
type Refusal = (Option<u32>, Reason);

/// What the backend must hold.
#[derive(Default)]
struct Model {
    /// Ascending by id.
    log: Vec<(Bytes, EnvelopeMeta)>,
    /// Places in `log` by envelope.
    places: BTreeMap<Bytes, usize>,
    /// Of each inbox, the steps that its updates took.
    inboxes: BTreeMap<u64, Vec<Step>>,
}

impl Model {
    /// The first rule that a request breaks, in the order in which they are applied.
    fn judge(&self, request: &[&Sample]) -> Result<(), Refusal> {
        let at = |index: usize, reason| Err((Some(u32::try_from(index).expect("few")), reason));
        for (index, sample) in request.iter().enumerate() {
            match sample.fault {
                Some(Fault::Malformed) => return at(index, Reason::MalformedPayload),
                Some(Fault::TooLarge) => return at(index, Reason::TooLarge),
                Some(Fault::Refused(_)) | None => {}
            }
        }
        let topics: BTreeSet<_> = request.iter().map(|sample| &sample.topic).collect();
        if topics.len() > TOPICS_MAX {
            return Err((None, Reason::TooLarge));
        }
        let mut updates: BTreeMap<u64, &Bytes> = BTreeMap::new();
        for (index, sample) in request.iter().enumerate() {
            if let Some((person, _)) = sample.update
                && *updates.entry(person).or_insert(&sample.bytes) != &sample.bytes
            {
                return at(index, Reason::InvalidIdentityUpdate);
            }
        }
        for (index, sample) in request.iter().enumerate() {
            let is_stored = self.places.contains_key(&sample.bytes);
            if !is_stored && let Some(reason) = self.refuses(sample) {
                return at(index, reason);
            }
        }
        Ok(())
    }

    /// Why a well-formed envelope that is not stored must not be.
    fn refuses(&self, sample: &Sample) -> Option<Reason> {
        if let Some((person, step)) = sample.update {
            let steps = self.inboxes.get(&person).map_or(0, Vec::len);
            if steps >= ENTRIES_MAX {
                return Some(Reason::InvalidIdentityUpdate);
            }
            if let Some(Fault::Refused(reason)) = sample.fault {
                return Some(reason);
            }
            let is_in_order = (step == Step::Create) == (steps == 0);
            return (!is_in_order).then_some(Reason::InvalidIdentityUpdate);
        }
        match sample.fault {
            Some(Fault::Refused(reason)) => Some(reason),
            Some(Fault::Malformed | Fault::TooLarge) | None => None,
        }
    }

    /// Takes an answer to a request that must succeed.
    fn accept(&mut self, request: &[&Sample], metas: Vec<EnvelopeMeta>) {
        assert_eq!(metas.len(), request.len());
        let mut server_ns = None;
        for (sample, meta) in request.iter().zip(metas) {
            if let Some(&place) = self.places.get(&sample.bytes) {
                assert_eq!(meta, self.log[place].1, "{}", sample.name);
                continue;
            }
            sample.check(&meta);
            assert_eq!(hash(&meta), MessageHash::of(&sample.bytes).as_bytes()[..]);
            let newest = self.log.last().map_or(0, |(_, meta)| sequence_id(meta));
            assert!(sequence_id(&meta) > newest, "{}", sample.name);
            // What is new in one publish has one time (ARC-035).
            assert_eq!(*server_ns.get_or_insert(meta.server_ns), meta.server_ns);
            self.places.insert(sample.bytes.clone(), self.log.len());
            self.log.push((sample.bytes.clone(), meta));
            if let Some((person, step)) = sample.update {
                self.inboxes.entry(person).or_default().push(step);
            }
        }
    }

    /// Whether the second wallet of a person belongs to the inbox.
    fn has_second_wallet(&self, person: u64) -> bool {
        let steps = self.inboxes.get(&person).into_iter().flatten();
        steps.fold(false, |has, step| match step {
            Step::AddWallet => true,
            Step::RevokeWallet => false,
            Step::Create | Step::AddInstallation => has,
        })
    }
}

struct Run {
    random: Random,
    samples: Vec<Sample>,
    server: TestServer,
    pool: PgPool,
    model: Model,
}

impl Run {
    async fn start(seed: u64) -> Self {
        let limits = format!(
            "max_publish_topics = {TOPICS_MAX}\nmax_identity_entries = {ENTRIES_MAX}\n\
             max_envelope_bytes = {ENVELOPE_BYTES_MAX}"
        );
        let server = TestServer::builder()
            .table("limits", &limits)
            .at_unix_seconds(NOW_S)
            .start()
            .await;
        Self {
            random: Random::new(seed),
            samples: samples(),
            pool: server.database().pool().await,
            server,
            model: Model::default(),
        }
    }

    /// One request: mostly sound, sometimes with whatever comes.
    async fn request(&mut self) {
        let faults_once_in = *self.random.choose(&[1_000, 12, 3]);
        let of = |wanted: fn(&Option<Fault>) -> bool| -> Vec<&Sample> {
            self.samples.iter().filter(|s| wanted(&s.fault)).collect()
        };
        let sound = of(Option::is_none);
        let malformed = of(|fault| matches!(fault, Some(Fault::Malformed)));
        let unwanted = of(|fault| matches!(fault, Some(Fault::TooLarge | Fault::Refused(_))));
        let mut request: Vec<&Sample> = Vec::new();
        for _ in 0..self.random.below(8) {
            let is_faulty = self.random.once_in(faults_once_in);
            let choices = match self.random.below(6) {
                0 if !request.is_empty() => &request,
                1..=2 if is_faulty => &malformed,
                3..=5 if is_faulty => &unwanted,
                _ => &sound,
            };
            request.push(*self.random.choose(choices));
        }
        let envelopes = request.iter().map(|sample| {
            if self.random.once_in(4) {
                [&sample.bytes[..], &UNKNOWN_FIELD].concat().into()
            } else {
                sample.bytes.clone()
            }
        });
        let raw = RawRequest {
            envelopes: envelopes.collect(),
        };
        let transport = *self.random.choose(&Transport::ALL);
        let method = "PublishService/Publish";
        let answer: Result<PublishResponse, Status> =
            transport.call(self.server.address(), method, &raw).await;

        let names: Vec<_> = request.iter().map(|sample| &sample.name).collect();
        match (self.model.judge(&request), answer) {
            (Ok(()), Ok(response)) => self.model.accept(&request, response.envelope_metas),
            (Err(expected), Err(status)) => assert_eq!(refusal(&status), expected, "{names:?}"),
            (expected, answer) => panic!("{names:?}: {expected:?}, not {answer:?}"),
        }
        let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM envelopes")
            .fetch_one(&self.pool)
            .await
            .expect("a count");
        assert_eq!(usize::try_from(rows), Ok(self.model.log.len()), "{names:?}");
    }

    async fn check_what_is_stored(&self) {
        let stored = self.model.log.iter().map(|(bytes, meta)| Stored {
            meta: Some(meta.clone()),
            envelope: bytes.clone(),
        });
        let expected: Vec<_> = stored.filter(|s| s.topic()[0] != 3).collect();
        let topics: BTreeSet<_> = expected.iter().map(Stored::topic).collect();
        let transport = Transport::Native;
        let server = (self.server.address(), transport);
        assert!(drain(server, topics, 20).await == expected);

        let mut requests = Vec::new();
        let mut expected = Vec::new();
        for person in 0..PEOPLE {
            let [first, second] = identifiers(person);
            let is_created = self.model.inboxes.contains_key(&person);
            expected.push(is_created.then(|| inbox_of(person)));
            let has_second = self.model.has_second_wallet(person);
            expected.push(has_second.then(|| inbox_of(person)));
            requests.extend(
                [first, second].map(|identifier| get_inbox_ids_request::Request {
                    identifier,
                    identifier_kind: 1,
                }),
            );
        }
        let found: GetInboxIdsResponse = self
            .server
            .call(
                "IdentityService/GetInboxIds",
                &GetInboxIdsRequest { requests },
            )
            .await
            .expect("an answer");
        let found: Vec<_> = found.responses.into_iter().map(|f| f.inbox_id).collect();
        assert_eq!(found, expected);
    }

    async fn stop(self) {
        self.pool.close().await;
        self.server.stop().await;
    }
}
