//! What storage takes and gives: plain records over opaque bytes.

/// The id of a stored envelope, or a place between ids when used as a cursor.
///
/// 1 and above for stored envelopes; 0 is before everything. Unique across all topics, never
/// reused; gaps are normal (API-010, API-013).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId(i64);

impl SequenceId {
    /// Before every envelope.
    pub const START: Self = Self(0);
    /// The greatest id there can be.
    pub const MAX: Self = Self(i64::MAX);

    /// Takes an id as the wire carries it; `None` above the signed 64-bit range (API-004).
    #[must_use]
    pub fn from_wire(id: u64) -> Option<Self> {
        i64::try_from(id).ok().map(Self)
    }

    /// The id as the wire carries it.
    #[must_use]
    pub fn to_wire(self) -> u64 {
        self.0.unsigned_abs()
    }

    pub(super) const fn from_column(id: i64) -> Self {
        Self(id)
    }

    pub(super) const fn to_column(self) -> i64 {
        self.0
    }
}

/// What identifies an envelope before it has an id: the idempotency key (API-033).
#[derive(Clone, Copy, Debug)]
pub struct EnvelopeKey<'a> {
    /// The derived topic.
    pub topic: &'a [u8],
    /// SHA-256 of the canonical encoding.
    pub hash: &'a [u8; 32],
}

/// An envelope to insert.
#[derive(Clone, Copy, Debug)]
pub struct NewEnvelope<'a> {
    /// Topic and hash.
    pub key: EnvelopeKey<'a>,
    /// Age at which the row may be deleted, nanoseconds; `None` for rows that never expire.
    pub retention_ns: Option<i64>,
    /// Whether the group message carries a proposal or commit.
    pub is_commit_or_proposal: bool,
    /// The canonical encoding.
    pub payload: &'a [u8],
}

/// What storage knows of an envelope besides its key and payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredMeta {
    /// The envelope's id.
    pub sequence_id: SequenceId,
    /// Start of the storing transaction, nanoseconds since the Unix epoch (ARC-035).
    pub server_ns: i64,
    /// When the row may be deleted, nanoseconds since the Unix epoch; `None` for never (ARC-025).
    pub expiry_ns: Option<i64>,
    /// Whether the group message carries a proposal or commit.
    pub is_commit_or_proposal: bool,
}

impl StoredMeta {
    pub(super) const fn from_columns(
        sequence_id: i64,
        server_ns: i64,
        expiry_ns: Option<i64>,
        is_commit_or_proposal: bool,
    ) -> Self {
        Self {
            sequence_id: SequenceId::from_column(sequence_id),
            server_ns,
            expiry_ns,
            is_commit_or_proposal,
        }
    }
}

/// The index into a request that `WITH ORDINALITY`, which counts from 1, stands for.
pub(super) fn index_of(ordinality: i64) -> usize {
    usize::try_from(ordinality - 1).expect("PostgreSQL counts from 1, and the request was ours")
}

/// One stored identity update.
#[derive(Clone, Debug)]
pub struct HistoryEntry {
    /// The envelope's id.
    pub sequence_id: SequenceId,
    /// The canonical encoding of the envelope.
    pub payload: Vec<u8>,
}

/// An identifier's place in an inbox.
#[derive(Clone, Copy, Debug)]
pub struct Association<'a> {
    /// Normalized for its kind.
    pub identifier: &'a str,
    /// 1 Ethereum address, 2 passkey.
    pub kind: i16,
    /// 32 bytes.
    pub inbox_id: &'a [u8],
}

/// What one stored identity update changed in the projection (ARC-022).
#[derive(Clone, Copy, Debug)]
pub struct AssociationChange<'a> {
    /// Who joined or left which inbox.
    pub association: Association<'a>,
    /// The id of the update.
    pub sequence_id: SequenceId,
}
