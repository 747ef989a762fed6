//! Who may call: named API keys, and tokens signed by keys that the operator trusts.
//!
//! Admission asks one question, [`Authenticator::judge`], about the headers of a request. API keys
//! are compared first; what matches none is read as a JSON Web Token when there are keys for tokens.
//! The answer is a [`Principal`] or one of ten [`Rejection`]s, each with a fixed text.
//!
//! Tokens are read here, member by member, and only the raw signature is left to a library: a
//! reader that accepts more, or reads a claim of the wrong type as absent, lets somebody in. No key
//! is fetched and no second key is tried on behalf of a request.
//!
//! The key set of a URL is loaded before anything is served and refreshed in the background. One
//! that could not be refreshed for too long is not trusted any more, and ends the server.
//!
//! Nothing here may print a token, an API key, a claim, a URL or key material, digests of them
//! included, nor keep the error of a library that does (ARC-101).

mod api_keys;
mod authenticator;
mod claims;
mod credential;
mod error;
mod freshness;
mod jwks;
mod key;
mod key_set;
mod open;
mod principal;
mod rejection;
mod token;

#[cfg(test)]
mod tests;

pub use authenticator::Authenticator;
pub use error::{Cause, Error, KeyProblem};
pub use key_set::PublishedKey;
pub use open::{Access, open};
pub use principal::Principal;
pub use rejection::Rejection;
