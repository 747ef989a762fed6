//! What several tests begin with: messages, inboxes, and what to read from an answer.

use envelope::fixtures::{UpdateBuilder, Wallet, group_id, group_message, update_envelope};
use envelope::wire::xmtp::backend::v1::{
    ClientEnvelope, EnvelopeMeta, PublishError, PublishResponse, publish_error,
};
use envelope::wire::xmtp::identity::associations::IdentityUpdate;
use envelope::{Topic, TopicKind};
use prost::Message as _;
use tonic::{Code, Status};
use tonic_types::pb;

/// The topic of the group of that number.
pub(crate) fn group_topic(group: u64) -> Topic {
    Topic::new(TopicKind::GroupMessage, &group_id(group)).unwrap()
}

/// An application message for the group of that number, different for every `number`.
pub(crate) fn message(group: u64, number: u64) -> ClientEnvelope {
    group_message::numbered_application(&group_id(group), number)
}

/// The topic of an inbox.
pub(crate) fn inbox_topic(inbox_id: &str) -> Topic {
    Topic::new(TopicKind::IdentityUpdate, &hex::decode(inbox_id).unwrap()).unwrap()
}

/// The update by which a wallet creates its inbox.
pub(crate) fn creation(wallet: &Wallet) -> IdentityUpdate {
    UpdateBuilder::creating(wallet, 0).build()
}

/// A further update of a wallet's inbox, different for every `number`: the wallet confirms itself
/// as the recovery address. One signature, and no end to how often it can be done. The signed text
/// tells seconds apart, so that is what the numbers are.
pub(crate) fn confirmation(wallet: &Wallet, inbox_id: &str, number: u64) -> ClientEnvelope {
    let update = UpdateBuilder::new(inbox_id)
        .at(number * 1_000_000_000)
        .change_recovery(wallet, &wallet.address())
        .build();
    update_envelope(update)
}

/// The metadata of a successful publish.
pub(crate) fn metas(answer: Result<PublishResponse, Status>) -> Vec<EnvelopeMeta> {
    answer.expect("the publish succeeds").envelope_metas
}

/// The id of one envelope.
pub(crate) fn id_of(meta: &EnvelopeMeta) -> u64 {
    meta.cursor
        .as_ref()
        .expect("a stored envelope has an id")
        .sequence_id
}

/// The ids of a successful publish, in input order.
pub(crate) fn ids(answer: Result<PublishResponse, Status>) -> Vec<u64> {
    metas(answer).iter().map(id_of).collect()
}

/// The status code of a failed publish.
pub(crate) fn code(answer: Result<PublishResponse, Status>) -> Code {
    answer.expect_err("the publish fails").code()
}

/// The index and the reason of a rejected publish.
pub(crate) fn rejection(
    answer: Result<PublishResponse, Status>,
) -> (Option<u32>, publish_error::Reason) {
    let status = answer.expect_err("the publish is rejected");
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    let details = pb::Status::decode(status.details()).unwrap();
    let [detail] = details.details.as_slice() else {
        panic!("one detail, not {}", details.details.len());
    };
    let error = PublishError::decode(detail.value.as_slice()).unwrap();
    (error.index, error.reason())
}
