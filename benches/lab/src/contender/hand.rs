//! The lowest floor: it writes the Redis protocol by hand over Tokio's sockets, without a client
//! library and without a task of its own.
//!
//! There is one connection to each node. Commands are not batched: each acquisition and each
//! release is a script call of its own to each node. Commands that several tasks send before the
//! sockets are polled leave in one write.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::Ipv4Addr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use futures::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::{Result, Scripts, TTL, Took, owner, quorum};
use crate::servers::write_request;

/// How many bytes are read at a time.
const CHUNK: usize = 16 << 10;
/// The replies of a `SET` that took the key, and of a script that deleted the key.
const GOOD: [&[u8]; 2] = [b"+OK", b":1"];

pub struct Hand {
    links: Mutex<Links>,
    scripts: Scripts,
    ttl: String,
}

impl Hand {
    pub async fn connect(ports: &[u16], scripts: &Scripts) -> Result<Self> {
        let mut list = Vec::new();
        for &port in ports {
            list.push(Link::connect(port).await?);
        }
        let links = Mutex::new(Links { list, carrier: None });
        Ok(Self { links, scripts: scripts.clone(), ttl: TTL.as_millis().to_string() })
    }

    pub async fn pair(&self, name: &str, number: u64) -> Result<Took> {
        let owner = owner(number);
        self.timed(&["EVALSHA", &self.scripts.acquire, "1", name, &owner, &self.ttl], name, &owner).await
    }

    /// As `pair`, but with a plain `SET` instead of a script, as in the Redis documentation.
    pub async fn plain_pair(&self, name: &str, number: u64) -> Result<Took> {
        let owner = owner(number);
        self.timed(&["SET", name, &owner, "NX", "PX", &self.ttl], name, &owner).await
    }

    async fn timed(&self, acquire: &[&str], name: &str, owner: &str) -> Result<Took> {
        let begun = Instant::now();
        self.ask(acquire).await?;
        let acquired = Instant::now();
        self.ask(&["EVALSHA", &self.scripts.release, "1", name, owner]).await?;
        Ok(Took { acquire: acquired - begun, release: acquired.elapsed() })
    }

    /// Sends a command to all nodes, and returns when a quorum has agreed.
    async fn ask(&self, command: &[&str]) -> Result<()> {
        let asked = Arc::new(Asked::default());
        let nodes = self.links().send(command, &asked);
        poll_fn(|context| asked.poll(context, nodes)).await
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work`. Carries commands of `work` and its tasks to the nodes, and the replies back.
    /// `work` is polled first, so that all commands of one poll leave in one write.
    pub async fn drive<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let driven = poll_fn(|context| {
            self.links().carrier = None;
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(output);
            }
            let mut links = self.links();
            links.carry(context);
            links.carrier = Some(context.waker().clone());
            Poll::Pending
        });
        driven.await
    }
}

/// A command that was sent to all nodes.
#[derive(Default)]
struct Asked {
    agreed: AtomicUsize,
    refused: AtomicUsize,
    waker: AtomicWaker,
}

impl Asked {
    fn poll(&self, context: &Context<'_>, nodes: usize) -> Poll<Result<()>> {
        self.waker.register(context.waker());
        if self.agreed.load(Relaxed) >= quorum(nodes) {
            return Poll::Ready(Ok(()));
        }
        let hopeless = self.refused.load(Relaxed) > nodes - quorum(nodes);
        if hopeless { Poll::Ready(Err("the floor: no quorum agreed".into())) } else { Poll::Pending }
    }

    fn answered(&self, good: bool, nodes: usize) {
        let counter = if good { &self.agreed } else { &self.refused };
        let count = counter.fetch_add(1, Relaxed) + 1;
        if !good || count == quorum(nodes) {
            self.waker.wake();
        }
    }
}

struct Links {
    list: Vec<Link>,
    /// The waker of `drive`. A new command wakes `drive`.
    carrier: Option<Waker>,
}

impl Links {
    fn send(&mut self, command: &[&str], asked: &Arc<Asked>) -> usize {
        let nodes = self.list.len();
        for link in &mut self.list {
            if link.dead {
                asked.answered(false, nodes);
            } else {
                write_request(&mut link.output, command);
                link.owed.push_back(asked.clone());
            }
        }
        if let Some(carrier) = self.carrier.take() {
            carrier.wake();
        }
        nodes
    }

    fn carry(&mut self, context: &mut Context<'_>) {
        let nodes = self.list.len();
        for link in self.list.iter_mut().filter(|link| !link.dead) {
            if link.write(context).and_then(|()| link.read(context, nodes)).is_err() {
                link.die(nodes);
            }
        }
    }
}

/// The connection to one node.
struct Link {
    stream: TcpStream,
    output: Vec<u8>,
    /// The buffer of one read.
    chunk: Box<[u8]>,
    /// The beginning of a reply that has not arrived as a whole.
    input: Vec<u8>,
    /// The commands whose replies are still to come, in order.
    owed: VecDeque<Arc<Asked>>,
    /// Whether the connection has ended. It is not opened again.
    dead: bool,
}

impl Link {
    async fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.set_nodelay(true)?;
        let chunk = vec![0; CHUNK].into();
        Ok(Self { stream, output: Vec::new(), chunk, input: Vec::new(), owed: VecDeque::new(), dead: false })
    }

    fn die(&mut self, nodes: usize) {
        self.dead = true;
        self.owed.drain(..).for_each(|asked| asked.answered(false, nodes));
    }

    fn write(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while !self.output.is_empty() {
            match Pin::new(&mut self.stream).poll_write(context, &self.output)? {
                Poll::Ready(0) => return Err(closed()),
                Poll::Ready(count) => drop(self.output.drain(..count)),
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    fn read(&mut self, context: &mut Context<'_>, nodes: usize) -> io::Result<()> {
        while let Poll::Ready(count) = self.fill(context)? {
            self.input.extend_from_slice(&self.chunk[..count]);
            self.settle(nodes)?;
        }
        Ok(())
    }

    fn fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(&mut self.chunk);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        let count = buffer.filled().len();
        Poll::Ready(if count == 0 { Err(closed()) } else { Ok(count) })
    }

    /// Hands out the replies, each of which is one line.
    fn settle(&mut self, nodes: usize) -> io::Result<()> {
        let mut rest = &self.input[..];
        while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
            let asked = self.owed.pop_front().ok_or_else(|| unexpected(&rest[..end]))?;
            asked.answered(GOOD.contains(&&rest[..end]), nodes);
            rest = &rest[end + 2..];
        }
        let left = rest.len();
        self.input.drain(..self.input.len() - left);
        Ok(())
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "a server closed the connection")
}

fn unexpected(reply: &[u8]) -> io::Error {
    io::Error::other(format!("nobody asked for {}", String::from_utf8_lossy(reply)))
}
