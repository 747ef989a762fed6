//! What the checks of this crate cost beside the cryptography that they cannot do without.
//!
//! One core, no database, no network. The raw side of a message is the SHA-256 of its stored bytes; of
//! a key package, its two Ed25519 verifications; of an identity update, the recovery of as many
//! signers as its history and itself have signatures. What counts is the ratio: 1 would be checks that
//! cost nothing. Absolute numbers belong to the machine.
//!
//! Arguments choose the rows whose names contain one of them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ed25519_dalek::VerifyingKey;
use envelope::fixtures::{
    Installation, KeyPackageBuilder, UpdateBuilder, Wallet, group_id, group_message,
    update_envelope,
};
use envelope::identity::verify_locally;
use envelope::scw::{AccountId, VerdictFuture, VerifierError, Verify};
use envelope::{Limits, MessageHash, Unchecked, canonical, ethereum, parse};

/// How long each side of each row runs.
const ROUND: Duration = Duration::from_secs(2);

/// The most entries that a history of the default limits has, one update more included.
const ENTRIES_MAX: usize = 256;

const LIMITS: Limits = Limits {
    envelope_bytes_max: 2 << 20,
    contract_signatures_max: 100,
};

fn main() {
    println!("{:<28}  {:>12}  {:>12}  ratio", "", "raw/s", "checked/s");
    for (name, bytes) in [("message of 1 KiB", 1 << 10), ("message of 1 MiB", 1 << 20)] {
        row(name, || message(bytes));
    }
    row("key package", key_package);
    for entries in [1, 16, ENTRIES_MAX] {
        row(&format!("identity of {entries} updates"), || {
            identity(entries)
        });
    }
}

/// Work to repeat, without and with our checks.
type Sides = (Box<dyn FnMut()>, Box<dyn FnMut()>);

fn row(name: &str, sides: impl FnOnce() -> Sides) {
    let chosen: Vec<_> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    if !chosen.is_empty() && !chosen.iter().any(|part| name.contains(part.as_str())) {
        return;
    }
    let (raw, ours) = sides();
    let (raw, ours) = (rate(raw), rate(ours));
    println!("{name:<28}  {raw:>12.1}  {ours:>12.1}  {:>5.2}", ours / raw);
}

fn rate(mut work: Box<dyn FnMut()>) -> f64 {
    let started = Instant::now();
    let mut done = 0_u32;
    while started.elapsed() < ROUND {
        work();
        done += 1;
    }
    f64::from(done) / started.elapsed().as_secs_f64()
}

/// Topic, canonical bytes and hash of a private message.
fn message(bytes: usize) -> Sides {
    let ciphertext = vec![0xab; bytes];
    let data =
        group_message::private_message(&group_id(1), group_message::APPLICATION, &ciphertext);
    let envelope = group_message::with_data(data);
    let stored = canonical::encode(&envelope);
    (
        Box::new(move || {
            black_box(MessageHash::of(&stored));
        }),
        Box::new(move || {
            black_box(parse(envelope.clone(), LIMITS).expect("a message"));
        }),
    )
}

/// Parsing and validation of a key package.
fn key_package() -> Sides {
    let installation = Installation::numbered(1);
    let package = KeyPackageBuilder::new(&installation, &"0".repeat(64));
    let envelope = package.envelope();
    let signed = package.bytes();
    let signature = ed25519_dalek::Signature::from_bytes(&installation.sign_plain(&signed));
    let key = VerifyingKey::from_bytes(&installation.public_key()).expect("a key");
    (
        Box::new(move || {
            for _ in 0..2 {
                black_box(key.verify_strict(&signed, &signature).is_ok());
            }
        }),
        Box::new(move || {
            let parsed = parse(envelope.clone(), LIMITS).expect("a key package");
            let Unchecked::KeyPackage(package) = parsed.unchecked else {
                panic!("a key package is to be checked");
            };
            black_box(package.validate(1).expect("a valid one"));
        }),
    )
}

/// The last of so many updates of an inbox, each with a signature of its own.
fn identity(updates: usize) -> Sides {
    let wallet = Wallet::numbered(1);
    let create = UpdateBuilder::creating(&wallet, 0).build();
    let inbox = create.inbox_id.clone();
    let change = |second: u64| {
        UpdateBuilder::new(&inbox)
            .at(second * 1_000_000_000)
            .change_recovery(&wallet, &wallet.address())
            .build()
    };
    let mut all: Vec<_> = std::iter::once(create)
        .chain((1..updates as u64).map(change))
        .collect();
    let last = all.pop().expect("one update at least");
    let stored = |update| canonical::encode(&update_envelope(update));
    let history: Vec<Bytes> = all.into_iter().map(stored).collect();
    let digest = [0x42; 32];
    let signature = wallet.sign_digest(&digest);
    let (r_and_s, v) = (*signature.first_chunk().expect("65 bytes"), signature[64]);
    (
        Box::new(move || {
            for _ in 0..updates {
                black_box(ethereum::recover(&digest, &r_and_s, v == 28));
            }
        }),
        Box::new(move || {
            let local = verify_locally(history.clone(), last.clone(), ENTRIES_MAX);
            let verified = ready(local.expect("sound updates").verify_contracts(&NoChain));
            black_box(verified.expect("no contracts").apply().expect("it follows"));
        }),
    )
}

/// The answer of a future that has nothing to wait for.
fn ready<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(answer) => answer,
        std::task::Poll::Pending => panic!("nobody is asked"),
    }
}

/// No contract wallet signs here.
struct NoChain;

impl Verify for NoChain {
    fn verify<'a>(
        &'a self,
        _: &'a AccountId,
        _: &'a [u8; 32],
        _: &'a [u8],
        _: Option<u64>,
    ) -> VerdictFuture<'a> {
        Box::pin(std::future::ready(Err(VerifierError::NoRoute)))
    }
}
