//! What the integration tests and the benchmarks stand on: a database of their own, a running
//! server, and clients that speak every protocol of the port.
//!
//! Nothing here is part of the server. Failures are panics: whoever calls this is a test.

mod advisory;
mod asked_wallets;
pub mod chain;
mod database;
mod eventually;
mod key_server;
mod random;
mod raw;
pub mod raw_http2;
mod relay;
mod replicated;
mod server;
mod sessions;
mod signer;
mod subscription;
mod tls_identity;
mod transport;
mod web;

pub use advisory::{AdvisoryLock, AdvisoryLocks, HeldLock, LockState};
pub use asked_wallets::{AskedWallets, Question, Questions};
pub use database::TestDatabase;
pub use eventually::eventually;
pub use key_server::{Answer, KeyServer};
pub use random::{Random, seeds};
pub use raw::RawMessage;
pub use relay::Relay;
pub use replicated::Replicated;
pub use server::{TestServer, TestServerBuilder};
pub use sessions::Sessions;
pub use signer::{Signer, unsigned};
pub use subscription::{StaticSubscription, Subscription};
pub use transport::{Transport, channel};
pub use web::{Form, Http, WebCall, WebStream};
