//! Turns Ctrl-C, SIGTERM and SIGHUP into a flag that every wait of this program looks at, so that
//! what was started is stopped before the program ends. Never ends the program by itself.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Says whether a signal asked this program to stop.
#[derive(Clone)]
pub(crate) struct Interrupt(Arc<AtomicUsize>);

/// The program was asked to stop before its work was done.
#[derive(Debug)]
pub(crate) struct Interrupted {
    signal: usize,
}

impl Interrupt {
    /// Catches the signals from here on.
    pub(crate) fn install() -> anyhow::Result<Self> {
        let caught = Arc::new(AtomicUsize::new(0));
        for (signal, mark) in [(SIGINT, 2), (SIGTERM, 15), (SIGHUP, 1)] {
            signal_hook::flag::register_usize(signal, Arc::clone(&caught), mark)
                .context("cannot catch signals")?;
        }
        Ok(Self(caught))
    }

    /// Fails once a signal was caught.
    pub(crate) fn check(&self) -> Result<(), Interrupted> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            signal => Err(Interrupted { signal }),
        }
    }
}

impl Interrupted {
    /// The exit status that shells expect of a program ended by this signal.
    pub(crate) fn status(&self) -> u8 {
        u8::try_from(128 + self.signal).unwrap_or(u8::MAX)
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped by signal {}", self.signal)
    }
}

impl std::error::Error for Interrupted {}
