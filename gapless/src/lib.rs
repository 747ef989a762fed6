//! Tail a table whose ids come from a sequence and commit out of order, without skipping,
//! repeating or reordering a row.
//!
//! This crate decides; it never reads. It holds no SQL, clock, runtime or lock, and knows nothing
//! of what a row carries. The caller reads one page per statement and hands it over; the answer
//! says what to deliver and what to read next. Answers ARC-037, ARC-038 and, for the part that
//! needs no database, ARC-040 to ARC-042.
//!
//! # The problem
//!
//! A sequence hands out ids before the transactions that asked for them commit. Id 5 may become
//! visible after id 6, so a reader that remembers only the greatest id it has seen never goes
//! back for 5. Nor can it wait for 5: a transaction that rolled back leaves a hole for ever, and a
//! missing row looks the same in both cases, as it does on a standby that has not replayed the
//! commit yet. Any timeout is a guess that turns into a lost row on a slow day.
//!
//! # The answer
//!
//! Three things are remembered: the *cursor*, above which everything is unread, the *missing* ranges
//! below it, and the last *closed boundary*. Every page is one snapshot of three things:
//!
//! 1. the boundary `b`, written by somebody who has made sure that every transaction that was ever
//!    given an id `<= b` has ended;
//! 2. the *probe*: rows inside the missing ranges, which are late commits;
//! 3. the *forward* rows above the cursor, which are delivered at once, whether or not something
//!    below them is missing. The boundary is no ceiling.
//!
//! A missing id leaves its range in two ways only: its row is found, or one snapshot shows both
//! that it is absent and that the boundary has passed it. Ids that a forward row jumps over become
//! missing, except those the boundary of the same page already covers.
//!
//! # What the caller promises
//!
//! | | promise | who keeps it |
//! | --- | --- | --- |
//! | 1 | a writer takes a barrier in shared mode before it allocates and keeps it until it has ended | every writer |
//! | 2 | a boundary is written by a transaction that holds the barrier alone and then reads the sequence | the boundary task |
//! | 3 | rows that share a key (a topic, say) are allocated and committed one transaction after the other | a lock per key, taken before the id |
//! | 4 | boundary, probe and forward rows of a page are one snapshot, and no page is older than the one before | one statement, one server |
//! | 5 | the sequence caches nothing, does not cycle and is never set back | the schema |
//! | 6 | pages are applied one after the other, each read by the [`Plan`] of that moment | the poll loop |
//!
//! What a page can show of a broken promise is refused as a [`Contradiction`]; the rest cannot be
//! seen from here.
//!
//! # Why it holds
//!
//! *A snapshot with boundary `b` shows every row `<= b` that will ever exist* (1, 2): the writers
//! of those ids had ended, and become visible, before the boundary could be written. Commits are
//! replayed in order, so this is as true on a standby, with the boundary that the standby shows.
//!
//! *Nothing is lost.* Take a row that commits with an id above the start. When the cursor passed
//! the id, the row was in that page, and was delivered, or was absent. Absent at or below the
//! boundary of the page is impossible by the line above. So the id became missing, and left either
//! because its row was found or because of a boundary, which is impossible again. As every poll
//! probes all ranges, the first snapshot with the row delivers it.
//!
//! *Nothing comes twice.* The cursor passes each forward row, a found id leaves its range, and
//! nothing becomes missing below the cursor.
//!
//! *The order of a key is kept.* Let `y` come before `x` under one key. A snapshot that shows `x`
//! shows `y` (3). If `y` was not delivered before, it is in the page that delivers `x`: as a lower
//! forward row, or in a missing range and so in the probe. Probe rows lie below the cursor, forward
//! rows above, hence `y` goes first. The one exception is a probe that was cut by the page limit
//! before it reached `y`; then every forward row of the page is withheld and read again later.
//!
//! # Example
//!
//! Id 1 is open while id 2 commits; then 1 commits as well. Rows are `(id, what the caller likes)`.
//!
//! ```
//! use std::num::NonZeroU16;
//! use gapless::{Limits, Next, Page, Start};
//!
//! let limits = Limits { page_rows: NonZeroU16::new(1024).ok_or("zero")?, ranges_max: 10_000 };
//!
//! // The boundary task closed nothing yet (0), and the server we read from shows that.
//! let mut state = Start::after(0).observe(Some(0), limits).ok_or("not visible yet")?;
//! assert_eq!(state.plan().after, 0);
//!
//! // First page: only row 2 is visible. It is delivered, and 1 is remembered.
//! let outcome = state.apply(Page { boundary: 0, probe: vec![], forward: vec![(2, "second")] })?;
//! assert_eq!(outcome.deliver, [(2, "second")]);
//! assert_eq!(outcome.next, Next::Wait);
//! assert_eq!((state.plan().lows, state.plan().highs, state.plan().after), (&[1][..], &[1][..], 2));
//!
//! // Next poll: row 1 has committed and comes out of the probe.
//! let outcome = state.apply(Page { boundary: 0, probe: vec![(1, "first")], forward: vec![] })?;
//! assert_eq!(outcome.deliver, [(1, "first")]);
//! assert!(state.plan().lows.is_empty());
//!
//! // Row 4 appears over a hole at 3. The hole survives a probe, so a boundary is asked for; once
//! // the boundary has passed it, it is gone for good.
//! state.apply(Page { boundary: 0, probe: vec![], forward: vec![(4, "fourth")] })?;
//! let outcome = state.apply(Page::<(i64, &str)> { boundary: 0, probe: vec![], forward: vec![] })?;
//! assert_eq!(outcome.want_boundary, Some(3));
//! let outcome = state.apply(Page::<(i64, &str)> { boundary: 4, probe: vec![], forward: vec![] })?;
//! assert_eq!(outcome.want_boundary, None);
//! assert!(state.plan().lows.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod page;
mod ranges;
mod start;
mod state;

pub use error::{Contradiction, Error, Scan};
pub use page::{Next, Outcome, Page, Plan, Sequenced};
pub use start::Start;
pub use state::{Limits, State};

/// A value of the sequence: a row's id, or a boundary.
///
/// It is the database's own 64-bit signed integer, so that a [`Plan`] can be bound as it stands. A
/// sequence that was never used has boundary 0 and hands out 1 first; nothing here depends on that.
pub type Id = i64;
