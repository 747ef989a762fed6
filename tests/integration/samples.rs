//! The envelopes that random requests are made of, each with what a backend must think of it.

use bytes::Bytes;
use envelope::canonical;
use envelope::fixtures::{
    Installation, KeyPackageBuilder, Signer, UpdateBuilder, Wallet, commit_log, filler, group_id,
    group_message, identity, malformed, update_envelope, welcome,
};
use envelope::wire::xmtp::backend::v1::publish_error::Reason;
use envelope::wire::xmtp::backend::v1::{ClientEnvelope, EnvelopeMeta};
use envelope::wire::xmtp::identity::associations::IdentityUpdate;
use envelope::wire::xmtp::identity::associations::identity_action::Kind as Action;
use envelope::wire::xmtp::identity::associations::signature::Signature;

use crate::raw_reading::topic;

/// Who takes part: everybody has a group, an installation, two wallets and an inbox.
pub(crate) const PEOPLE: u64 = 4;
/// When the backend judges key packages, in seconds since the Unix epoch.
pub(crate) const NOW_S: u64 = 1_800_000_000;
/// Longest envelope that the backend takes.
pub(crate) const ENVELOPE_BYTES_MAX: usize = 2_000;
/// How long the backend keeps what expires, in nanoseconds.
const RETENTION_NS: u64 = 90 * 24 * 3_600 * 1_000_000_000;

/// What is wrong with an envelope by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It does not parse.
    Malformed,
    /// It is longer than an envelope may be.
    TooLarge,
    /// It parses, and must not be stored for this reason.
    Refused(Reason),
}

/// What an update does to its inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Makes it, which only works once.
    Create,
    /// Works whenever there is an inbox.
    AddInstallation,
    /// Works whenever there is an inbox.
    AddWallet,
    /// Works whenever there is an inbox, whether the wallet is a member or not.
    RevokeWallet,
}

/// One envelope.
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) bytes: Bytes,
    /// Empty if the envelope does not parse.
    pub(crate) topic: Bytes,
    pub(crate) fault: Option<Fault>,
    /// For an identity update, whose it is and what it does.
    pub(crate) update: Option<(u64, Step)>,
    is_commit_or_proposal: bool,
    expires: bool,
}

impl Sample {
    fn new(name: &str, envelope: &ClientEnvelope, topic: Bytes) -> Self {
        Self {
            name: name.to_owned(),
            bytes: canonical::encode(envelope),
            expires: matches!(topic.first(), Some(0 | 1 | 3)),
            topic,
            fault: None,
            update: None,
            is_commit_or_proposal: false,
        }
    }

    fn fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    fn refused(self, reason: Reason) -> Self {
        self.fault(Fault::Refused(reason))
    }

    fn update(name: &str, (person, step): (u64, Step), update: IdentityUpdate) -> Self {
        let inbox_id = hex::decode(&update.inbox_id).expect("hexadecimal");
        Self {
            update: Some((person, step)),
            ..Self::new(name, &update_envelope(update), topic_of(2, &inbox_id))
        }
    }

    /// The metadata of an envelope that was stored just now follows from the envelope.
    pub(crate) fn check(&self, meta: &EnvelopeMeta) {
        assert_eq!(topic(meta), self.topic, "{}", self.name);
        let flag = self.is_commit_or_proposal;
        assert_eq!(meta.is_commit_or_proposal, flag, "{}", self.name);
        let expiry_ns = match self.expires {
            true => meta.server_ns + RETENTION_NS,
            false => 0,
        };
        assert_eq!(meta.expiry_ns, expiry_ns, "{}", self.name);
    }
}

/// All of them. The sound ones are few enough to meet again.
pub(crate) fn samples() -> Vec<Sample> {
    (0..PEOPLE)
        .flat_map(|person| {
            let mut samples = messages(person);
            samples.extend(packages(person));
            samples.extend(updates(person));
            samples.extend(malformed(person).into_iter().map(|(name, envelope)| {
                Sample::new(name, &envelope, Bytes::new()).fault(Fault::Malformed)
            }));
            samples
        })
        .collect()
}

/// The addresses of a person's wallets: the one that creates the inbox, and the one that joins.
pub(crate) fn identifiers(person: u64) -> [String; 2] {
    wallets(person).map(|wallet| wallet.address())
}

/// The id of a person's inbox.
pub(crate) fn inbox_of(person: u64) -> String {
    let [owner, _] = wallets(person);
    identity::inbox_of(&owner, 0)
}

fn wallets(person: u64) -> [Wallet; 2] {
    [person, PEOPLE + person].map(Wallet::numbered)
}

fn topic_of(kind: u8, identifier: &[u8]) -> Bytes {
    [&[kind], identifier].concat().into()
}

/// Group messages, welcomes and commit-log entries.
fn messages(person: u64) -> Vec<Sample> {
    let group = group_id(person);
    let key = Installation::numbered(person).public_key();
    let of_group = |name, envelope| Sample::new(name, &envelope, topic_of(0, &group));
    let handshake = |name, envelope| {
        let mut sample = of_group(name, envelope);
        sample.is_commit_or_proposal = true;
        sample.expires = false;
        sample
    };
    let of_welcome = |name, envelope| Sample::new(name, &envelope, topic_of(1, &key));
    let long = filler(person, ENVELOPE_BYTES_MAX);
    let mut samples = vec![
        handshake("proposal", group_message::proposal(&group)),
        handshake("commit", group_message::commit(&group)),
        handshake(
            "public proposal",
            group_message::with_data(group_message::public_proposal(&group)),
        ),
        of_welcome("welcome pointer", welcome::pointer(&key, b"pointer")),
        of_welcome("long welcome", welcome::v1(&key, &long)).fault(Fault::TooLarge),
    ];
    for number in 0..8 {
        let application = group_message::numbered_application(&group, number);
        samples.push(of_group("application message", application));
        let data = number.to_be_bytes();
        samples.push(of_welcome("welcome", welcome::v1(&key, &data)));
        let entry = commit_log::entry(&group, number);
        samples.push(Sample::new("commit log", &entry, topic_of(4, &group)));
    }
    samples
}

fn packages(person: u64) -> Vec<Sample> {
    let installation = Installation::numbered(person);
    let topic = topic_of(3, &installation.public_key());
    let inbox_id = inbox_of(person);
    let package = KeyPackageBuilder::new(&installation, &inbox_id);
    let sound =
        |name, package: KeyPackageBuilder| Sample::new(name, &package.envelope(), topic.clone());
    let bad = |name, package| sound(name, package).refused(Reason::InvalidKeyPackage);
    let mut foreign = package.clone();
    foreign.signer = Installation::numbered(PEOPLE + person);
    vec![
        sound("endless key package", package.clone()),
        sound(
            "key package until the next second",
            package.clone().lifetime(NOW_S, NOW_S + 1),
        ),
        bad("expired key package", package.clone().lifetime(0, NOW_S)),
        bad("early key package", package.lifetime(NOW_S + 1, u64::MAX)),
        bad("key package signed by another", foreign),
    ]
}

fn updates(person: u64) -> Vec<Sample> {
    let [owner, second] = wallets(person);
    let stranger = Wallet::numbered(1_000);
    let inbox_id = inbox_of(person);
    // Claimed times tell updates apart that do the same. What is signed shows whole seconds only, and
    // a signature counts once.
    let at = |number: u64| identity::TIMESTAMP_NS + number * 1_000_000_000;
    let update = |number| UpdateBuilder::new(&inbox_id).at(at(number));
    let member = second.member();
    let installation = Installation::numbered(2 * PEOPLE + person);
    let mut forged = update(0).add(&owner, &installation).build();
    forge(&mut forged);
    let bad = |name, update, reason| {
        Sample::update(name, (person, Step::AddInstallation), update).refused(reason)
    };
    let mut samples = vec![
        bad("forged update", forged, Reason::InvalidSignature),
        bad(
            "update by a stranger",
            update(1).add(&stranger, &installation).build(),
            Reason::InvalidIdentityUpdate,
        ),
    ];
    for number in 0..2 {
        let create = UpdateBuilder::creating(&owner, 0).at(at(number)).build();
        samples.push(Sample::update("create", (person, Step::Create), create));
        let installation = Installation::numbered((3 + number) * PEOPLE + person);
        for (name, step, update) in [
            (
                "add installation",
                Step::AddInstallation,
                update(number).add(&owner, &installation),
            ),
            (
                "add wallet",
                Step::AddWallet,
                update(number).add(&owner, &second),
            ),
            (
                "revoke wallet",
                Step::RevokeWallet,
                update(number).revoke(&owner, member.clone()),
            ),
        ] {
            samples.push(Sample::update(name, (person, step), update.build()));
        }
    }
    samples
}

/// Spoils the signature of the installation that an update adds.
fn forge(update: &mut IdentityUpdate) {
    let Some(Action::Add(add)) = &mut update.actions[0].kind else {
        panic!("an update that adds");
    };
    let signature = add.new_member_signature.as_mut().expect("a signature");
    let Some(Signature::InstallationKey(signature)) = &mut signature.signature else {
        panic!("an installation's signature");
    };
    let mut bytes = signature.bytes.to_vec();
    bytes[0] ^= 1;
    signature.bytes = bytes.into();
}
