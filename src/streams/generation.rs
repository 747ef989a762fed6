//! One generation of recovery: what streams may assume together, until it is void (ARC-041).

use std::sync::OnceLock;

use tokio_util::sync::CancellationToken;

use super::end::End;
use super::registry::Registry;
use crate::db::ServerIdentity;

/// The streams that share one tailer's state. They end with it.
#[derive(Debug)]
pub(super) struct Generation {
    /// The server that the tailer reads from. What another one shows proves nothing here.
    pub(super) server: ServerIdentity,
    /// Who follows what.
    pub(super) registry: Registry,
    end: OnceLock<End>,
    over: CancellationToken,
}

impl Generation {
    /// A generation without streams.
    pub(super) fn new(server: ServerIdentity) -> Self {
        Self {
            server,
            registry: Registry::default(),
            end: OnceLock::new(),
            over: CancellationToken::new(),
        }
    }

    /// Ends all its streams. The first reason counts.
    pub(super) fn end(&self, end: End) {
        let _ = self.end.set(end);
        self.over.cancel();
    }

    /// Returns once the generation is over.
    pub(super) async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Why it is over, if it is.
    pub(super) fn why(&self) -> Option<End> {
        self.end.get().cloned()
    }
}
