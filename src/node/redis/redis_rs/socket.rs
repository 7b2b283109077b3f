//! The socket of a redis-rs connection. It stores why the connection ended, because redis-rs does
//! not report the reason.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
#[cfg(feature = "__tls")]
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::node::redis::dial;
use crate::node::redis::endpoint::{Address, Endpoint};
#[cfg(not(feature = "__tls"))]
use crate::node::redis::tls::NO_TLS;
use crate::node::redis::tls::Tls;
use crate::node::redis::trouble::handshake;
use crate::node::redis::wording::{STRANGER, plain};
use crate::node::reply::{Fault, FaultKind};

/// How many reads a connection makes in one turn: one poll of its work. A server may send without
/// end, and other tasks must get their turn.
const READS: u32 = 16;

/// State that the socket and its `RedisRsConnection` share.
#[derive(Debug)]
pub(super) struct Log {
    /// How many reads are left in this turn.
    reads: AtomicU32,
    /// Why the connection ended.
    ended: Mutex<Option<String>>,
}

impl Default for Log {
    /// Before the first turn, the connection is still being opened, and reads are not limited.
    fn default() -> Self {
        Self { reads: AtomicU32::new(u32::MAX), ended: Mutex::default() }
    }
}

impl Log {
    /// Starts a turn of at most `READS` reads.
    pub(super) fn begin(&self) {
        self.reads.store(READS, Relaxed);
    }

    /// Why the connection ended. If the socket stored no reason, redis-rs has ended the connection,
    /// because it could not parse the server's bytes.
    pub(super) fn why(&self) -> String {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.clone().unwrap_or_else(|| STRANGER.to_owned())
    }

    fn may_read(&self) -> bool {
        self.reads.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    fn end(&self, why: impl FnOnce() -> String) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(why);
    }

    fn note<T>(&self, result: io::Result<T>, speaks_tls: bool) -> io::Result<T> {
        if let Err(error) = &result {
            self.end(|| told(error, speaks_tls));
        }
        result
    }
}

/// The text of an I/O error. `speaks_tls` says that the error is of a TLS connection after its
/// handshake. In such an error, the alert HandshakeFailure cannot mean a missing client
/// certificate.
pub(super) fn told(error: &io::Error, speaks_tls: bool) -> String {
    let debug = format!("{error:?}");
    if speaks_tls { handshake(&debug, true) } else { plain(&debug) }
}

#[derive(Debug)]
pub(super) struct Socket {
    stream: Stream,
    speaks_tls: bool,
    log: Arc<Log>,
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    #[cfg(feature = "__tls")]
    Tls(Box<TlsStream<TcpStream>>),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Socket {
    /// Opens a socket. The TCP connection may take `step`. With TLS, reading the files may take
    /// another `step`. The TLS handshake has two round trips, so it may take twice `step`.
    pub(super) async fn open(
        endpoint: &Endpoint,
        reached: Option<dial::Reached>,
        step: Duration,
    ) -> Result<(Self, Arc<Log>), Fault> {
        let log = Arc::<Log>::default();
        let stream = Stream::open(endpoint, reached, step).await?;
        Ok((Self { stream, speaks_tls: endpoint.speaks_tls(), log: log.clone() }, log))
    }
}

impl Stream {
    async fn open(endpoint: &Endpoint, reached: Option<dial::Reached>, step: Duration) -> Result<Self, Fault> {
        match (&endpoint.address, reached) {
            (Address::Tcp { tls: false, .. }, Some(reached)) => tcp(reached, step).await.map(Self::Tcp),
            (Address::Tcp { host, tls: true, .. }, Some(reached)) => {
                Self::tls(&endpoint.tls, host, reached, step).await
            }
            (Address::Tcp { .. }, None) => Err(down("the host's name has no address")),
            #[cfg(unix)]
            (Address::Unix { path }, _) => {
                let opened = dial::within(step, UnixStream::connect(path)).await;
                opened
                    .ok_or_else(|| down("the Unix socket did not accept a connection within node_timeout"))?
                    .map(Self::Unix)
                    .map_err(failed)
            }
            #[cfg(not(unix))]
            (Address::Unix { .. }, _) => Err(down("there are no Unix sockets here")),
        }
    }

    #[cfg(feature = "__tls")]
    async fn tls(tls: &Tls, host: &str, reached: dial::Reached, step: Duration) -> Result<Self, Fault> {
        let connector = TlsConnector::from(Arc::new(tls.at_connect(step).await.map_err(down)?));
        let name = tls.name(host).map_err(|why| down(format!("TLS failed: {why}")))?;
        let stream = tcp(reached, step).await?;
        let agreed = dial::within(step.saturating_mul(2), connector.connect(name, stream)).await;
        let agreed = agreed
            .ok_or_else(|| down("no TLS connection in time; does this port speak TLS? If so, the server hangs"))?;
        let failed = |error: io::Error| down(handshake(&format!("{error:?}"), tls.is_identified()));
        agreed.map(|stream| Self::Tls(Box::new(stream))).map_err(failed)
    }

    /// Without TLS, the connection fails. Otherwise the login would be sent in plain text.
    #[cfg(not(feature = "__tls"))]
    async fn tls(_: &Tls, _: &str, _: dial::Reached, _: Duration) -> Result<Self, Fault> {
        Err(down(NO_TLS))
    }
}

async fn tcp(reached: dial::Reached, step: Duration) -> Result<TcpStream, Fault> {
    let stream = reached.connected(step).await?;
    stream.set_nodelay(true).map_err(failed)?;
    Ok(stream)
}

#[expect(clippy::needless_pass_by_value, reason = "map_err passes the error by value")]
fn failed(error: io::Error) -> Fault {
    down(told(&error, false))
}

fn down(message: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Down, message)
}

/// Calls the same method on each kind of stream.
macro_rules! on {
    ($stream:expr, $stream_name:ident => $call:expr) => {
        match $stream {
            Stream::Tcp($stream_name) => $call,
            #[cfg(feature = "__tls")]
            Stream::Tls($stream_name) => $call,
            #[cfg(unix)]
            Stream::Unix($stream_name) => $call,
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.log.may_read() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = into.filled().len();
        let read = ready!(on!(&mut self.stream, stream => Pin::new(stream).poll_read(context, into)));
        if read.is_ok() && into.filled().len() == before {
            self.log.end(|| "the connection ended".to_owned());
        }
        Poll::Ready(self.log.note(read, self.speaks_tls))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(on!(&mut self.stream, stream => Pin::new(stream).poll_write(context, bytes)));
        Poll::Ready(self.log.note(written, self.speaks_tls))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(on!(&mut self.stream, stream => Pin::new(stream).poll_flush(context)));
        Poll::Ready(self.log.note(flushed, self.speaks_tls))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        on!(&mut self.stream, stream => Pin::new(stream).poll_shutdown(context))
    }
}
