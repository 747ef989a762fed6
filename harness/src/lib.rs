//! What the integration tests and the benchmarks stand on: a database of their own, a running
//! server, and clients that speak every protocol of the port.
//!
//! Nothing here is part of the server. Failures are panics: whoever calls this is a test.

mod database;
mod server;
mod transport;
mod web;

pub use database::TestDatabase;
pub use server::{TestServer, TestServerBuilder};
pub use transport::{Transport, channel};
pub use web::{Form, Http, WebCall};
