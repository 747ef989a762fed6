//! Wrong builds, each of which a check of this file must catch.
//!
//! | build | what is wrong | caught by |
//! | --- | --- | --- |
//! | `forward later` | the forward scan has a later snapshot than the probe | random, exhaustive, scripted |
//! | `boundary later` | the boundary has a later snapshot than the probe | random, exhaustive, scripted |
//! | `boundary of the primary` | rows from the standby, boundary from the primary | random, scripted |
//! | `forward not withheld` | forward rows are delivered after a cut probe | random, exhaustive |
//! | `retired past the cut` | a cut probe retires up to the boundary | random, exhaustive |
//! | `retired by time` | a missing id is given up after two probes | random, exhaustive |
//! | `gaps not recorded` | ids that a forward row jumps over are forgotten | random, exhaustive |
//! | `cursor to the sequence` | a poll ends at the sequence value, not at the boundary | random, exhaustive |
//! | `cursor past a full page` | a full forward page ends at the boundary | random, exhaustive |
//! | `range dropped` | the lowest range is forgotten at capacity | random |
//! | `no barrier` | publishers allocate without the barrier | random, exhaustive |
//! | `no topic lock` | publishers allocate without their topic locks | random, exhaustive |
//! | `barrier released early` | the sequence is read after the barrier was let go | random, exhaustive |
//! | `start without waiting` | a start at a boundary the server does not show yet | random |
//! | `start at the greatest row` | a start at the greatest visible id | random |
//!
//! Faults of the state machine stand in the reference ([`crate::tail::Fault`]), which otherwise
//! agrees with the crate page by page; the crate itself has no switch that could be left on.

use gapless::{Id, Page, Start};

use crate::database::{Database, Flaw, Row, Server};
use crate::exhaustive;
use crate::random;
use crate::tail::{Fault, Query};

/// How a page is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    OneSnapshot,
    ForwardLater,
    BoundaryLater,
    BoundaryOfPrimary,
}

impl Reading {
    /// Replaces the part of `page` that this build reads in a snapshot of its own.
    pub(crate) fn reread(
        self,
        page: &mut Page<Row>,
        query: &Query,
        database: &Database,
        server: Server,
    ) {
        match self {
            Self::OneSnapshot => {}
            Self::ForwardLater => page.forward = query.forward(database.snapshot(server)),
            Self::BoundaryLater => page.boundary = database.snapshot(server).boundary(),
            Self::BoundaryOfPrimary => {
                page.boundary = database.snapshot(Server::Primary).boundary();
            }
        }
    }
}

/// Where a generation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// Where the server shows the required boundary, or more.
    Shown,
    /// At the required boundary, whatever the server shows.
    Required,
    /// At the greatest row that the server shows.
    GreatestRow,
}

impl Beginning {
    /// The boundary that this build takes the server to show.
    pub(crate) fn boundary(self, start: Start, database: &Database, server: Server) -> Option<Id> {
        let snapshot = database.snapshot(server);
        match self {
            Self::Shown => Some(snapshot.boundary()),
            Self::Required => Some(start.required()),
            Self::GreatestRow => snapshot.rows(|_| true, usize::MAX).last().map(|row| row.id),
        }
    }
}

/// A way to build the whole: right, or wrong in one place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Build {
    pub(crate) name: &'static str,
    pub(crate) fault: Option<Fault>,
    pub(crate) reading: Reading,
    pub(crate) flaw: Option<Flaw>,
    pub(crate) beginning: Beginning,
}

impl Build {
    pub(crate) const SOUND: Self = Self {
        name: "sound",
        fault: None,
        reading: Reading::OneSnapshot,
        flaw: None,
        beginning: Beginning::Shown,
    };

    const fn fault(name: &'static str, fault: Fault) -> Self {
        Self {
            name,
            fault: Some(fault),
            ..Self::SOUND
        }
    }

    const fn reading(name: &'static str, reading: Reading) -> Self {
        Self {
            name,
            reading,
            ..Self::SOUND
        }
    }

    const fn flaw(name: &'static str, flaw: Flaw) -> Self {
        Self {
            name,
            flaw: Some(flaw),
            ..Self::SOUND
        }
    }

    const fn beginning(name: &'static str, beginning: Beginning) -> Self {
        Self {
            name,
            beginning,
            ..Self::SOUND
        }
    }
}

/// Builds that a small history can catch.
const WRONG_IN_SMALL: [Build; 11] = [
    Build::reading("forward later", Reading::ForwardLater),
    Build::reading("boundary later", Reading::BoundaryLater),
    Build::fault("forward not withheld", Fault::ForwardNotWithheld),
    Build::fault("retired past the cut", Fault::RetirePastCut),
    Build::fault("retired by time", Fault::RetireByTime),
    Build::fault("gaps not recorded", Fault::GapsNotRecorded),
    Build::fault("cursor to the sequence", Fault::CursorToSequence),
    Build::fault("cursor past a full page", Fault::CursorPastFullPage),
    Build::flaw("no barrier", Flaw::NoBarrier),
    Build::flaw("no topic lock", Flaw::NoTopicLock),
    Build::flaw("barrier released early", Flaw::BarrierReleasedEarly),
];

/// Builds that need a standby, many gaps or more than one generation.
const WRONG_AT_LARGE: [Build; 4] = [
    Build::reading("boundary of the primary", Reading::BoundaryOfPrimary),
    Build::fault("range dropped", Fault::RangeDroppedAtCapacity),
    Build::beginning("start without waiting", Beginning::Required),
    Build::beginning("start at the greatest row", Beginning::GreatestRow),
];

/// Goal: the random histories catch every wrong build (ARC-112).
/// Method: up to [`SEEDS_MAX`] seeds for each; the seed and the violation are printed. The rarest
/// need some hundred seeds.
#[test]
fn random_histories_catch_every_wrong_build() {
    const SEEDS_MAX: u64 = 20_000;
    for build in WRONG_IN_SMALL.iter().chain(&WRONG_AT_LARGE) {
        let caught =
            (1..=SEEDS_MAX).find_map(|seed| random::run(build, seed).err().map(|v| (seed, v)));
        let Some((seed, violation)) = caught else {
            panic!("{} passed {SEEDS_MAX} seeds", build.name);
        };
        println!("{}: seed {seed}, {violation:?}", build.name);
        assert!(
            random::run(&Build::SOUND, seed).is_ok(),
            "seed {seed} fails without the fault"
        );
    }
}

/// Goal: the exhaustive search catches every wrong build that shows in three transactions, with no
/// luck involved (ARC-112).
/// Method: the same cases that the right build passes, until the first violation.
#[test]
fn small_histories_catch_every_wrong_build() {
    for build in &WRONG_IN_SMALL {
        let caught = exhaustive::CASES
            .iter()
            .find_map(|case| exhaustive::search(build, case).err().map(|v| (case, v)));
        let Some((case, violation)) = caught else {
            panic!("{} passed every small history", build.name);
        };
        println!("{}: {case:?}, {violation:?}", build.name);
    }
}
