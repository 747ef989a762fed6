//! Welcomes: where one is delivered to.
//!
//! The destination may be an installation key or a random address, and nothing tells them apart.
//! Everything else in a welcome is opaque here (ARC-092).

use crate::error::Malformed;
use crate::topic::{Topic, TopicKind};
use crate::wire::xmtp::backend::v1::WelcomeMessage;
use crate::wire::xmtp::backend::v1::welcome_message::Version;

/// The topic of a welcome's destination.
///
/// # Errors
///
/// [`Malformed::WelcomeVersionUnset`], or [`Malformed::InstallationKey`] for a destination that is
/// not 32 bytes.
pub fn topic(welcome: &WelcomeMessage) -> Result<Topic, Malformed> {
    let destination = match welcome
        .version
        .as_ref()
        .ok_or(Malformed::WelcomeVersionUnset)?
    {
        Version::V1(welcome) => &welcome.installation_key,
        Version::WelcomePointer(pointer) => &pointer.installation_key,
    };
    Topic::new(TopicKind::Welcome, destination).map_err(|_| Malformed::InstallationKey)
}
