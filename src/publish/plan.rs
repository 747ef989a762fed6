//! Turning a request into distinct envelopes with topics and hashes: everything that needs neither
//! clock nor database (ARC-030, API-031).

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use envelope::wire::xmtp::backend::v1::ClientEnvelope;
use envelope::{MessageHash, Parsed, Reason, Topic, TopicKind, Unchecked, canonical};
use prost::encoding::{encoded_len_varint, key_len};

use super::Rejection;
use crate::config::Limits;
use crate::db::EnvelopeKey;

/// The field of `PublishRequest` that holds envelopes.
const ENVELOPES_FIELD: u32 = 1;

/// One distinct envelope of a request.
#[derive(Debug)]
pub(super) struct Planned {
    /// Where it first stood in the request.
    pub(super) index: u32,
    pub(super) topic: Topic,
    pub(super) hash: MessageHash,
    pub(super) is_commit_or_proposal: bool,
    /// The bytes that are stored.
    pub(super) canonical: Bytes,
}

impl Planned {
    pub(super) fn key(&self) -> EnvelopeKey<'_> {
        EnvelopeKey {
            topic: self.topic.as_bytes(),
            hash: self.hash.as_bytes(),
        }
    }

    pub(super) fn is_identity_update(&self) -> bool {
        self.topic.kind() == TopicKind::IdentityUpdate
    }
}

/// A request whose envelopes are parsed and collapsed.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// The distinct envelopes, in request order.
    pub(super) envelopes: Vec<Planned>,
    /// What is left to check of each distinct envelope.
    pub(super) unchecked: Vec<Unchecked>,
    /// For each input position, which of the distinct envelopes answers it.
    pub(super) positions: Vec<usize>,
}

impl Plan {
    /// Parses and measures every envelope, in request order.
    ///
    /// # Errors
    ///
    /// A [`Rejection`]: for the whole request when it is too large or names too many topics, else
    /// for the lowest index that fails.
    pub(super) fn new(envelopes: Vec<ClientEnvelope>, limits: &Limits) -> Result<Self, Rejection> {
        if request_bytes(&envelopes) > limits.max_request_bytes {
            let message = format!("request is longer than {} bytes", limits.max_request_bytes);
            return Err(Rejection::request_too_large(message));
        }
        let mut plan = Self::default();
        let mut seen: HashMap<MessageHash, usize> = HashMap::with_capacity(envelopes.len());
        for (index, envelope) in (0u32..).zip(envelopes) {
            let parsed = parse(index, envelope, limits)?;
            let next = plan.envelopes.len();
            let place = *seen.entry(parsed.hash).or_insert(next);
            if place == next {
                plan.push(index, parsed);
            }
            plan.positions.push(place);
        }
        plan.check_topics(limits)?;
        plan.check_one_update_per_inbox()?;
        Ok(plan)
    }

    /// Whether any of these envelopes has something left to check.
    pub(super) fn needs_check(&self, indices: &[usize]) -> bool {
        indices
            .iter()
            .any(|&index| !matches!(self.unchecked[index], Unchecked::Nothing))
    }

    fn push(&mut self, index: u32, parsed: Parsed) {
        let Parsed {
            topic,
            is_commit_or_proposal,
            contract_signatures: _,
            canonical,
            hash,
            unchecked,
        } = parsed;
        self.envelopes.push(Planned {
            index,
            topic,
            hash,
            is_commit_or_proposal,
            canonical,
        });
        self.unchecked.push(unchecked);
    }

    /// Every topic costs a lock, so their number is bounded (ARC-031).
    fn check_topics(&self, limits: &Limits) -> Result<(), Rejection> {
        let topics: HashSet<Topic> = self.envelopes.iter().map(|planned| planned.topic).collect();
        let limit = limits.max_publish_topics;
        if topics.len() > limit as usize {
            let message = format!("request has more than {limit} distinct topics");
            return Err(Rejection::request_too_large(message));
        }
        Ok(())
    }

    /// Two updates of one inbox cannot both follow the same history (API-050).
    fn check_one_update_per_inbox(&self) -> Result<(), Rejection> {
        let mut inboxes = HashSet::new();
        for planned in self
            .envelopes
            .iter()
            .filter(|planned| planned.is_identity_update())
        {
            if !inboxes.insert(planned.topic) {
                let message = "request has another update of the same inbox";
                let reason = Reason::InvalidIdentityUpdate;
                return Err(Rejection::at(planned.index, reason, message));
            }
        }
        Ok(())
    }
}

/// The length of the request as this server encodes it, which can be more than it had on the wire.
pub(super) fn request_bytes(envelopes: &[ClientEnvelope]) -> u64 {
    let framed = |envelope| {
        let length = canonical::encoded_len(envelope) as u64;
        (key_len(ENVELOPES_FIELD) + encoded_len_varint(length)) as u64 + length
    };
    envelopes.iter().map(framed).sum()
}

fn parse(index: u32, envelope: ClientEnvelope, limits: &Limits) -> Result<Parsed, Rejection> {
    let bounds = envelope::Limits {
        envelope_bytes_max: usize::try_from(limits.max_envelope_bytes).unwrap_or(usize::MAX),
        contract_signatures_max: limits.max_scw_signatures as usize,
    };
    envelope::parse(envelope, bounds).map_err(|error| {
        // Parsing asks nobody, so every failure is the envelope's own.
        let reason = error.reason().unwrap_or(Reason::MalformedPayload);
        Rejection::at(index, reason, error.to_string())
    })
}
