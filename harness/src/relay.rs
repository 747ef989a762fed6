//! A TCP relay between a server and its database: what a test can do to a network, and to nobody
//! else's connections (ARC-041).

use std::future::pending;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use url::Url;

use super::eventually;

/// A relay on the loopback interface. It ends with all its connections when it is dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

/// What befalls the connection whose client sends a certain text.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Cut,
    Freeze,
    Hold,
}

#[derive(Debug, Default)]
struct Shared {
    /// How often a client sent something.
    requests: AtomicU64,
    /// Whether an answer is held, and may not go on yet.
    held: watch::Sender<bool>,
    /// Where new connections go; nowhere while there is an outage.
    target: Mutex<Option<SocketAddr>>,
    /// A text that clients have not sent yet.
    trap: Mutex<Option<(Vec<u8>, Fate)>>,
    connections: Mutex<Vec<Connection>>,
}

#[derive(Debug)]
struct Connection {
    task: AbortHandle,
    frozen: watch::Sender<bool>,
}

impl Relay {
    /// A relay to the server of this database URL.
    pub async fn to(database_url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .expect("the loopback interface has free ports");
        let address = listener.local_addr().expect("a bound address");
        let shared = Arc::new(Shared::default());
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared))).abort_handle();
        let relay = Self {
            address,
            shared,
            accepting,
        };
        relay.turn_to(database_url);
        relay
    }

    /// A database URL by way of this relay.
    pub fn url(&self, database_url: &str) -> String {
        let mut url: Url = database_url.parse().expect("a database URL");
        url.set_host(Some("127.0.0.1")).expect("an address");
        url.set_port(Some(self.address.port())).expect("a port");
        url.into()
    }

    /// Sends new connections to the server of this database URL. The others stay where they are.
    pub fn turn_to(&self, database_url: &str) {
        let url: Url = database_url.parse().expect("a database URL");
        let targets = url.socket_addrs(|| Some(5432)).expect("a known host");
        *lock(&self.shared.target) = targets.first().copied();
    }

    /// Closes every connection, and new ones as soon as they come, until
    /// [`turn_to`](Self::turn_to).
    pub fn shut(&self) {
        *lock(&self.shared.target) = None;
        self.cut();
    }

    /// Closes every connection.
    pub fn cut(&self) {
        for connection in lock(&self.shared.connections).drain(..) {
            connection.task.abort();
        }
    }

    /// Closes the connection on which a client is the next to send this text, before the text
    /// arrives.
    pub fn cut_before(&self, text: &str) {
        *lock(&self.shared.trap) = Some((text.into(), Fate::Cut));
    }

    /// Carries nothing more on the connection on which a client is the next to send this text, the
    /// text included. Both ends find the connection open.
    pub fn freeze_before(&self, text: &str) {
        *lock(&self.shared.trap) = Some((text.into(), Fate::Freeze));
    }

    /// Delivers this text, which a client is the next to send, and holds back what the server answers
    /// to it until [`release`](Self::release).
    pub fn hold_answer_to(&self, text: &[u8]) {
        *lock(&self.shared.trap) = Some((text.into(), Fate::Hold));
    }

    /// Returns when the server has answered and the answer is held.
    pub async fn until_held(&self) {
        let mut held = self.shared.held.subscribe();
        // The sender is in `shared`, so it is there.
        let _ = held.wait_for(|held| *held).await;
    }

    /// Lets the answer go on that is held.
    pub fn release(&self) {
        self.shared.held.send_replace(false);
    }

    /// How often clients sent something so far. The driver sends a statement at once and then waits
    /// for its answer, so this counts statements; the first use of one counts twice, as it is prepared.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// Carries nothing more on any connection there is; both ends find it open.
    pub fn freeze(&self) {
        for connection in lock(&self.shared.connections).iter() {
            connection.frozen.send_replace(true);
        }
    }

    /// Returns when a client has sent the text of [`cut_before`](Self::cut_before) or
    /// [`freeze_before`](Self::freeze_before).
    pub async fn until_sent(&self) {
        eventually("the text is sent", async || {
            lock(&self.shared.trap).is_none()
        })
        .await;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let (client, _) = listener.accept().await.expect("a listener that accepts");
        let Some(target) = *lock(&shared.target) else {
            continue;
        };
        let (frozen, is_frozen) = watch::channel(false);
        let task = tokio::spawn(relay(client, target, Arc::clone(&shared), is_frozen));
        lock(&shared.connections).push(Connection {
            task: task.abort_handle(),
            frozen,
        });
    }
}

/// Carries bytes both ways until either end closes. PostgreSQL's protocol takes turns, so one
/// direction need not wait for the other.
async fn relay(
    mut client: TcpStream,
    target: SocketAddr,
    shared: Arc<Shared>,
    mut frozen: watch::Receiver<bool>,
) {
    let Ok(mut server) = TcpStream::connect(target).await else {
        return;
    };
    let (mut sent, mut answered) = (vec![0; 65_536], vec![0; 65_536]);
    // What the client sent last, in case a text comes in two parts.
    let mut recent = Vec::new();
    loop {
        let carried = tokio::select! {
            biased;
            Ok(()) = frozen.changed() => return pending().await,
            read = client.read(&mut sent) => match read {
                Ok(length @ 1..) => {
                    shared.requests.fetch_add(1, Ordering::SeqCst);
                    recent.extend_from_slice(&sent[..length]);
                    match spring(&shared, &mut recent) {
                        Some(Fate::Cut) => return,
                        Some(Fate::Freeze) => return pending().await,
                        Some(Fate::Hold) => {
                            held(&mut client, &mut server, &sent[..length], &shared).await
                        }
                        None => server.write_all(&sent[..length]).await,
                    }
                }
                Ok(0) | Err(_) => return,
            },
            read = server.read(&mut answered) => match read {
                Ok(length @ 1..) => client.write_all(&answered[..length]).await,
                Ok(0) | Err(_) => return,
            },
        };
        if carried.is_err() {
            return;
        }
    }
}

/// Carries a request, and its answer once that is released.
async fn held(
    client: &mut TcpStream,
    server: &mut TcpStream,
    request: &[u8],
    shared: &Shared,
) -> std::io::Result<()> {
    server.write_all(request).await?;
    let mut answer = vec![0; 65_536];
    let length = server.read(&mut answer).await?;
    let mut held = shared.held.subscribe();
    shared.held.send_replace(true);
    // The sender is in `shared`, so it is there.
    let _ = held.wait_for(|held| !*held).await;
    client.write_all(&answer[..length]).await
}

/// Whether the bytes contain the text that is waited for; keeps only what may be its beginning.
fn spring(shared: &Shared, recent: &mut Vec<u8>) -> Option<Fate> {
    let mut trap = lock(&shared.trap);
    let text = trap.as_ref().map_or(&[][..], |(text, _)| text.as_slice());
    let is_sent = !text.is_empty() && recent.windows(text.len()).any(|part| part == text);
    let keep = text.len().saturating_sub(1).min(recent.len());
    recent.drain(..recent.len() - keep);
    if is_sent {
        trap.take().map(|(_, fate)| fate)
    } else {
        None
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .expect("nothing panics while it holds this lock")
}
