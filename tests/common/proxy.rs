//! A TCP proxy on loopback that fails on demand. Each direction can be delayed, held or slowed.
//! Connections can be cut, and another server can be put behind them.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

/// What happens to the bytes of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The bytes pass.
    Open,
    /// The bytes arrive this much later, in order.
    Delay(Duration),
    /// The bytes arrive one by one, this far apart.
    Drip(Duration),
    /// The bytes arrive when the direction is no longer held, as after a partition.
    Held,
}

/// What happens to the connections that are open now.
#[derive(Clone, Debug)]
enum Event {
    /// Both ends see a reset.
    Reset,
    /// The server's end is closed, and the client's stays open and silent.
    HalfOpen,
    /// The server gets these bytes as if the client had sent them.
    Inject(Arc<[u8]>),
}

/// The proxy. Dropping this value cuts all connections.
pub struct Proxy {
    port: u16,
    switch: Switch,
    accepting: JoinHandle<()>,
}

struct Switch {
    requests: watch::Sender<Way>,
    replies: watch::Sender<Way>,
    backend: watch::Sender<u16>,
    refusing: watch::Sender<bool>,
    events: broadcast::Sender<Event>,
}

impl Proxy {
    /// A proxy in front of the server at `backend`.
    pub async fn start(backend: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = listener.local_addr().expect("a bound port").port();
        let switch = Switch {
            requests: watch::Sender::new(Way::Open),
            replies: watch::Sender::new(Way::Open),
            backend: watch::Sender::new(backend),
            refusing: watch::Sender::new(false),
            events: broadcast::Sender::new(64),
        };
        let accepting = tokio::spawn(accept(listener, switch.listen()));
        Self { port, switch, accepting }
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn both(&self, way: Way) {
        self.requests(way);
        self.replies(way);
    }

    /// Switches the direction from clients to the server.
    pub fn requests(&self, way: Way) {
        self.switch.requests.send_replace(way);
    }

    /// Switches the direction from the server to clients.
    pub fn replies(&self, way: Way) {
        self.switch.replies.send_replace(way);
    }

    /// From now on, resets new connections, or accepts them.
    pub fn refuse(&self, refusing: bool) {
        self.switch.refusing.send_replace(refusing);
    }

    /// Resets every open connection.
    pub fn reset(&self) {
        let _ = self.switch.events.send(Event::Reset);
    }

    /// Closes the server's end of every open connection. The clients' ends stay open.
    pub fn half_open(&self) {
        let _ = self.switch.events.send(Event::HalfOpen);
    }

    /// Puts bytes into every open connection, towards the server.
    pub fn inject(&self, bytes: &[u8]) {
        let _ = self.switch.events.send(Event::Inject(bytes.into()));
    }

    /// Connects every open connection, and each new one, to another server. Clients keep their
    /// connections.
    pub fn retarget(&self, backend: u16) {
        self.switch.backend.send_replace(backend);
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        // One receiver belongs to the listener.
        self.switch.backend.receiver_count() - 1
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Switch {
    fn listen(&self) -> Plan {
        Plan {
            requests: self.requests.subscribe(),
            replies: self.replies.subscribe(),
            backend: self.backend.subscribe(),
            refusing: self.refusing.subscribe(),
            events: self.events.subscribe(),
        }
    }
}

/// The state that a proxy's tasks read.
struct Plan {
    requests: watch::Receiver<Way>,
    replies: watch::Receiver<Way>,
    backend: watch::Receiver<u16>,
    refusing: watch::Receiver<bool>,
    events: broadcast::Receiver<Event>,
}

impl Clone for Plan {
    fn clone(&self) -> Self {
        let Self { requests, replies, backend, refusing, events } = self;
        Self {
            requests: requests.clone(),
            replies: replies.clone(),
            backend: backend.clone(),
            refusing: refusing.clone(),
            events: events.resubscribe(),
        }
    }
}

async fn accept(listener: TcpListener, plan: Plan) {
    while let Ok((client, _)) = listener.accept().await {
        if *plan.refusing.borrow() {
            let _ = client.set_zero_linger();
            continue;
        }
        tokio::spawn(serve(client, plan.clone()));
    }
}

async fn serve(client: TcpStream, mut plan: Plan) {
    let _ = client.set_nodelay(true);
    let (mut from_client, mut to_client) = client.into_split();
    loop {
        let backend = *plan.backend.borrow_and_update();
        let Ok(server) = TcpStream::connect(("127.0.0.1", backend)).await else {
            return reset(from_client, to_client);
        };
        let _ = server.set_nodelay(true);
        let (mut from_server, mut to_server) = server.into_split();
        let (inject, injected) = mpsc::unbounded_channel();
        let requests = pump(&mut from_client, &mut to_server, plan.requests.clone(), Some(injected));
        let replies = pump(&mut from_server, &mut to_client, plan.replies.clone(), None);
        let what_next = async {
            loop {
                tokio::select! {
                    exchanged = plan.backend.changed() => return exchanged.ok().map(|()| Next::Exchange).unwrap_or(Next::Reset),
                    event = plan.events.recv() => match event {
                        Ok(Event::Inject(bytes)) => drop(inject.send(bytes)),
                        Ok(Event::HalfOpen) => return Next::HalfOpen,
                        Ok(Event::Reset) | Err(_) => return Next::Reset,
                    }
                }
            }
        };
        let next = tokio::select! {
            () = requests => return,
            () = replies => return,
            next = what_next => next,
        };
        match next {
            Next::Exchange => {}
            Next::Reset => return reset(from_client, to_client),
            Next::HalfOpen => {
                drop((from_server, to_server));
                return swallow(from_client, to_client, plan).await;
            }
        }
    }
}

enum Next {
    Exchange,
    Reset,
    HalfOpen,
}

fn reset(from_client: OwnedReadHalf, to_client: OwnedWriteHalf) {
    if let Ok(client) = from_client.reunite(to_client) {
        let _ = client.set_zero_linger();
    }
}

/// Reads the client's bytes without an answer, until the client closes or the connection is reset.
async fn swallow(mut from_client: OwnedReadHalf, to_client: OwnedWriteHalf, mut plan: Plan) {
    let mut buffer = [0; 4_096];
    loop {
        tokio::select! {
            read = from_client.read(&mut buffer) => if matches!(read, Ok(0) | Err(_)) { return },
            event = plan.events.recv() => if !matches!(event, Ok(Event::Inject(_) | Event::HalfOpen)) {
                return reset(from_client, to_client);
            }
        }
    }
}

/// Carries bytes from one end to the other until an end closes. `way` says how the bytes pass, and
/// may change at any time.
async fn pump(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    way: watch::Receiver<Way>,
    injected: Option<mpsc::UnboundedReceiver<Arc<[u8]>>>,
) {
    let (sender, mut chunks) = mpsc::channel::<(Instant, Vec<u8>)>(256);
    let reading = {
        let way = way.clone();
        async move {
            let mut buffer = vec![0; 16_384];
            while let Ok(read @ 1..) = from.read(&mut buffer).await {
                let delay = if let Way::Delay(delay) = *way.borrow() { delay } else { Duration::ZERO };
                if sender.send((Instant::now() + delay, buffer[..read].to_vec())).await.is_err() {
                    return;
                }
            }
        }
    };
    let mut way = way;
    let mut injected = injected;
    let writing = async move {
        loop {
            let bytes: Vec<u8> = tokio::select! {
                chunk = chunks.recv() => match chunk {
                    Some((due, bytes)) => { sleep_until(due).await; bytes }
                    None => break,
                },
                Some(bytes) = next(&mut injected) => bytes.to_vec(),
            };
            if write(&bytes, to, &mut way).await.is_err() {
                return;
            }
        }
        // A held direction also holds back the close of the connection.
        let _ = way.wait_for(|way| *way != Way::Held).await;
    };
    tokio::join!(reading, writing);
}

async fn next(injected: &mut Option<mpsc::UnboundedReceiver<Arc<[u8]>>>) -> Option<Arc<[u8]>> {
    match injected {
        Some(injected) => injected.recv().await,
        None => std::future::pending().await,
    }
}

async fn write(bytes: &[u8], to: &mut OwnedWriteHalf, way: &mut watch::Receiver<Way>) -> std::io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let gone = |_| std::io::ErrorKind::BrokenPipe;
        let now = *way.wait_for(|way| *way != Way::Held).await.map_err(gone)?;
        let Way::Drip(pace) = now else { return to.write_all(rest).await };
        to.write_all(&rest[..1]).await?;
        rest = &rest[1..];
        sleep(pace).await;
    }
    Ok(())
}
