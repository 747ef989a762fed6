//! Random numbers that a seed replays.

pub(crate) use harness::{Random, seeds};
