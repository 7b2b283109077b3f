//! Finds the IP addresses of a server's host, and picks one that accepts connections.
//!
//! If there are several addresses, some may not respond. So each address gets a share of the time
//! limit. After this share, the client also tries the next address, while earlier attempts go on.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, Shared};
use futures::stream::{FuturesUnordered, StreamExt};
use futures::{FutureExt, TryFutureExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::endpoint::Address;
use super::wording::plain;
use crate::host::apart;
use crate::node::reply::{Fault, FaultKind};

/// The longest wait for an address before the client tries the next address too (RFC 8305).
const SILENT: Duration = Duration::from_millis(250);
/// How long a TLS connection may take to open before the client checks whether the port speaks TLS.
const SLOW: Duration = Duration::from_secs(2);
/// The client tries at most this many addresses of a host.
const ADDRESSES: usize = 16;

/// Returns the addresses of a host name. May block.
pub(super) type Resolver = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

type Found = Result<Vec<SocketAddr>, Fault>;

/// Finds a server's address, and remembers the address that was used last.
pub(super) struct Route {
    resolver: Resolver,
    /// The last look-up. Only one look-up runs at a time, because its thread cannot be stopped.
    lookup: Mutex<Option<Shared<BoxFuture<'static, Found>>>>,
    /// The address that was used last, and whether it worked.
    last: Mutex<Option<(SocketAddr, bool)>>,
}

/// A server's address, and the open connection if the host has several addresses.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) address: SocketAddr,
    #[cfg_attr(not(feature = "redis-rs"), expect(dead_code, reason = "fred connects by itself"))]
    stream: Option<TcpStream>,
}

impl Default for Route {
    fn default() -> Self {
        Self::by(system)
    }
}

impl Route {
    pub(super) fn by(resolver: Resolver) -> Self {
        Self { resolver, lookup: Mutex::default(), last: Mutex::default() }
    }

    /// Finds the address to connect to; `None` for a Unix socket. The look-up may take `step`. If
    /// there are several addresses, trying them may take another `step`.
    ///
    /// # Cancel safety
    /// Safe: the next call waits for the same look-up.
    pub(super) async fn find(&self, address: &Address, step: Duration) -> Result<Option<Reached>, Fault> {
        let Address::Tcp { host, port, .. } = address else { return Ok(None) };
        // An IP address needs no look-up, and so no thread: the machine may be at its limit of
        // threads.
        if let Ok(literal) = host.parse::<IpAddr>() {
            return Ok(Some(Reached { address: SocketAddr::new(literal, *port), stream: None }));
        }
        let found = within(step, self.look_up(host, *port)).await;
        let mut found = found.ok_or_else(|| down("the look-up of the host name did not end within node_timeout"))??;
        let last = *locked(&self.last);
        found.sort_by_key(|address| match last {
            Some((used, true)) if used == *address => 0,
            Some((used, false)) if used == *address => 2,
            _ => 1,
        });
        found.truncate(ADDRESSES);
        let reached = match found[..] {
            [address] => Reached { address, stream: None },
            _ => first(found, step).await?,
        };
        Ok(Some(reached))
    }

    /// Notes whether this address worked. If so, the next connection begins with this address;
    /// otherwise the next connection tries all other addresses before this one.
    pub(super) fn used(&self, address: SocketAddr, worked: bool) {
        *locked(&self.last) = Some((address, worked));
    }

    fn look_up(&self, host: &str, port: u16) -> Shared<BoxFuture<'static, Found>> {
        let mut lookup = locked(&self.lookup);
        match &*lookup {
            Some(running) if running.peek().is_none() => running.clone(),
            _ => lookup.insert(look_up(self.resolver, host.to_owned(), port)).clone(),
        }
    }
}

#[cfg(feature = "redis-rs")]
impl Reached {
    /// Returns the open connection, or opens one within `step`. Cancel safe.
    pub(super) async fn connected(self, step: Duration) -> Result<TcpStream, Fault> {
        match self.stream {
            Some(stream) => Ok(stream),
            None => {
                within(step, TcpStream::connect(self.address)).await.ok_or_else(silent)?.map_err(|error| failed(&error))
            }
        }
    }
}

fn system(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(std::net::ToSocketAddrs::to_socket_addrs(&(host, port))?.collect())
}

fn look_up(resolver: Resolver, host: String, port: u16) -> Shared<BoxFuture<'static, Found>> {
    let found = apart(move || resolver(&host, port));
    let found = async move {
        let found =
            found.map_err(|error| down(format!("no thread for the look-up of its host's name ({error}); {LIMIT}")))?;
        match found.await {
            Ok(Ok(found)) if found.is_empty() => Err(down("the host's name has no address")),
            Ok(found) => found.map_err(|error| failed(&error)),
            Err(_) => Err(down("the look-up of its host's name panicked")),
        }
    };
    found.boxed().shared()
}

const LIMIT: &str = "raise the limit of processes (ulimit -u, pids.max), or write the host's IP address";

/// Connects to several addresses, and returns the first connection that opens. If an address
/// refuses, or does not respond within its share of `step`, the next address is tried too.
async fn first(addresses: Vec<SocketAddr>, step: Duration) -> Result<Reached, Fault> {
    let share = SILENT.min(step / u32::try_from(addresses.len()).unwrap_or(u32::MAX));
    let accepts = async {
        let mut attempts = FuturesUnordered::new();
        let mut refused = None;
        for address in addresses {
            let connects = async move { TcpStream::connect(address).await.map(|stream| (address, stream)) };
            attempts.push(connects);
            match within(share, attempts.next()).await {
                Some(Some(Ok(accepted))) => return Ok(accepted),
                Some(Some(Err(error))) => drop(refused.get_or_insert(error)),
                Some(None) | None => {}
            }
        }
        while let Some(connected) = attempts.next().await {
            match connected {
                Ok(accepted) => return Ok(accepted),
                Err(error) => drop(refused.get_or_insert(error)),
            }
        }
        Err(refused.map_or_else(silent, |error| failed(&error)))
    };
    let accepted = within(step, accepts).await.ok_or_else(silent)?;
    accepted.map(|(address, stream)| Reached { address, stream: Some(stream) })
}

/// Waits for `opening`, a TLS connection. If the connection does not open soon, checks whether the
/// port speaks TLS at all: a server without TLS reads the handshake as the start of a command, and
/// waits for the rest.
///
/// # Cancel safety
/// As cancel safe as `opening`.
pub(super) async fn unless_plain<T>(
    address: SocketAddr,
    step: Duration,
    opening: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let asked = async {
        tokio::time::sleep(SLOW.min(step)).await;
        if !speaks_plainly(address).await.unwrap_or(false) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        opened = opening => opened,
        () = asked => Err(down("TLS failed: this port speaks no TLS; write redis://, or the port that speaks TLS")),
    }
}

/// Whether a server answers in the Redis protocol without TLS.
async fn speaks_plainly(address: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"PING\r\n").await?;
    // An error is an answer too: the server may demand a password, or refuse the connection.
    stream.read_u8().map_ok(|first| matches!(first, b'+' | b'-')).await
}

/// The output of `future`, or `None` after `limit`. As cancel safe as `future`.
pub(super) async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = tokio::time::sleep(limit) => None,
    }
}

fn failed(error: &io::Error) -> Fault {
    down(plain(&format!("{error:?}")))
}

fn silent() -> Fault {
    down("no TCP connection within node_timeout")
}

fn down(message: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Down, message)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "these are tests")]

    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

    use tokio::net::{TcpListener, TcpSocket};

    use super::*;
    use crate::node::redis::choice::Transport;
    use crate::node::redis::credentials::Site;
    use crate::node::redis::endpoint::Endpoint;

    const LONG: Duration = Duration::from_secs(60);
    const FIRST: [u8; 4] = [127, 0, 0, 2];
    const SECOND: [u8; 4] = [127, 0, 0, 1];

    fn two(_: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![(FIRST, port).into(), (SECOND, port).into()])
    }

    fn tcp(port: u16) -> Address {
        Address::Tcp { host: "host.test".to_owned(), port, tls: false }
    }

    async fn listener() -> (TcpListener, u16) {
        let listener = TcpListener::bind(SocketAddr::from((SECOND, 0))).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    /// A server that answers the commands which the transports send while they connect.
    async fn serve(listener: TcpListener) {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut asked = [0; 4_096];
                while let Ok(read @ 1..) = stream.read(&mut asked).await {
                    let greets = String::from_utf8_lossy(&asked[..read]).contains("HELLO");
                    let answer: &[u8] = if greets { b"%1\r\n$5\r\nproto\r\n:3\r\n" } else { b"+OK\r\n" };
                    stream.write_all(answer).await.unwrap();
                }
            });
        }
    }

    /// A port that does not respond, because its queue of new connections is full.
    async fn silent(port: u16) -> (TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().unwrap();
        let address = (FIRST, port).into();
        socket.bind(address).unwrap();
        let listener = socket.listen(1).unwrap();
        // Fill the queue: it has room for one connection more than the backlog.
        let waits = [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
        (listener, waits.into())
    }

    #[tokio::test]
    async fn a_silent_address_leaves_its_share_to_the_next() {
        let (listener, port) = listener().await;
        let _silent = silent(port).await;
        let serving = tokio::spawn(serve(listener));
        for &transport in Transport::ALL {
            let endpoint = Endpoint::parse(&format!("redis://host.test:{port}")).unwrap();
            let dialer = transport.dialer(Site::by(endpoint, two));
            dialer.dial(LONG).await.unwrap();
        }
        serving.abort();
    }

    #[tokio::test]
    async fn dial_ends_in_time_if_all_addresses_are_silent() {
        let (listener, port) = listener().await;
        drop(listener);
        let _silent = silent(port).await;
        let twice: Resolver = |_, port| Ok(vec![(FIRST, port).into(); 2]);
        let error = Route::by(twice).find(&tcp(port), Duration::from_millis(50)).await.unwrap_err();
        assert_eq!(error.to_string(), "no TCP connection within node_timeout");
    }

    #[tokio::test]
    async fn an_address_that_refuses_leaves_its_time_to_the_next() {
        let (_listener, port) = listener().await;
        let route = Route::by(two);
        assert_eq!(used(&route, port).await, IpAddr::from(SECOND));
        let refused: Resolver = |_, _| Ok(vec![(FIRST, 1).into(), (SECOND, 1).into()]);
        let error = Route::by(refused).find(&tcp(1), LONG).await.unwrap_err();
        assert!(error.to_string().contains("Connection refused"), "{error}");
    }

    async fn used(route: &Route, port: u16) -> IpAddr {
        route.find(&tcp(port), LONG).await.unwrap().unwrap().address.ip()
    }

    #[tokio::test]
    async fn the_address_that_worked_goes_first_and_one_that_failed_last() {
        let (_listener, port) = listener().await;
        let _other = TcpListener::bind(SocketAddr::from((FIRST, port))).await.unwrap();
        let route = Route::by(two);
        assert_eq!(used(&route, port).await, IpAddr::from(FIRST));
        route.used((FIRST, port).into(), false);
        assert_eq!(used(&route, port).await, IpAddr::from(SECOND));
        route.used((SECOND, port).into(), true);
        assert_eq!(used(&route, port).await, IpAddr::from(SECOND));
    }

    #[tokio::test]
    async fn a_literal_address_needs_no_look_up() {
        let route = Route::by(|_, _| unreachable!());
        for (host, address) in [("10.0.0.1", "10.0.0.1:7"), ("::1", "[::1]:7")] {
            let literal = Address::Tcp { host: host.to_owned(), port: 7, tls: false };
            let reached = route.find(&literal, LONG).await.unwrap().unwrap();
            assert_eq!(reached.address, address.parse().unwrap());
        }
        assert!(route.find(&Address::Unix { path: "/s".into() }, LONG).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn look_ups_that_hang_are_one() {
        static LOOK_UPS: AtomicU32 = AtomicU32::new(0);
        static ANSWERS: AtomicBool = AtomicBool::new(false);
        let route = Route::by(|_, port| {
            LOOK_UPS.fetch_add(1, Relaxed);
            while !ANSWERS.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(vec![(SECOND, port).into()])
        });
        for _ in 0..3 {
            let late = route.find(&tcp(7), Duration::from_millis(1)).await.unwrap_err();
            assert!(late.to_string().contains("did not end within node_timeout"), "{late}");
        }
        ANSWERS.store(true, Relaxed);
        for look_ups in [1, 2] {
            assert_eq!(used(&route, 7).await, IpAddr::from(SECOND));
            assert_eq!(LOOK_UPS.load(Relaxed), look_ups, "each connection looks the name up again");
        }
    }

    #[tokio::test]
    async fn a_name_without_an_address_is_told() {
        let none = Route::by(|_, _| Ok(Vec::new())).find(&tcp(7), LONG).await.unwrap_err();
        assert!(none.to_string().contains("has no address"), "{none}");
        let panics = Route::by(|_, _| panic!("a bug below")).find(&tcp(7), LONG).await.unwrap_err();
        assert!(panics.to_string().contains("panicked"), "{panics}");
    }
}
