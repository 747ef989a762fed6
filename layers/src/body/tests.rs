//! Bodies against scripts: every ending, at every poll, told once and counted exactly.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use http::HeaderMap;
use http_body::Body;

use super::{CountBody, EndBody, EndGuard, Ending, Meter, OnEnd, OrEmpty};
use crate::code::Code;
use crate::scripted::{ScriptedBody, Step, poll, transmit, unwind};

/// Keeps all it is told.
#[derive(Clone, Default)]
struct Told(Rc<RefCell<Vec<Heard>>>);

/// An ending, and the status in its trailers.
type Heard = (Ending, Option<Code>);

impl OnEnd for Told {
    fn on_end(self, ending: Ending, trailers: Option<&HeaderMap>) {
        self.0
            .borrow_mut()
            .push((ending, trailers.and_then(Code::from_headers)));
    }
}

#[derive(Clone, Default)]
struct Counted(Rc<Cell<u64>>);

impl Meter for Counted {
    fn add(&self, bytes: u64) {
        self.0.set(self.0.get() + bytes);
    }
}

/// Claim, script, whether the body knows its end, polls before the drop; ending, status, bytes.
#[rustfmt::skip]
type Case = (&'static str, &'static [Step], bool, usize, Ending, Option<Code>, u64);

const DATA: Step = Step::Data(5);
const NONE: Step = Step::Data(0);
const WAIT: Step = Step::Pending;
const FAIL: Step = Step::Error;
const END: Step = Step::Trailers(FOUND);
const FOUND: Option<Code> = Some(Code::NotFound);

// A table reads by its columns.
#[rustfmt::skip]
const CASES: &[Case] = &[
    ("empty and knows it", &[], true, 0, Ending::Complete, None, 0),
    ("empty, never polled", &[], false, 0, Ending::Dropped, None, 0),
    ("empty, polled", &[], false, 1, Ending::Complete, None, 0),
    ("never polled", &[DATA], true, 0, Ending::Dropped, None, 0),
    ("pending, dropped", &[WAIT, DATA], true, 1, Ending::Dropped, None, 0),
    ("over between polls", &[DATA, WAIT], true, 2, Ending::Complete, None, 5),
    ("last frame by its word", &[DATA], true, 1, Ending::Complete, None, 5),
    ("end not known", &[DATA], false, 1, Ending::Dropped, None, 5),
    ("end asked for", &[DATA, WAIT, DATA], false, 4, Ending::Complete, None, 10),
    ("between frames", &[DATA, DATA, DATA], true, 2, Ending::Dropped, None, 10),
    ("trailers end it", &[DATA, END], false, 2, Ending::Complete, FOUND, 5),
    ("trailers and end", &[DATA, END], false, 9, Ending::Complete, FOUND, 5),
    ("dropped before trailers", &[DATA, END], true, 1, Ending::Dropped, None, 5),
    ("trailers alone", &[END], true, 1, Ending::Complete, FOUND, 0),
    ("error first", &[FAIL], true, 1, Ending::Failed, None, 0),
    ("error after data", &[DATA, FAIL, DATA], true, 9, Ending::Failed, None, 5),
    ("empty frames are frames", &[NONE, DATA], false, 3, Ending::Complete, None, 5),
];

/// Goal: the hook hears the right ending exactly once, and exactly the emitted bytes are counted.
/// Method: scripted bodies driven as a transport drives them, then dropped. ARC-095, ARC-098.
#[test]
fn every_ending_is_told_once_with_the_bytes_so_far() {
    for &(claim, steps, knows_its_end, polls, ending, code, bytes) in CASES {
        let (told, counted) = (Told::default(), Counted::default());
        let script = ScriptedBody::new(steps, knows_its_end);
        {
            let counting = CountBody::new(script, counted.clone());
            let mut body = pin!(EndBody::new(counting, told.clone()));
            transmit(body.as_mut(), polls);
        }
        assert_eq!(*told.0.borrow(), [(ending, code)], "{claim}");
        assert_eq!(counted.0.get(), bytes, "{claim}");
    }
}

/// Goal: a body that panics is told as panicked, not as dropped. Method: unwind through a poll that
/// follows a good frame. ARC-098.
#[test]
fn a_panic_in_a_poll_is_its_own_ending() {
    let told = Told::default();
    let script = ScriptedBody::new(&[DATA, Step::Panic], true);
    let body = EndBody::new(script, told.clone());
    let unwound = catch_unwind(AssertUnwindSafe(move || {
        let mut body = pin!(body);
        transmit(body.as_mut(), 2)
    }));
    assert!(unwound.is_err());
    assert_eq!(*told.0.borrow(), [(Ending::Panicked, None)]);
}

/// Goal: after an error, polls and the drop tell nothing more. Method: poll on past the error.
#[test]
fn polls_after_the_end_tell_nothing() {
    let told = Told::default();
    {
        let script = ScriptedBody::new(&[Step::Error, DATA, END], false);
        let mut body = pin!(EndBody::new(script, told.clone()));
        for _ in 0..5 {
            let _ = poll(body.as_mut());
        }
    }
    assert_eq!(*told.0.borrow(), [(Ending::Failed, None)]);
}

/// Goal: a guard that never met a body still tells. Method: drop it, finish it twice, unwind it.
#[test]
fn a_guard_alone_tells_once() {
    let told = Told::default();
    drop(EndGuard::new(told.clone()));
    let mut guard = EndGuard::new(told.clone());
    assert!(guard.hook().is_some());
    guard.finish(Ending::Failed, None);
    guard.finish(Ending::Complete, None);
    assert!(guard.hook().is_none());
    drop(guard);
    let guard = EndGuard::new(told.clone());
    let unwound = catch_unwind(AssertUnwindSafe(move || {
        let _guard = guard;
        unwind();
    }));
    assert!(unwound.is_err());
    let endings: Vec<_> = told.0.borrow().iter().map(|(ending, _)| *ending).collect();
    assert_eq!(endings, [Ending::Dropped, Ending::Failed, Ending::Panicked]);
}

/// Goal: wrappers are transparent. Method: walk a wrapped and a bare body side by side and compare
/// frames, end-of-stream and size hint after every poll.
#[test]
fn wrappers_show_what_they_wrap() {
    let scripts: [&[Step]; 4] = [
        &[],
        &[DATA, Step::Pending, DATA, END],
        &[Step::Pending, Step::Error],
        &[Step::Data(0), DATA],
    ];
    for (steps, knows_its_end) in scripts.iter().flat_map(|s| [(*s, true), (*s, false)]) {
        let mut bare = pin!(ScriptedBody::new(steps, knows_its_end));
        let inner = CountBody::new(ScriptedBody::new(steps, knows_its_end), Counted::default());
        let mut wrapped = pin!(OrEmpty::inner(EndBody::new(inner, Told::default())));
        for _ in 0..=steps.len() {
            assert_eq!(bare.is_end_stream(), wrapped.is_end_stream());
            assert_eq!(bare.size_hint().exact(), wrapped.size_hint().exact());
            let (bare, wrapped) = (poll(bare.as_mut()), poll(wrapped.as_mut()));
            match (bare, wrapped) {
                (Poll::Ready(Some(Ok(bare))), Poll::Ready(Some(Ok(wrapped)))) => {
                    assert_eq!(bare.data_ref(), wrapped.data_ref());
                    assert_eq!(bare.trailers_ref(), wrapped.trailers_ref());
                }
                (bare, wrapped) => assert_eq!(format!("{bare:?}"), format!("{wrapped:?}")),
            }
        }
    }
}

/// Goal: the empty body is over before it is polled, so that a transport sends headers alone.
/// Method: ask it all three questions. ARC-002.
#[test]
fn no_body_is_over_at_once() {
    let body = OrEmpty::<ScriptedBody>::default();
    assert!(body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(0));
    assert!(matches!(poll(pin!(body)), Poll::Ready(None)));
}
