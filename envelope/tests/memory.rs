//! What the bytes of strangers cost in memory: a binary of its own, because it counts every
//! allocation of the process (ARC-010).
//!
//! The tests take turns; otherwise one would count what another allocates.

use std::alloc::System;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use envelope::error::TooLarge;
use envelope::fixtures::{Installation, KeyPackageBuilder, group_id, group_message, key_package};
use envelope::payload::decoder::READS_MAX;
use envelope::weight::{self, BYTES_PER_ENCODED_BYTE, FREE_BYTES, Shaped, TooHeavy};
use envelope::wire::xmtp::backend::v1::{
    ClientEnvelope, GetInboxIdsRequest, PublishRequest, QueryNewestRequest, QueryRequest,
    SubscribeRequest, SubscribeStaticRequest, UpdateSubscriptionsRequest,
    VerifySmartContractWalletSignaturesRequest,
};
use envelope::{Error, Limits, parse};
use peakmem_alloc::{INSTRUMENTED_SYSTEM, PeakMemAlloc, PeakMemAllocTrait as _};
use prost::Message;

#[global_allocator]
static ALLOCATOR: &PeakMemAlloc<System> = &INSTRUMENTED_SYSTEM;

static TURN: Mutex<()> = Mutex::new(());

/// The longest request that the transport carries.
const REQUEST_BYTES: usize = 25 << 20;

/// The longest envelope of a deployment that sets no limit.
const ENVELOPE_BYTES: usize = 1 << 20;

/// Lets one test at a time go on.
fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The most memory that `work` had allocated at one time, on top of what was there before.
fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    ALLOCATOR.reset_peak_memory();
    let result = work();
    let peak = ALLOCATOR.get_peak_memory();
    (result, peak)
}

/// A field with a length: one of number below 16, around `content`.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    prost::encoding::encode_varint(content.len() as u64, &mut bytes);
    bytes.extend_from_slice(content);
    bytes
}

/// `element` as often as `length` bytes hold it, inside these fields, outermost first.
fn repeated(element: &[u8], path: &[u8], length: usize) -> Vec<u8> {
    let list = element.repeat(length / element.len());
    path.iter()
        .rev()
        .fold(list, |inner, number| field(*number, &inner))
}

/// One way to make much of little: a name, the repeated bytes, and the fields around them.
type Amplifier = (&'static str, Vec<u8>, &'static [u8]);

/// Envelopes of a publish, and what identity updates list.
fn publish_amplifiers() -> Vec<Amplifier> {
    let envelope = |content: &[u8]| field(1, content);
    let action = |content: &[u8]| field(1, content);
    vec![
        ("envelopes without payload", envelope(&[]), &[]),
        ("empty group messages", envelope(&field(1, &[])), &[]),
        ("empty welcomes", envelope(&field(2, &[])), &[]),
        ("empty key packages", envelope(&field(3, &[])), &[]),
        ("empty identity updates", envelope(&field(4, &[])), &[]),
        ("empty commit-log entries", envelope(&field(5, &[])), &[]),
        ("actions that do nothing", action(&[]), &[1, 4]),
        ("empty creations", action(&field(1, &[])), &[1, 4]),
        ("empty additions", action(&field(2, &[])), &[1, 4]),
        ("empty revocations", action(&field(3, &[])), &[1, 4]),
        ("empty recovery changes", action(&field(4, &[])), &[1, 4]),
        (
            "additions of empty passkeys with empty passkey signatures",
            action(&field(
                2,
                &[
                    field(1, &field(3, &[])),
                    field(2, &field(5, &[])),
                    field(3, &field(5, &[])),
                ]
                .concat(),
            )),
            &[1, 4],
        ),
        (
            "revocations with empty legacy signatures",
            action(&field(3, &field(2, &field(4, &[])))),
            &[1, 4],
        ),
    ]
}

/// Checks that the weight of a message is what decoding it allocates, and that a request of nothing
/// but such elements is refused.
fn assert_weighed<M: Message + Default + Shaped>((name, element, path): &Amplifier) {
    let bytes = Bytes::from(repeated(element, path, 1 << 18));
    let weight = weight::weigh::<M>(&bytes);
    let (decoded, peak) = peak_of(|| M::decode(bytes.clone()));
    assert!(decoded.is_ok(), "{name}");
    // A list that grows keeps up to twice what it needs. Small allocations are rounded up.
    assert!(
        peak <= weight * 2 + (1 << 16),
        "{name}: {peak} allocated, {weight} weighed"
    );
    assert!(
        peak >= weight / 2,
        "{name}: {peak} allocated, {weight} weighed"
    );

    let request = repeated(element, path, REQUEST_BYTES / 5);
    let (verdict, peak) = peak_of(|| weight::check::<M>(&request));
    assert_eq!(verdict, Err(TooHeavy), "{name}");
    assert!(peak < 1 << 10, "{name}: the scan allocated {peak}");
}

/// Every list of a publish, filled with its smallest elements: refused before it is decoded, and
/// weighed truthfully. Without this, 25 MiB of them took gigabytes (ARC-010).
#[test]
fn small_elements_of_a_publish_are_weighed_before_they_are_decoded() {
    let _turn = turn();
    for amplifier in publish_amplifiers() {
        assert_weighed::<PublishRequest>(&amplifier);
    }
}

/// The lists of every other request (ARC-010).
#[test]
fn small_elements_of_reads_and_subscriptions_are_weighed_before_they_are_decoded() {
    let _turn = turn();
    let empty = |number| field(number, &[]);
    assert_weighed::<QueryRequest>(&("queries", empty(1), &[]));
    assert_weighed::<QueryNewestRequest>(&("newest", empty(1), &[]));
    assert_weighed::<SubscribeRequest>(&("adds", empty(2), &[1]));
    assert_weighed::<SubscribeRequest>(&("removes", empty(3), &[1]));
    assert_weighed::<SubscribeStaticRequest>(&("static", empty(1), &[]));
    assert_weighed::<GetInboxIdsRequest>(&("lookups", empty(1), &[]));
    assert_weighed::<VerifySmartContractWalletSignaturesRequest>(&("verify", empty(1), &[]));
    assert_weighed::<UpdateSubscriptionsRequest>(&("push adds", empty(3), &[]));
    assert_weighed::<UpdateSubscriptionsRequest>(&("push removes", empty(4), &[]));
    assert_weighed::<UpdateSubscriptionsRequest>(&("push keys", empty(3), &[3]));
}

/// What decoding skips costs nothing and is let through: unknown fields of every form, nested
/// groups included (ARC-010).
#[test]
fn unknown_fields_cost_no_memory() {
    let _turn = turn();
    let cases: [(&str, &[u8]); 5] = [
        ("numbers", &[0x78, 0x00]),
        ("eight bytes", &[0x79, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("four bytes", &[0x7d, 1, 2, 3, 4]),
        ("byte strings", &[0x7a, 0x00]),
        ("groups", &[0x7b, 0x7b, 0x78, 0x00, 0x7c, 0x7c]),
    ];
    for (name, element) in cases {
        let bytes = Bytes::from(element.repeat((4 << 20) / element.len()));
        assert_eq!(weight::check::<PublishRequest>(&bytes), Ok(()), "{name}");
        let (decoded, peak) = peak_of(|| PublishRequest::decode(bytes));
        assert!(decoded.unwrap().envelopes.is_empty());
        assert!(peak < 1 << 10, "{name}: {peak}");
    }
}

/// The limit itself: as many elements as it lets through pass, and one more does not. What passes
/// decodes to twice the limit at most, because a list grows by doubling.
#[test]
fn the_heaviest_request_takes_a_few_times_its_length() {
    let _turn = turn();
    let element = field(1, &[]);
    let weight = weight::weigh::<QueryRequest>(&element);
    // An unknown field, which weighs nothing, fills the request up to its length.
    let request = |elements: usize| {
        let mut bytes = element.repeat(elements);
        bytes.extend(field(15, &vec![0; REQUEST_BYTES - bytes.len() - 5]));
        assert_eq!(bytes.len(), REQUEST_BYTES);
        bytes
    };
    let limit = REQUEST_BYTES * BYTES_PER_ENCODED_BYTE + FREE_BYTES;
    let most = limit / weight;
    let one_more = request(most + 1);
    assert_eq!(weight::check::<QueryRequest>(&one_more), Err(TooHeavy));
    drop(one_more);
    let heaviest = Bytes::from(request(most));
    assert_eq!(weight::check::<QueryRequest>(&heaviest), Ok(()));
    let (decoded, peak) = peak_of(|| QueryRequest::decode(heaviest));
    assert_eq!(decoded.unwrap().queries.len(), most);
    assert!(peak <= 2 * limit, "{peak} of {limit}");
}

/// What clients send is never near the limit: full lists of the elements they have reason to send.
#[test]
fn requests_with_content_are_let_through() {
    let _turn = turn();
    let topic = [&[0][..], &[7; 16]].concat();
    let query = field(1, &field(1, &field(1, &topic)));
    let newest = field(1, &field(1, &topic));
    let subscription = field(3, &field(1, &topic));
    let message = PublishRequest {
        envelopes: vec![group_message::application(&group_id(1))],
    };
    let full = |element: &[u8]| element.repeat(REQUEST_BYTES / 5 / element.len());
    assert_eq!(weight::check::<QueryRequest>(&full(&query)), Ok(()));
    assert_eq!(weight::check::<QueryNewestRequest>(&full(&newest)), Ok(()));
    assert_eq!(
        weight::check::<UpdateSubscriptionsRequest>(&full(&subscription)),
        Ok(())
    );
    let message = full(&message.encode_to_vec());
    assert_eq!(weight::check::<PublishRequest>(&message), Ok(()));
}

/// Bytes that do not decode stop the scan where they stop the decoder: what is in front of the fault
/// is weighed, whatever the fault is.
#[test]
fn the_scan_ends_where_decoding_ends() {
    let _turn = turn();
    let sound = field(1, &[]).repeat(3);
    let weight = weight::weigh::<QueryRequest>(&sound);
    let faults: [(&str, &[u8]); 8] = [
        ("a key without end", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("a length without bytes", &[0x0a, 0x7f, 0x00]),
        (
            "a length beyond all memory",
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f],
        ),
        ("a message that is a number", &[0x08, 0x01]),
        ("a group that never began", &[0x0c]),
        ("a group without end", &[0x7b, 0x78]),
        ("a form that does not exist", &[0x0e]),
        (
            "a number of eleven bytes",
            &[
                0x78, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0,
            ],
        ),
    ];
    for (name, fault) in faults {
        let bytes = [&sound, fault, &sound].concat();
        assert_eq!(weight::weigh::<QueryRequest>(&bytes), weight, "{name}");
        assert!(QueryRequest::decode(&*bytes).is_err(), "{name}");
    }
}

fn parsed(envelope: ClientEnvelope) -> Result<(), Error> {
    let limits = Limits {
        envelope_bytes_max: ENVELOPE_BYTES + 1024,
        contract_signatures_max: 100,
    };
    parse(envelope, limits).map(drop)
}

/// A package whose leaf says that it supports so many extensions, two bytes each.
fn package_with_capabilities(extensions: usize) -> ClientEnvelope {
    let mut package = KeyPackageBuilder::new(&Installation::numbered(1), "inbox");
    package.capabilities[2] = vec![0xf00d; extensions];
    package.envelope()
}

/// The parts of an MLS payload are counted while it is decoded: far more than a client sends are let
/// through, and as many as fit an envelope are not.
#[test]
fn mls_payloads_of_too_many_parts_are_refused() {
    let _turn = turn();
    assert_eq!(parsed(package_with_capabilities(READS_MAX * 3 / 4)), Ok(()));
    let refused = Err(Error::TooLarge(TooLarge::MlsParts));
    assert_eq!(parsed(package_with_capabilities(READS_MAX)), refused);
    // A public commit of proposals to leave, three bytes each.
    let commit = |proposals: usize| {
        let proposals = [1, 0, 10].repeat(proposals);
        group_message::with_data(group_message::public_commit_of(&group_id(1), &proposals))
    };
    assert_eq!(parsed(commit(READS_MAX / 4)), Ok(()));
    assert_eq!(parsed(commit(READS_MAX)), refused);
}

/// A payload of one mebibyte takes a small multiple of that to decode, whatever it claims to hold:
/// trees, extensions, capabilities, proposals (ARC-010, case 12).
#[test]
fn mls_payloads_take_a_small_multiple_of_their_length() {
    let _turn = turn();
    let extension = |kind: u16, data: Vec<u8>| {
        let mut package = KeyPackageBuilder::new(&Installation::numbered(1), "inbox");
        package.extensions = vec![(kind, data)];
        package.envelope()
    };
    let list = |element: &[u8]| {
        let content = element.repeat((ENVELOPE_BYTES - 2048) / element.len());
        let length = u32::try_from(content.len()).unwrap() | 0x8000_0000;
        [&length.to_be_bytes()[..], &content].concat()
    };
    // A node that is there, a leaf, without keys, of a basic credential, made for an update.
    let leaf = [1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0];
    let cases = [
        ("a tree of blank nodes", extension(2, list(&[0]))),
        ("a tree of parents", extension(2, list(&[1, 2, 0, 0, 0]))),
        ("a tree of leaves", extension(2, list(&leaf))),
        ("external senders", extension(5, list(&[0, 0, 1, 0]))),
        ("a dictionary", extension(6, list(&[0, 1, 0]))),
        ("required capabilities", extension(3, list(&[0, 1]))),
        (
            "extensions",
            key_package::with_bytes(&{
                let mut package = KeyPackageBuilder::new(&Installation::numbered(1), "inbox");
                package.extensions = (0x0100..u16::MAX).map(|kind| (kind, Vec::new())).collect();
                package.bytes()
            }),
        ),
        (
            "capabilities",
            package_with_capabilities(ENVELOPE_BYTES / 2 - 2048),
        ),
        (
            "proposals",
            group_message::with_data(group_message::public_commit_of(
                &group_id(1),
                &[1, 0, 10].repeat(ENVELOPE_BYTES / 3 - 1024),
            )),
        ),
        (
            "proposals by reference",
            group_message::with_data(group_message::public_commit_of(
                &group_id(1),
                &[2, 0].repeat(ENVELOPE_BYTES / 2 - 1024),
            )),
        ),
    ];
    for (name, envelope) in cases {
        let (_, peak) = peak_of(|| parsed(envelope));
        assert!(peak <= 32 * ENVELOPE_BYTES, "{name}: {peak}");
    }
}
