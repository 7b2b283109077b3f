//! A relay in front of a server. It simulates distance, and a node that fails on demand.
//!
//! The relay uses blocking threads, not tasks: Tokio's timers round up to whole milliseconds. A
//! thread wakes within a tenth of a millisecond.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

/// How many bytes are read at a time.
const CHUNK: usize = 16 << 10;
/// How many chunks may be under way in one direction. Beyond that, the sender has to wait.
const QUEUE: usize = 1_024;
/// The stack size of these threads.
const STACK: usize = 128 << 10;

/// What a relay does with connections and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Way {
    Open,
    /// Connections stay open, and new ones are accepted, but no bytes get through. A stopped
    /// server, a machine that hangs, and a network that drops packets look the same.
    BlackHole,
    /// The relay closes all connections, also new ones.
    Dead,
}

/// A relay. Dropping this value ends the relay.
pub struct Relay {
    port: u16,
    state: Arc<State>,
}

struct State {
    server: SocketAddr,
    /// The delay in one direction, in nanoseconds. `u64::MAX` ends the relay.
    delay: AtomicU64,
    way: AtomicU8,
    open: Mutex<Vec<Arc<TcpStream>>>,
}

impl Relay {
    /// Starts a relay to the server at `port` on loopback. It adds `round_trip` to each round trip.
    pub fn start(port: u16, round_trip: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let own = listener.local_addr()?.port();
        let state = Arc::new(State {
            server: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            delay: AtomicU64::new(0),
            way: AtomicU8::new(Way::Open as u8),
            open: Mutex::default(),
        });
        let accepting = state.clone();
        start(move || accepting.accept(&listener))?;
        let relay = Self { port: own, state };
        relay.delay(round_trip);
        Ok(relay)
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Sets the time that the relay adds to each round trip from now on.
    pub fn delay(&self, round_trip: Duration) {
        let one_way = u64::try_from(round_trip.as_nanos() / 2).unwrap_or(u64::MAX);
        self.state.delay.store(one_way, Ordering::Relaxed);
    }

    pub fn switch(&self, way: Way) {
        self.state.way.store(way as u8, Ordering::Relaxed);
        if way == Way::Dead {
            self.state.cut();
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.switch(Way::Dead);
        self.state.delay.store(u64::MAX, Ordering::Relaxed);
        // Wakes the accepting thread, which then sees that the relay has ended.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl State {
    fn is(&self, way: Way) -> bool {
        self.way.load(Ordering::Relaxed) == way as u8
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming().flatten() {
            if self.delay.load(Ordering::Relaxed) == u64::MAX {
                return;
            }
            if !self.is(Way::Dead) {
                // A client that cannot be served sees its connection closed.
                let _ = self.connect(client);
            }
        }
    }

    fn connect(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let server = TcpStream::connect(self.server)?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (client, server) = (Arc::new(client), Arc::new(server));
        self.open.lock().unwrap_or_else(PoisonError::into_inner).extend([client.clone(), server.clone()]);
        self.carry(client.clone(), server.clone())?;
        self.carry(server, client)
    }

    fn cut(&self) {
        for stream in self.open.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Carries what `from` sends to `to`, in order.
    fn carry(self: &Arc<Self>, from: Arc<TcpStream>, to: Arc<TcpStream>) -> io::Result<()> {
        let (sender, chunks) = sync_channel(QUEUE);
        let state = self.clone();
        start(move || state.collect(&from, &sender))?;
        start(move || {
            let _ = deliver(&chunks, &to);
            let _ = to.shutdown(Shutdown::Both);
        })
    }

    fn collect(&self, mut from: &TcpStream, sender: &SyncSender<Chunk>) {
        let mut buffer = vec![0; CHUNK];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if self.is(Way::BlackHole) {
                continue;
            }
            let delay = Duration::from_nanos(self.delay.load(Ordering::Relaxed));
            if sender.send((Instant::now() + delay, buffer[..read].to_vec())).is_err() {
                return;
            }
        }
    }
}

fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    Builder::new().stack_size(STACK).spawn(work).map(drop)
}

/// When to deliver the bytes, and the bytes.
type Chunk = (Instant, Vec<u8>);

fn deliver(chunks: &Receiver<Chunk>, mut to: &TcpStream) -> io::Result<()> {
    for (due, bytes) in chunks {
        sleep(due.saturating_duration_since(Instant::now()));
        to.write_all(&bytes)?;
    }
    Ok(())
}

/// The shortest of some round trips to a server: other load on the machine only lengthens them.
pub fn round_trip(port: u16) -> io::Result<Duration> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    let mut shortest = Duration::MAX;
    for _ in 0..9 {
        let sent = Instant::now();
        stream.write_all(b"PING\r\n")?;
        stream.read_exact(&mut [0; b"+PONG\r\n".len()])?;
        shortest = shortest.min(sent.elapsed());
    }
    Ok(shortest)
}
