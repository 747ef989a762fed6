//! Group messages: the header of the MLS message inside, and the topic it names.
//!
//! Epoch, sender, signature and cipher suite are nobody's business here, and bytes after the message
//! are accepted, kept and hashed (ARC-092).

use openmls::framing::{self, MlsMessageIn};

use super::decoder;
use super::tls::Reader;
use crate::error::{Error, Malformed};
use crate::topic::{Topic, TopicKind};

/// `ProtocolVersion` of MLS 1.0 (RFC 9420 section 6).
const MLS_VERSION: u16 = 1;

/// `WireFormat` numbers of the two bodies that a group message may have (RFC 9420 section 6).
const PUBLIC_MESSAGE: u16 = 1;
const PRIVATE_MESSAGE: u16 = 2;

/// What an MLS message carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// Application data.
    Application,
    /// A proposal to change the group.
    Proposal,
    /// A commit, which changes the group.
    Commit,
}

impl ContentType {
    fn from_byte(byte: u8) -> Result<Self, Malformed> {
        match byte {
            1 => Ok(Self::Application),
            2 => Ok(Self::Proposal),
            3 => Ok(Self::Commit),
            _ => Err(Malformed::MlsMessage),
        }
    }

    /// Whether the message changes the group or asks to.
    #[must_use]
    pub fn is_commit_or_proposal(self) -> bool {
        match self {
            Self::Application => false,
            Self::Proposal | Self::Commit => true,
        }
    }
}

/// What the front of an MLS message says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The topic of the group.
    pub topic: Topic,
    /// What the message carries.
    pub content_type: ContentType,
}

impl Header {
    fn new(group_id: &[u8], content_type: ContentType) -> Result<Self, Malformed> {
        let topic =
            Topic::new(TopicKind::GroupMessage, group_id).map_err(|_| Malformed::GroupId)?;
        Ok(Self {
            topic,
            content_type,
        })
    }
}

/// Reads the MLS message at the front of `data`.
///
/// A private message is skimmed without copying. A public message is decoded in full, the proposal
/// or commit inside included.
///
/// # Errors
///
/// [`Malformed::MlsMessage`] for anything but a complete MLS 1.0 public or private message,
/// [`Malformed::GroupId`] for a group id that is not 16 bytes,
/// [`TooLarge::MlsParts`](crate::error::TooLarge::MlsParts) for a public message of too many parts.
pub fn parse(data: &[u8]) -> Result<Header, Error> {
    let mut reader = Reader::new(data);
    if reader.u16()? != MLS_VERSION {
        return Err(Malformed::MlsMessage.into());
    }
    match reader.u16()? {
        PRIVATE_MESSAGE => Ok(private_message(&mut reader)?),
        PUBLIC_MESSAGE => public_message(data),
        _ => Err(Malformed::MlsMessage.into()),
    }
}

/// `PrivateMessage` (RFC 9420 section 6.3).
fn private_message(reader: &mut Reader<'_>) -> Result<Header, Malformed> {
    let group_id = reader.vector()?;
    let _epoch = reader.u64()?;
    let content_type = ContentType::from_byte(reader.u8()?)?;
    let _authenticated_data = reader.vector()?;
    let _encrypted_sender_data = reader.vector()?;
    let _ciphertext = reader.vector()?;
    Header::new(group_id, content_type)
}

/// `PublicMessage` (RFC 9420 section 6.2), from the front of the whole `MLSMessage`.
fn public_message(data: &[u8]) -> Result<Header, Error> {
    let (message, _): (MlsMessageIn, _) = decoder::decode(data, Malformed::MlsMessage)?;
    let message = message
        .try_into_protocol_message()
        .map_err(|_| Malformed::MlsMessage)?;
    let content_type = match message.content_type() {
        framing::ContentType::Application => ContentType::Application,
        framing::ContentType::Proposal => ContentType::Proposal,
        framing::ContentType::Commit => ContentType::Commit,
    };
    Ok(Header::new(message.group_id().as_slice(), content_type)?)
}
