//! The socket of a connection: who is on the other side, and whether the other side has closed.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream, tcp, unix};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::busy::Requests;
use super::terms::Peer;

/// The longest time from the first byte of a request to the end of its head.
const HEAD: Duration = Duration::from_secs(10);

pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    /// The process on the other side, and over TCP the agent's port. A Unix socket whose peer is
    /// unknown is an error: it must not be taken for a client over TCP.
    pub(super) fn sides(&self) -> io::Result<(Peer, Option<u16>)> {
        match self {
            Self::Unix(socket) => {
                let seen = socket.peer_cred()?;
                Ok((Peer { uid: Some(seen.uid()), pid: seen.pid() }, None))
            }
            Self::Tcp(socket) => Ok((Peer::default(), Some(socket.local_addr()?.port()))),
        }
    }

    /// Splits the socket. Dropping the writer tells the other side that nothing more comes.
    pub(super) fn split(self) -> (Arc<Reading>, Writing) {
        match self {
            Self::Unix(socket) => {
                let (reading, writing) = socket.into_split();
                (Reading::new(Half::Unix(reading)), Box::new(writing))
            }
            Self::Tcp(socket) => {
                // Send small answers at once, because clients wait for them.
                let _ = socket.set_nodelay(true);
                let (reading, writing) = socket.into_split();
                (Reading::new(Half::Tcp(reading)), Box::new(writing))
            }
        }
    }
}

pub(super) type Writing = Box<dyn AsyncWrite + Send + Unpin>;

enum Half {
    Unix(unix::OwnedReadHalf),
    Tcp(tcp::OwnedReadHalf),
}

pub(super) struct Reading {
    half: Half,
    /// Is cancelled when a read has found that the other side has closed.
    over: CancellationToken,
}

impl Reading {
    fn new(half: Half) -> Arc<Self> {
        Arc::new(Self { half, over: CancellationToken::new() })
    }

    /// Whether a read has found that the other side has closed. A read may find this before
    /// [`closed`](Self::closed) does.
    pub(super) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Waits until the other side has closed the connection, or its direction to us. Notices this
    /// even before all bytes are read: hyper stops reading while it answers a request and has read
    /// the next one.
    pub(super) async fn closed(&self) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            // `PRIORITY` reports a close, and urgent data, which no client sends.
            let interest = tokio::io::Interest::PRIORITY;
            let ready = async {
                match &self.half {
                    Half::Unix(socket) => socket.ready(interest).await,
                    Half::Tcp(socket) => socket.ready(interest).await,
                }
            };
            tokio::select! {
                _ = ready => {}
                () = self.over.cancelled() => {}
            }
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        self.over.cancelled().await;
    }

    fn poll_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.half {
            Half::Unix(socket) => socket.as_ref().poll_read_ready(context),
            Half::Tcp(socket) => socket.as_ref().poll_read_ready(context),
        }
    }

    fn try_read(&self, buffer: &mut ReadBuf<'_>) -> io::Result<usize> {
        let unfilled = buffer.initialize_unfilled();
        let is_full = unfilled.is_empty();
        let read = match &self.half {
            Half::Unix(socket) => socket.try_read(unfilled),
            Half::Tcp(socket) => socket.try_read(unfilled),
        };
        match &read {
            Ok(0) if !is_full => self.over.cancel(),
            Err(error) if has_gone(error) => self.over.cancel(),
            _ => {}
        }
        buffer.advance(*read.as_ref().unwrap_or(&0));
        read
    }
}

/// Whether a read or a write failed because the other side has closed.
pub(super) fn has_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
}

/// Reads requests. Fails if the head of a request takes too long. (hyper's own limit also counts
/// the time between two requests.)
pub(super) struct Reader {
    socket: Arc<Reading>,
    requests: Arc<Requests>,
    /// How many requests came before the one whose head is being read, and when this head is too
    /// late.
    head: Option<(u64, Instant)>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Reader {
    pub(super) const fn new(socket: Arc<Reading>, requests: Arc<Requests>) -> Self {
        Self { socket, requests, head: None, timer: None }
    }

    /// Whether the head of a request takes too long. Call this if no bytes can be read now.
    fn is_late(&mut self, context: &mut Context<'_>) -> bool {
        let current = self.head.filter(|(before, _)| self.requests.idle_after() == Some(*before));
        let Some((_, end)) = current else {
            (self.head, self.timer) = (None, None);
            return false;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if timer.deadline() != end {
            timer.as_mut().reset(end);
        }
        timer.as_mut().poll(context).is_ready()
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self.socket.poll_ready(context) {
                Poll::Ready(ready) => ready?,
                Poll::Pending if self.is_late(context) => return Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
                Poll::Pending => return Poll::Pending,
            }
            match self.socket.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(_) => {
                    let before = self.requests.idle_after();
                    if let Some(before) = before.filter(|before| self.head.is_none_or(|(head, _)| head != *before)) {
                        self.head = Some((before, Instant::now() + HEAD));
                    }
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tokio::io::AsyncReadExt;

    use super::*;

    /// A read must notice the client's close, which the runtime may report later. Otherwise the
    /// agent would think that it closed the connection itself.
    #[tokio::test]
    async fn read_notices_that_the_client_has_closed() {
        let (mut client, agent) = std::os::unix::net::UnixStream::pair().unwrap();
        agent.set_nonblocking(true).unwrap();
        let (reading, _writing) = Socket::Unix(UnixStream::from_std(agent).unwrap()).split();
        let mut reader = Reader::new(reading.clone(), Arc::new(Requests::new()));
        client.write_all(b"GET").unwrap();
        assert_eq!(reader.read(&mut [0; 9]).await.unwrap(), 3);
        assert!(!reading.is_over());
        drop(client);
        assert_eq!(reader.read(&mut [0; 9]).await.unwrap(), 0);
        assert!(reading.is_over());
        reading.closed().await;
    }
}
