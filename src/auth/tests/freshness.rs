//! The life of a key set, on a clock that the test moves.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use harness::Signer;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::super::freshness::{Schedule, refresh_until_stale};
use super::super::jwks::{Fetch, load};
use super::super::key_set::KeySet;
use super::super::open::jitter;
use super::super::{Cause, Error};
use crate::metrics::Metrics;
use crate::outbound::Failure;

/// How one fetch goes.
#[derive(Clone, Debug)]
enum Step {
    /// Brings one key with this id.
    Key(&'static str),
    /// Brings that key after a while.
    Late(Duration, &'static str),
    /// Fails.
    Fail(Cause),
    /// Never ends.
    Hang,
}

/// Fetches as it is told, then fails for ever, and remembers when it was asked.
#[derive(Clone, Debug)]
struct Script {
    steps: Arc<Mutex<VecDeque<Step>>>,
    asked: Arc<Mutex<Vec<Duration>>>,
    start: Instant,
}

impl Script {
    fn new(steps: &[Step]) -> Self {
        Self {
            steps: Arc::new(Mutex::new(steps.iter().cloned().collect())),
            asked: Arc::default(),
            start: Instant::now(),
        }
    }

    /// When it was asked, in seconds after its start.
    fn asked(&self) -> Vec<u64> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(Duration::as_secs).collect()
    }

    /// Seconds since its start, which must be whole.
    fn elapsed(&self) -> u64 {
        let elapsed = self.start.elapsed();
        // The timer counts in milliseconds and never fires early.
        assert!(elapsed.subsec_millis() <= 2, "{elapsed:?}");
        elapsed.as_secs()
    }
}

fn one_key(kid: &str) -> KeySet {
    let document = json!({"keys": [Signer::Ed25519.jwk(kid, "EdDSA")]});
    KeySet::parse(document.to_string().as_bytes()).unwrap()
}

impl Fetch for Script {
    async fn fetch(&self) -> Result<KeySet, Cause> {
        self.asked.lock().unwrap().push(self.start.elapsed());
        let step = self.steps.lock().unwrap().pop_front();
        match step.unwrap_or(Step::Fail(Cause::Parse)) {
            Step::Key(kid) => Ok(one_key(kid)),
            Step::Late(after, kid) => {
                sleep(after).await;
                Ok(one_key(kid))
            }
            Step::Fail(cause) => Err(cause),
            Step::Hang => std::future::pending().await,
        }
    }
}

const FAIL: Step = Step::Fail(Cause::Exchange(Failure::Connection));

/// Goal: startup tries three times, a second apart, and then gives up with the last cause. Method:
/// scripts on a paused clock.
#[tokio::test(start_paused = true)]
async fn startup_tries_three_times() {
    let empty = Step::Fail(Cause::NoUsableKeys);
    let cases = [
        (vec![Step::Key("a")], Ok(1), vec![0]),
        (vec![FAIL, Step::Key("a")], Ok(1), vec![0, 1]),
        (vec![FAIL, FAIL, Step::Key("a")], Ok(1), vec![0, 1, 2]),
        (
            vec![FAIL, FAIL, empty, Step::Key("a")],
            Err(Error::KeySet(Cause::NoUsableKeys)),
            vec![0, 1, 2],
        ),
    ];
    for (steps, expected, asked) in cases {
        let script = Script::new(&steps);
        let loaded = load(&script).await.map(|set| set.len());
        assert_eq!(loaded, expected);
        assert_eq!(script.asked(), asked);
    }
}

/// Runs a refresh of every 100 s with a jitter of 10 s and a window of 400 s until it is stale, and
/// answers the script, the last set and the metrics.
async fn run_until_stale(steps: &[Step]) -> (Script, Vec<String>, String) {
    let script = Script::new(steps);
    let (sender, receiver) = watch::channel(Arc::new(one_key("first")));
    let metrics = Arc::new(Metrics::new("0"));
    let schedule = Schedule {
        refresh: Duration::from_secs(100),
        max_stale: Duration::from_secs(400),
    };
    let loaded = Instant::now();
    let counted = Arc::clone(&metrics);
    let jitter = |period| period / 10;
    refresh_until_stale(script.clone(), sender, counted, schedule, loaded, jitter).await;
    let keys = receiver.borrow().published();
    let keys = keys.into_iter().map(|key| key.kid).collect();
    (script, keys, metrics.exposition())
}

/// Goal: the set is replaced by every success and by nothing else, each period counts from the end of
/// the last attempt, and the set is stale one window after its last success. Method: scripts on a
/// paused clock.
#[tokio::test(start_paused = true)]
async fn a_set_lives_for_one_window_after_its_last_success() {
    let late = |seconds, kid| Step::Late(Duration::from_secs(seconds), kid);
    let cases = [
        ("never", vec![], "first", 400, vec![110, 220, 330]),
        (
            "once",
            vec![Step::Key("a")],
            "a",
            510,
            vec![110, 220, 330, 440],
        ),
        (
            "after failures",
            vec![FAIL, FAIL, Step::Key("a")],
            "a",
            730,
            vec![110, 220, 330, 440, 550, 660],
        ),
        (
            "slow",
            vec![late(5, "a")],
            "a",
            515,
            vec![110, 225, 335, 445],
        ),
        (
            "a fetch in progress",
            vec![FAIL, FAIL, Step::Hang],
            "first",
            400,
            vec![110, 220, 330],
        ),
        (
            "just before",
            vec![FAIL, FAIL, late(69, "a")],
            "a",
            799,
            vec![110, 220, 330, 509, 619, 729],
        ),
        (
            "at the deadline",
            vec![FAIL, FAIL, late(70, "a")],
            "first",
            400,
            vec![110, 220, 330],
        ),
        (
            "after it",
            vec![FAIL, FAIL, late(71, "a")],
            "first",
            400,
            vec![110, 220, 330],
        ),
    ];
    for (what, steps, kid, stale, asked) in cases {
        let (script, keys, _) = run_until_stale(&steps).await;
        assert_eq!(script.elapsed(), stale, "{what}");
        assert_eq!(script.asked(), asked, "{what}");
        assert_eq!(keys, [kid], "{what}");
    }
}

/// Goal: every background attempt is counted by its outcome, one that was cut by none. Method: read
/// the exposition after a script.
#[tokio::test(start_paused = true)]
async fn attempts_are_counted_by_their_outcome() {
    let empty = Step::Fail(Cause::NoUsableKeys);
    let steps = [Step::Key("a"), FAIL, Step::Key("b"), empty, Step::Hang];
    let (_, keys, exposition) = run_until_stale(&steps).await;
    assert_eq!(keys, ["b"]);
    for line in [
        "xmtp_auth_jwks_refresh_total{result=\"ok\"} 2",
        "xmtp_auth_jwks_refresh_total{result=\"error\"} 2",
        "xmtp_auth_keys 1",
    ] {
        assert!(
            exposition.lines().any(|found| found == line),
            "{line} in\n{exposition}"
        );
    }
}

/// Goal: the jitter is at most a tenth of the period, and not always the same. Method: many draws.
#[test]
fn jitter_is_at_most_a_tenth() {
    let period = Duration::from_secs(300);
    let draws: Vec<_> = (0..1_000).map(|_| jitter(period)).collect();
    assert!(draws.iter().all(|draw| *draw <= period / 10));
    let (least, most) = (draws.iter().min().unwrap(), draws.iter().max().unwrap());
    assert!(
        *least < period / 20 && *most > period / 20,
        "{least:?} {most:?}"
    );
}
