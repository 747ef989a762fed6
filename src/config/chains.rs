//! The `[chains]` map: the RPC endpoint of each chain, keyed by CAIP-2 id.

use std::collections::BTreeMap;
use std::fmt;

use url::Url;

use super::form;
use super::key::{Rule, map, text};
use super::secret::Secret;

/// The namespace of all supported chains.
const NAMESPACE: &str = "eip155:";

/// A CAIP-2 chain id of the `eip155` namespace, without leading zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId(pub u64);

impl ChainId {
    /// Reads a CAIP-2 id: `eip155:` and a decimal number without sign and leading zeros.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let number = text.strip_prefix(NAMESPACE)?;
        let digits = number.bytes().all(|byte| byte.is_ascii_digit());
        let leading_zero = number.len() > 1 && number.starts_with('0');
        if !digits || leading_zero {
            None
        } else {
            number.parse().ok().map(Self)
        }
    }
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{NAMESPACE}{}", self.0)
    }
}

/// The rule of the map.
pub(super) fn rule() -> Rule<BTreeMap<ChainId, Secret<Url>>> {
    // The pattern counts digits; only the parser knows where 64 bits end.
    let id = form::pattern(
        "^eip155:(0|[1-9][0-9]{0,19})$",
        "a CAIP-2 id such as eip155:1, at most eip155:18446744073709551615",
        ChainId::parse,
    );
    map(None, id, text(form::http_url()).secret())
}
