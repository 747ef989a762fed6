//! The queue's bounds, its end, and who is woken.

use futures_util::{FutureExt as _, StreamExt as _};

use super::*;

fn ping(nonce: u64) -> Frame {
    Frame::Ping(nonce)
}

fn nonce(frame: Option<Result<Frame, End>>) -> u64 {
    let frame = frame.expect("a frame").expect("no end yet");
    let Frame::Ping(nonce) = frame else {
        panic!("{frame:?}");
    };
    nonce
}

/// The number of frames is bounded: half of it for history, all of it for the rest; taking one makes
/// room for one.
#[tokio::test]
async fn frames_are_bounded_by_number() {
    let (outbound, mut frames) = queue();
    for share in [Share::History, Share::Whole] {
        let (most, _) = share.bounds();
        let mut queued = outbound.0.lock().frames.len();
        while queued < most {
            assert!(outbound.has_room(1, share));
            assert!(outbound.admit(ping(0), 1, share));
            queued += 1;
        }
        assert!(!outbound.has_room(0, share));
        assert!(!outbound.admit(ping(0), 0, share));
    }
    assert_eq!(outbound.0.lock().frames.len(), OUTBOUND_FRAMES);
    frames.next().await.unwrap().unwrap();
    assert!(!outbound.admit(ping(0), 1, Share::History));
    assert!(outbound.admit(ping(0), 1, Share::Whole));
    assert!(!outbound.admit(ping(0), 1, Share::Whole));
    assert_eq!(outbound.taken(), 1);
}

/// So are their bytes, to the byte; and what is taken is free again.
#[tokio::test]
async fn frames_are_bounded_by_bytes() {
    for share in [Share::History, Share::Whole] {
        let (_, most) = share.bounds();
        let (outbound, mut frames) = queue();
        assert!(!outbound.admit(ping(0), most + 1, share));
        assert!(!outbound.has_room(u64::MAX, share));
        assert!(outbound.admit(ping(0), most - 10, share));
        assert!(!outbound.admit(ping(0), 11, share));
        assert!(outbound.has_room(10, share));
        assert!(outbound.admit(ping(0), 10, share));
        assert!(!outbound.has_room(1, share));
        frames.next().await.unwrap().unwrap();
        assert!(outbound.has_room(most - 10, share));
        assert!(!outbound.has_room(most - 9, share));
    }
}

/// Frames come in order, then the end, then nothing. A half-close is no error; a slow reader gets no
/// frame any more; the first end counts (ARC-082).
#[tokio::test]
async fn an_end_comes_after_the_frames_that_are_worth_sending() {
    for (end, frames_left, error) in [
        (End::HalfClosed, 2, None),
        (End::Shutdown, 2, Some(End::Shutdown)),
        (End::NoPong, 2, Some(End::NoPong)),
        (End::TooManyPings, 2, Some(End::TooManyPings)),
        (End::TooSlow, 0, Some(End::TooSlow)),
    ] {
        let (outbound, mut frames) = queue();
        outbound.admit(ping(1), 1, Share::Whole);
        outbound.admit(ping(2), 1, Share::Whole);
        outbound.finish(end.clone());
        outbound.finish(End::Database);
        drop(outbound);
        for expected in 1..=frames_left {
            assert_eq!(nonce(frames.next().await), expected, "{end:?}");
        }
        let last = frames.next().await;
        assert_eq!(last.map(|end| end.unwrap_err()), error, "{end:?}");
        assert!(frames.next().await.is_none());
    }
}

/// A session that vanishes without a word fails its stream rather than leaving it open or ending it
/// with success.
#[tokio::test]
async fn a_dropped_session_fails_the_stream() {
    let (outbound, mut frames) = queue();
    drop(outbound);
    assert_eq!(frames.next().await.unwrap().unwrap_err(), End::Recovery);
    assert!(frames.next().await.is_none());
}

/// The transport is woken by a frame and by the end; the session by a taken frame and by the transport's
/// leaving.
#[tokio::test]
async fn both_sides_are_woken() {
    let (outbound, mut frames) = queue();
    let reader = tokio::spawn(async move {
        let first = nonce(frames.next().await);
        let end = frames.next().await;
        (first, end.unwrap().unwrap_err(), frames)
    });
    assert!(outbound.changed().now_or_never().is_none());
    tokio::task::yield_now().await;
    outbound.admit(ping(7), 1, Share::Whole);
    outbound.changed().await;
    assert!(!outbound.is_abandoned());
    tokio::task::yield_now().await;
    outbound.finish(End::Shutdown);
    let (first, end, frames) = reader.await.unwrap();
    assert_eq!((first, end), (7, End::Shutdown));
    drop(frames);
    outbound.changed().await;
    assert!(outbound.is_abandoned());
}

/// When the transport took a Ping is noted, and nothing else counts as one (ARC-081).
#[tokio::test(start_paused = true)]
async fn the_time_at_which_a_ping_is_taken_is_noted() {
    let (outbound, mut frames) = queue();
    outbound.admit(Frame::Pong(1), 1, Share::Whole);
    outbound.admit(ping(2), 1, Share::Whole);
    frames.next().await.unwrap().unwrap();
    assert_eq!(outbound.ping_taken(), None);
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    frames.next().await.unwrap().unwrap();
    assert_eq!(outbound.ping_taken(), Some(Instant::now()));
}
