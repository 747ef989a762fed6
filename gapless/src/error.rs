//! What makes a page unacceptable: no room for another gap, or a fact that cannot be true.
//!
//! Nothing here is ever repaired by forgetting a range (ARC-042). Texts name ids and counts only.

use std::fmt;

use thiserror::Error;

use crate::Id;

/// Why a page was refused. A refused page changed nothing, and none of its rows may be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The page would leave more missing ranges than the reader may keep (ARC-042).
    #[error("{ranges} missing ranges exceed the limit of {ranges_max}")]
    Capacity {
        /// Ranges that would be missing after the page.
        ranges: usize,
        /// The limit, [`Limits::ranges_max`](crate::Limits::ranges_max).
        ranges_max: usize,
    },
    /// The page cannot be what one snapshot of a sound log answers to the plan.
    #[error("the page contradicts the state")]
    Contradiction(#[from] Contradiction),
}

/// A fact in a page that a sound log and an honest reader cannot produce.
///
/// Either a promise of the [crate page](crate) is broken or the caller is at fault; what was
/// remembered can no longer be relied upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Contradiction {
    /// The boundary is below that of an earlier page: the log or the server was exchanged.
    #[error("the boundary went back from {previous} to {boundary}")]
    BoundaryWentBack {
        /// The boundary of the last page.
        previous: Id,
        /// The boundary of this page.
        boundary: Id,
    },
    /// A scan returned more rows than the plan asked for.
    #[error("the {scan} scan returned {rows} rows over a limit of {limit}")]
    TooManyRows {
        /// The scan in question.
        scan: Scan,
        /// Rows returned.
        rows: usize,
        /// Rows asked for, at most.
        limit: usize,
    },
    /// A row does not have a greater id than the row before it.
    #[error("the {scan} scan returned id {id} after id {previous}")]
    OutOfOrder {
        /// The scan in question.
        scan: Scan,
        /// Id of the row before.
        previous: Id,
        /// Id of the row.
        id: Id,
    },
    /// A probe row lies outside of the missing ranges.
    #[error("the probe scan returned id {id}, which is not missing")]
    NotMissing {
        /// Id of the row.
        id: Id,
    },
    /// A forward row does not lie above the cursor.
    #[error("the forward scan returned id {id}, not above the cursor {cursor}")]
    NotAboveCursor {
        /// Id of the row.
        id: Id,
        /// The cursor the plan asked to read after.
        cursor: Id,
    },
}

/// One of the two scans of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// Rows inside the missing ranges.
    Probe,
    /// Rows above the cursor.
    Forward,
}

impl fmt::Display for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Probe => "probe",
            Self::Forward => "forward",
        })
    }
}
