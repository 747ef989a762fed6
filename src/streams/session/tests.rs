//! Sessions on a clock that the tests move: signs of life to the millisecond, and ends that need no
//! database. Nothing here registers a topic that has history.

use std::sync::Mutex;

use futures_util::{FutureExt as _, Stream, StreamExt as _, stream};
use sqlx::postgres::PgConnectOptions;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{advance, sleep_until};
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::*;
use crate::db::{Database, Observer, ServerIdentity, Settings};
use crate::streams::frame::{ClientFrame, Update};
use envelope::TopicKind;
use tokio::sync::Semaphore;

const INTERVAL: Duration = Duration::from_secs(30);
const WAIT: Duration = Duration::from_secs(90);

struct Nobody;

impl Observer for Nobody {
    fn released_open_transaction(&self) {}
}

/// A session over a database that nobody asks.
fn session(kind: StreamKind) -> (Session, Frames, Arc<Generation>) {
    let settings = Settings {
        primary: PgConnectOptions::new_without_pgpass(),
        replica: None,
        max_connections: 1,
        max_statement_timeout: Duration::from_secs(1),
        max_publish_duration: Duration::from_secs(2),
        max_barrier_wait: Duration::from_secs(1),
    };
    let metrics = Arc::new(Metrics::new("test"));
    let shared = Shared {
        fetcher: Arc::new(Fetcher {
            database: Database::open(&settings, Arc::new(Nobody)),
            permits: Semaphore::new(1),
            frame_bytes: 2 * 1024 * 1024,
            metrics: Arc::clone(&metrics),
        }),
        limits: Limits::default(),
        keepalive_interval: INTERVAL,
        max_pong_wait: WAIT,
        clock: Clock::system(),
        metrics,
    };
    let generation = Arc::new(Generation::new(ServerIdentity::nobody()));
    let (session, frames) = Session::new(Arc::new(shared), Arc::clone(&generation), kind);
    (session, frames, generation)
}

fn start(
    inbound: impl Stream<Item = ClientFrame> + Unpin + Send + 'static,
) -> (JoinHandle<()>, Frames, Arc<Generation>) {
    let (mut session, frames, generation) = session(StreamKind::Bidi);
    session.open().unwrap();
    (tokio::spawn(session.run(inbound)), frames, generation)
}

/// What a client does, and when.
#[derive(Clone, Copy)]
enum Act {
    /// Answers the newest Ping.
    Answer,
    /// Answers the first Ping, once more or too late.
    AnswerFirst,
    /// Asks itself.
    Ask(u64),
    /// Changes nothing.
    Update(u64),
}

/// Runs a stream whose client reads at once and does this, each at so many seconds; what it sees, at
/// which second, until `end_s` or the stream's end.
async fn timeline(script: &[(u64, Act)], end_s: u64) -> Vec<(u64, &'static str)> {
    let begin = Instant::now();
    let at = |seconds| begin + Duration::from_secs(seconds);
    let (send, inbound) = mpsc::unbounded_channel();
    let (task, mut frames, _) = start(UnboundedReceiverStream::new(inbound));
    let mut nonces = Vec::new();
    let mut seen = Vec::new();
    let mut script = script.iter().copied().peekable();
    loop {
        let next = script.peek().map_or(end_s, |(second, _)| *second);
        tokio::select! {
            biased;
            frame = frames.next() => {
                let word = match frame {
                    Some(Ok(Frame::Started { .. })) => "started",
                    Some(Ok(Frame::Ping(nonce))) => {
                        nonces.push(nonce);
                        "ping"
                    }
                    Some(Ok(Frame::Pong(9))) => "pong",
                    Some(Ok(Frame::Applied { .. })) => "applied",
                    Some(Err(End::NoPong)) => "no pong",
                    other => panic!("{other:?}"),
                };
                seen.push((begin.elapsed().as_secs(), word));
                if word == "no pong" {
                    task.await.unwrap();
                    return seen;
                }
            }
            () = sleep_until(at(next)) => {
                let frame = match script.next() {
                    None => return seen,
                    Some((_, Act::Answer)) => ClientFrame::Pong(*nonces.last().unwrap()),
                    Some((_, Act::AnswerFirst)) => ClientFrame::Pong(nonces[0]),
                    Some((_, Act::Ask(nonce))) => ClientFrame::Ping(nonce),
                    Some((_, Act::Update(id))) => ClientFrame::Update(Update {
                        id,
                        ..Update::default()
                    }),
                };
                send.send(frame).unwrap();
            }
        }
    }
}

/// The worked example: two Pings, the second of which is answered by a frame that is no answer and by
/// the answer to the first (ARC-081).
#[tokio::test(start_paused = true)]
async fn a_missed_pong_ends_the_stream_at_its_deadline() {
    let script = [
        (31, Act::Answer),
        (61, Act::Ask(9)),
        (100, Act::AnswerFirst),
    ];
    assert_eq!(
        timeline(&script, 1_000).await,
        [
            (0, "started"),
            (30, "ping"),
            (60, "ping"),
            (61, "pong"),
            (150, "no pong"),
        ]
    );
}

/// An answer in the last second is in time; the next Ping follows at the idle time that was running.
#[tokio::test(start_paused = true)]
async fn an_answer_in_time_keeps_the_stream() {
    let script = [(119, Act::Answer), (130, Act::Answer), (238, Act::Answer)];
    assert_eq!(
        timeline(&script, 239).await,
        [(0, "started"), (30, "ping"), (120, "ping"), (150, "ping")]
    );
}

/// Only what the server sends puts its Ping off: answers and Applieds do, unasked Pongs do not.
#[tokio::test(start_paused = true)]
async fn only_outbound_frames_restart_the_idle_time() {
    for (act, answer, ping_at) in [
        (Act::Ask(9), Some("pong"), 50),
        (Act::Update(1), Some("applied"), 50),
    ] {
        let seen = timeline(&[(20, act)], 60).await;
        let mut expected = vec![(0, "started")];
        expected.extend(answer.map(|word| (20, word)));
        expected.push((ping_at, "ping"));
        assert_eq!(seen, expected);
    }
    // The Pong at 40 answers; the one at 59 answers nothing and changes nothing.
    let seen = timeline(&[(40, Act::Answer), (59, Act::AnswerFirst)], 61).await;
    assert_eq!(seen, [(0, "started"), (30, "ping"), (60, "ping")]);
}

/// The deadline begins when the transport takes the Ping: a client that reads nothing is not blamed for
/// that, however long, and gets one Ping.
#[tokio::test(start_paused = true)]
async fn the_deadline_begins_when_the_ping_is_taken() {
    let begin = Instant::now();
    let (task, mut frames, _) = start(stream::pending());
    assert!(matches!(
        frames.next().await,
        Some(Ok(Frame::Started { .. }))
    ));
    for _ in 0..1_000 {
        advance(Duration::from_secs(10)).await;
        yield_now().await;
    }
    assert!(!task.is_finished());
    let taken = begin.elapsed();
    assert!(matches!(frames.next().await, Some(Ok(Frame::Ping(_)))));
    assert_eq!(begin.elapsed(), taken, "it was there");
    assert_eq!(frames.next().await.unwrap().unwrap_err(), End::NoPong);
    let waited = (begin.elapsed() - taken).as_millis();
    assert_eq!(waited, WAIT.as_millis());
    task.await.unwrap();
}

/// A Pong that lies in the inbound buffer when the deadline passes counts, behind other frames too:
/// what has arrived is looked at first. Many times, as the session may look in either order.
#[tokio::test(start_paused = true)]
async fn a_pong_that_has_arrived_counts_at_the_deadline() {
    for _ in 0..50 {
        let asked: Arc<Mutex<Option<(u64, Instant)>>> = Arc::default();
        let ping = Arc::clone(&asked);
        let mut before = 3;
        // Shows nothing before the deadline, and then three other frames and the Pong.
        let inbound = stream::poll_fn(move |_| {
            let Some((nonce, due)) = *ping.lock().unwrap() else {
                return std::task::Poll::Pending;
            };
            if Instant::now() < due {
                return std::task::Poll::Pending;
            }
            let frame = match before {
                3 => ClientFrame::Ping(9),
                2 => ClientFrame::Update(Update {
                    id: 1,
                    ..Update::default()
                }),
                1 => ClientFrame::Pong(nonce.wrapping_add(1)),
                _ => {
                    *ping.lock().unwrap() = None;
                    ClientFrame::Pong(nonce)
                }
            };
            before -= 1;
            std::task::Poll::Ready(Some(frame))
        });
        let (_task, mut frames, _) = start(inbound);
        frames.next().await.unwrap().unwrap();
        let Some(Ok(Frame::Ping(nonce))) = frames.next().await else {
            panic!("a Ping is due");
        };
        *asked.lock().unwrap() = Some((nonce, Instant::now() + WAIT));
        assert!(matches!(frames.next().await, Some(Ok(Frame::Pong(9)))));
        assert!(matches!(
            frames.next().await,
            Some(Ok(Frame::Applied { .. }))
        ));
        assert!(matches!(frames.next().await, Some(Ok(Frame::Ping(_)))));
    }
}

/// A client that floods its stream with frames that cost nothing does not keep its session from anything
/// else, after its deadline neither.
#[tokio::test(start_paused = true)]
async fn a_flood_of_pongs_does_not_hold_the_session() {
    let (task, mut frames, generation) = start(stream::repeat_with(|| ClientFrame::Pong(1)));
    frames.next().await.unwrap().unwrap();
    // The session never is idle, so the clock must be moved.
    for _ in 0..10 {
        advance(INTERVAL).await;
        yield_now().await;
    }
    assert!(!task.is_finished());
    generation.end(End::Shutdown);
    task.await.unwrap();
}

fn topic() -> Topic {
    Topic::new(TopicKind::GroupMessage, &[1; 16]).unwrap()
}

/// A static session of one empty topic.
fn start_static() -> (JoinHandle<()>, Frames, Arc<Generation>) {
    let (mut session, frames, generation) = session(StreamKind::Static);
    let registrations = session.register(&[(topic(), SequenceId::START)]);
    let heads = Heads {
        server: ServerIdentity::nobody(),
        heads: vec![SequenceId::START],
    };
    session.open_static(registrations, Ok(heads)).unwrap();
    (
        tokio::spawn(session.run(stream::pending())),
        frames,
        generation,
    )
}

/// A static stream says that it is there after each idle time, and wants no answer; a delivery puts it
/// off (ARC-084).
#[tokio::test(start_paused = true)]
async fn a_static_stream_keeps_saying_that_it_is_there() {
    let begin = Instant::now();
    let (_task, mut frames, generation) = start_static();
    assert!(matches!(
        frames.next().await,
        Some(Ok(Frame::Started { .. }))
    ));
    for number in 1..=20 {
        assert!(matches!(frames.next().await, Some(Ok(Frame::Keepalive))));
        assert_eq!(begin.elapsed().as_secs(), number * 30);
    }
    advance(Duration::from_secs(20)).await;
    let row = Arc::new(delivery(5, 100));
    generation.registry.dispatch(&[(topic(), row)]);
    let frame = frames.next().await;
    assert!(matches!(frame, Some(Ok(Frame::Messages(rows))) if rows.len() == 1));
    assert_eq!(begin.elapsed().as_secs(), 620);
    assert!(matches!(frames.next().await, Some(Ok(Frame::Keepalive))));
    assert_eq!(begin.elapsed().as_secs(), 650);
}

fn delivery(id: u64, payload_bytes: usize) -> Delivery {
    Delivery {
        topic: Bytes::copy_from_slice(topic().as_bytes()),
        hash: Bytes::new(),
        meta: db::StoredMeta {
            sequence_id: SequenceId::from_wire(id).unwrap(),
            server_ns: 0,
            expiry_ns: None,
            is_commit_or_proposal: false,
        },
        payload: vec![0; payload_bytes].into(),
    }
}

/// Live rows of one hand-over are packed into frames of at most the bound, in order; one that fits no
/// frame ends the stream (ARC-079).
#[tokio::test(start_paused = true)]
async fn live_rows_are_packed_into_frames() {
    const MIB: usize = 1024 * 1024;

    let (task, mut frames, generation) = start_static();
    frames.next().await.unwrap().unwrap();
    let rows: Vec<_> = [MIB, MIB, MIB / 2, MIB - 1_000, 10, 10]
        .into_iter()
        .zip(1..)
        .map(|(bytes, id)| (topic(), Arc::new(delivery(id, bytes))))
        .collect();
    generation.registry.dispatch(&rows);
    let mut shapes = Vec::new();
    for _ in 0..3 {
        let Some(Ok(Frame::Messages(rows))) = frames.next().await else {
            panic!("rows are due");
        };
        let ids = rows.iter().map(|row| row.id().to_wire());
        shapes.push(ids.collect::<Vec<_>>());
    }
    assert_eq!(shapes, [vec![1], vec![2, 3], vec![4, 5, 6]]);

    let too_large = Arc::new(delivery(7, 2 * MIB));
    generation.registry.dispatch(&[(topic(), too_large)]);
    assert_eq!(frames.next().await.unwrap().unwrap_err(), End::TooLarge);
    task.await.unwrap();
}

/// Ends a session somehow; answers what is kept of its frames meanwhile.
type Leave = fn(&Generation, &JoinHandle<()>, Frames) -> Option<Frames>;

/// However a session ends, it has left the registry, and the gauges and the reason say so once
/// (ARC-082).
#[tokio::test(start_paused = true)]
async fn every_end_leaves_the_registry() {
    let ends: [(&str, Leave); 4] = [
        ("client", |_, _, _frames| None),
        ("shutdown", |generation, _, frames| {
            generation.end(End::Shutdown);
            generation.end(End::Recovery);
            Some(frames)
        }),
        ("tailer", |generation, _, frames| {
            generation.end(End::Recovery);
            Some(frames)
        }),
        ("client", |_, task, frames| {
            task.abort();
            Some(frames)
        }),
    ];
    for (reason, end) in ends {
        let (mut session, mut frames, generation) = session(StreamKind::Static);
        let metrics = Arc::clone(&session.shared.metrics);
        let registrations = session.register(&[(topic(), SequenceId::START)]);
        let heads = Heads {
            server: ServerIdentity::nobody(),
            heads: vec![SequenceId::START],
        };
        session.open_static(registrations, Ok(heads)).unwrap();
        let task = tokio::spawn(session.run(stream::pending()));
        frames.next().await.unwrap().unwrap();
        assert_eq!(generation.registry.followed(&[Some(topic())]), [true]);
        let _rest = end(&generation, &task, frames);
        let _ = task.await;
        assert_eq!(generation.registry.followed(&[Some(topic())]), [false]);
        let text = metrics.exposition();
        for line in [
            "xmtp_stream_sessions{kind=\"static\"} 0".to_owned(),
            "xmtp_stream_topics_registered 0".to_owned(),
            format!("xmtp_stream_ended_total{{reason=\"{reason}\"}} 1"),
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in {text}");
        }
        assert_eq!(text.matches("xmtp_stream_ended_total{").count(), 1);
    }
}

/// Goal: a reader that pauses hears of no sign of life behind what it has not read, however long that
/// takes, and so is not ended for a queue that those alone have filled (ARC-080, ARC-081).
#[tokio::test(start_paused = true)]
async fn signs_of_life_do_not_pile_up_before_a_reader_that_pauses() {
    for kind in [StreamKind::Bidi, StreamKind::Static] {
        let (mut session, mut frames, generation) = session(kind);
        session.open().unwrap();
        let task = tokio::spawn(session.run(stream::pending()));
        for _ in 0..100 {
            advance(INTERVAL).await;
            yield_now().await;
        }
        assert!(!task.is_finished(), "{kind:?}");
        let first = frames.next().await.unwrap().unwrap();
        assert!(matches!(first, Frame::Started { .. }), "{kind:?}");
        // Nothing waits behind it; the next sign of life is due an interval after the last try.
        assert!(frames.next().now_or_never().is_none(), "{kind:?}");
        advance(INTERVAL).await;
        let next = frames.next().await.unwrap().unwrap();
        assert!(
            matches!(next, Frame::Ping(_) | Frame::Keepalive),
            "{next:?}"
        );
        generation.end(End::Shutdown);
        task.await.unwrap();
    }
}
