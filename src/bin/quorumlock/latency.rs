//! Simulates distance on one machine. A TCP relay in front of each server delays bytes both ways.
//!
//! The relay uses blocking threads, not tasks. Tokio's timers round up to whole milliseconds, which
//! would add one or two milliseconds to every round trip. A thread usually wakes less than a tenth
//! of a millisecond late, and `distant` subtracts this delay.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// How many bytes are read at a time.
const CHUNK: usize = 16 << 10;
/// How many chunks a relay holds for one direction. If this queue is full, the sender has to wait.
const QUEUE: usize = 1_024;
/// The stack size of the relay's threads. Looking up a host needs the most stack.
const STACK: usize = 256 << 10;
/// How many connections a relay has at a time. It closes further connections.
const CONNECTIONS: usize = 256;
/// How long a server may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause after the relay could not accept a connection or start its thread, for example because
/// no file descriptor is left.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest delay that a relay itself adds. If a measured delay is longer, the excess comes from
/// the machine's load, and `distant` does not subtract it.
const MOST_LATE: Duration = Duration::from_micros(400);

/// Starts a relay in front of each of `ports` on loopback, with the given round trips. A single
/// round trip applies to all ports. Returns the relays' ports. Without round trips, starts no relay
/// and returns `ports`. The relays end with this process.
pub(crate) fn apart(ports: &[u16], round_trips: &[Duration]) -> Result<Vec<u16>, Failure> {
    let distance = |index: usize| match round_trips {
        [] => Ok(None),
        [all] => Ok(Some(*all)),
        each if each.len() == ports.len() => Ok(Some(each[index])),
        each => {
            let counts = format!("--latency has {} values for {} servers", each.len(), ports.len());
            Err(Failure::usage(format!("{counts}: give one for all, or one for each")))
        }
    };
    let place = |(index, &port)| match distance(index)? {
        Some(round_trip) => Ok(distant(port, round_trip)?),
        None => Ok(port),
    };
    ports.iter().enumerate().map(place).collect()
}

/// Starts a relay through which a round trip takes `round_trip`. Measures the delay that a relay
/// itself adds, and subtracts this delay.
fn distant(port: u16, round_trip: Duration) -> io::Result<u16> {
    let shortest = measured(proxy(port, round_trip / 2)?)?[0];
    let extra = shortest.saturating_sub(round_trip).min(MOST_LATE);
    proxy(port, round_trip.saturating_sub(extra) / 2)
}

/// Starts a relay in front of the server at `port`. Returns the relay's port.
fn proxy(port: u16, delay: Duration) -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let own = listener.local_addr()?.port();
    relay(listener, format!("127.0.0.1:{port}"), delay)?;
    Ok(own)
}

/// Relays each connection of `listener` to `server`, a host and a port. Looks up the host for each
/// connection. Bytes arrive `delay` later, in both directions. The relay ends with this process.
pub(crate) fn relay(listener: TcpListener, server: String, delay: Duration) -> io::Result<()> {
    let relay = Arc::new(Relay { server, delay });
    start(move || relay.accept(&listener))
}

fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    Builder::new().stack_size(STACK).spawn(work).map(drop)
}

/// The server behind a relay. Each direction of each connection has a reference to this value, so
/// `accept` counts connections by the number of references.
struct Relay {
    server: String,
    delay: Duration,
}

impl Relay {
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if Arc::strong_count(&self) > 2 * CONNECTIONS {
                continue;
            }
            let relay = self.clone();
            // If a client cannot be served, its connection is closed.
            if client.and_then(|client| start(move || drop(relay.connect(client)))).is_err() {
                sleep(PAUSE);
            }
        }
    }

    fn connect(self: Arc<Self>, client: TcpStream) -> io::Result<()> {
        let server = self.reach()?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (client, server) = (Arc::new(client), Arc::new(server));
        self.clone().carry(client.clone(), server.clone())?;
        self.carry(server, client)
    }

    fn reach(&self) -> io::Result<TcpStream> {
        let mut met = io::Error::from(io::ErrorKind::NotFound);
        for address in self.server.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(server) => return Ok(server),
                Err(error) => met = error,
            }
        }
        Err(met)
    }

    /// Sends the bytes of `from` to `to`, in order, each after the delay.
    fn carry(self: Arc<Self>, from: Arc<TcpStream>, to: Arc<TcpStream>) -> io::Result<()> {
        let (sender, chunks) = sync_channel(QUEUE);
        let (source, delay) = (from.clone(), self.delay);
        start(move || collect(&source, &sender, delay))?;
        start(move || {
            let _counted = self;
            if deliver(&chunks, &to).is_err() {
                // The receiver is gone, so end the sender's connection too.
                let _ = from.shutdown(Shutdown::Both);
            }
        })
    }
}

/// The time at which bytes are to arrive, and the bytes. An empty chunk is the end of the stream.
type Chunk = (Instant, Vec<u8>);

fn collect(mut from: &TcpStream, sender: &SyncSender<Chunk>, delay: Duration) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = from.read(&mut buffer).unwrap_or(0);
        // The end of the stream is delayed, too.
        let sent = sender.send((Instant::now() + delay, buffer[..read].to_vec()));
        if read == 0 || sent.is_err() {
            return;
        }
    }
}

fn deliver(chunks: &Receiver<Chunk>, mut to: &TcpStream) -> io::Result<()> {
    for (due, bytes) in chunks {
        sleep(due.saturating_duration_since(Instant::now()));
        if bytes.is_empty() {
            // The other direction stays open.
            return to.shutdown(Shutdown::Write);
        }
        to.write_all(&bytes)?;
    }
    Ok(())
}

/// Measures five round trips to a server. Returns the shortest first.
pub(crate) fn measured(port: u16) -> io::Result<[Duration; 5]> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    let mut trips = [Duration::ZERO; 5];
    for trip in &mut trips {
        let sent = Instant::now();
        stream.write_all(b"PING\r\n")?;
        stream.read_exact(&mut [0; b"+PONG\r\n".len()])?;
        *trip = sent.elapsed();
    }
    trips.sort_unstable();
    Ok(trips)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use tokio::net::TcpSocket;
    use tokio::runtime::Runtime;

    /// A server that sends back its input in upper case, and then `bye` when its input ends.
    fn echo() -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 1_024];
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                stream.write_all(&buffer[..read].to_ascii_uppercase()).unwrap();
            }
            stream.write_all(b"bye").unwrap();
        });
        port
    }

    #[test]
    fn relay_keeps_byte_order_and_passes_on_a_half_close() {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy(echo(), PAUSE).unwrap())).unwrap();
        let began = Instant::now();
        let sent: Vec<u8> = (0..200_000).map(|index| b'a' + (index % 26) as u8).collect();
        let mut writer = stream.try_clone().unwrap();
        let bytes = sent.clone();
        thread::spawn(move || {
            writer.write_all(&bytes).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        assert!(began.elapsed() >= 2 * PAUSE, "half of the distance each way");
        assert_eq!(got, [sent.to_ascii_uppercase(), b"bye".to_vec()].concat());
    }

    #[test]
    fn relay_delays_messages_in_parallel() {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy(echo(), 10 * PAUSE).unwrap())).unwrap();
        let began = Instant::now();
        for _ in 0..400 {
            stream.write_all(b"a").unwrap();
            thread::sleep(Duration::from_millis(1));
        }
        // A loaded machine may need many seconds to send all messages.
        let sent = began.elapsed();
        stream.read_exact(&mut [0; 400]).unwrap();
        // If the relay delayed messages one after another, they would take 80 s. The upper bound is
        // high, because a loaded machine may stall.
        assert!((20 * PAUSE..sent + 2_000 * PAUSE).contains(&began.elapsed()), "{sent:?} {:?}", began.elapsed());
    }

    #[test]
    fn connection_to_absent_server_is_closed_and_next_is_relayed() {
        // The socket is bound, so no other program gets the port. It does not listen yet.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let port = proxy(socket.local_addr().unwrap().port(), Duration::ZERO).unwrap();
        let mut refused = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(!matches!(refused.read(&mut [0]), Ok(1..)), "nothing is said for a server that is gone");
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(async { socket.listen(1) }).unwrap();
        let _carried = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(runtime.block_on(listener.accept()).is_ok());
    }

    #[test]
    fn round_trips_that_match_no_number_of_servers_are_refused() {
        let ms = Duration::from_millis;
        assert!(apart(&[1, 2, 3], &[ms(1), ms(2)]).is_err());
        assert_eq!(apart(&[1, 2], &[]).unwrap(), [1, 2]);
    }
}
