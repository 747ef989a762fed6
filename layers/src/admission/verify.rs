//! The question admission asks of the server.
//!
//! Nothing here may know the form of a credential (ARC-002).

use http::{Extensions, HeaderMap};

use crate::refusal::Refusal;

/// A request that wants to be let in, as far as a verdict may depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The raw path.
    pub path: &'a str,
    /// The request headers.
    pub headers: &'a HeaderMap,
    /// What outer layers left, such as a request id for the log of a rejection.
    pub extensions: &'a Extensions,
}

/// Judges requests for paths that are not public.
pub trait Verify {
    /// Who was let in; a clone of it goes into the request extensions.
    type Principal: Clone + Send + Sync + 'static;

    /// The verdict, which owns what it needs of the attempt; [`std::future::Ready`] fits a verifier
    /// that does not wait.
    type Future: Future<Output = Result<Self::Principal, Refusal>>;

    /// Judges one request; the future resolves to the principal or to the answer of the request.
    ///
    /// A request dropped while it is judged drops the future.
    fn verify(&self, attempt: Attempt<'_>) -> Self::Future;
}

impl<F, Q, P> Verify for F
where
    F: Fn(Attempt<'_>) -> Q,
    Q: Future<Output = Result<P, Refusal>>,
    P: Clone + Send + Sync + 'static,
{
    type Principal = P;
    type Future = Q;

    fn verify(&self, attempt: Attempt<'_>) -> Q {
        self(attempt)
    }
}
