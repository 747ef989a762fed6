//! What a server says to open and enter a scope.
//!
//! Nothing here may know what a scope is for.

use http::request::Parts;

/// Something that is current while code of its request runs.
pub trait Scope: Clone + Send + Sync + 'static {
    /// Keeps the scope entered; dropping it leaves the scope.
    type Entered<'a>
    where
        Self: 'a;

    /// Enters the scope on this thread.
    fn enter(&self) -> Self::Entered<'_>;
}

/// Opens the scope of a request.
pub trait Open {
    /// What is opened.
    type Scope: Scope;

    /// Opens a scope for the request with this head, extensions included.
    fn open(&self, head: &Parts) -> Self::Scope;
}

impl<F, S> Open for F
where
    F: Fn(&Parts) -> S,
    S: Scope,
{
    type Scope = S;

    fn open(&self, head: &Parts) -> S {
        self(head)
    }
}
