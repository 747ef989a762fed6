//! Random numbers that a seed replays.
//!
//! A run takes a fresh seed and prints it; `XMTP_TEST_SEED` repeats one run. The numbers are for
//! choosing test cases and for nothing else.

use std::hash::{BuildHasher as _, RandomState};

/// The variable that holds the one seed to run with.
const SEED: &str = "XMTP_TEST_SEED";

/// The seeds to run with: the given one, or as many fresh ones.
pub fn seeds(count: u64) -> Vec<u64> {
    match std::env::var(SEED) {
        Ok(seed) => vec![seed.parse().expect("XMTP_TEST_SEED is a number")],
        Err(_) => (0..count)
            .map(|index| RandomState::new().hash_one(index))
            .collect(),
    }
}

/// A generator: splitmix64, which needs no more state than one number.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed, which is printed for whoever reads of a failure.
    pub fn new(seed: u64) -> Self {
        println!("{SEED}={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A generator of its own, for somebody who runs beside this one.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// A number below a bound that is not 0. The small bias of the remainder does no harm here.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of the choices, of which there is at least one.
    pub fn choose<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        let index = self.below(choices.len() as u64);
        &choices[usize::try_from(index).expect("an index fits")]
    }
}
