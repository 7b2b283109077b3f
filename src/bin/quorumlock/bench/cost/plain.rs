//! The floor: a hand-written client that does what the Redis documentation asks of one, and no
//! more.
//!
//! It acquires by `SET key owner NX PX ttl`, and releases by the documentation's compare-and-delete
//! script. Each is sent to all nodes at once and ends with the reply that makes a quorum; the other
//! replies are read as they come. There is no renewal, fence, queue, timeout or retry: a reply
//! other than the expected one ends the benchmark.
//!
//! A crowd pipelines its commands over the number of connections that it is given, unbatched: each
//! `SET` and each script call is a command of its own. One connection to each node, which is what
//! the library has, costs nodes least: what all tasks send at a moment shares one `read` of the
//! node, and the replies share one `write`. With a connection for each task, as in a pool, each
//! command costs the node both.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use futures::future::try_join_all;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::super::probe::Probe;
use crate::direct::wire::request;

/// <https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>
const COMPARE_AND_DELETE: &str =
    "if redis.call(\"get\",KEYS[1]) == ARGV[1] then return redis.call(\"del\",KEYS[1]) else return 0 end";
/// What the library asks for unless told otherwise.
const TTL_MS: &str = "30000";
/// What a `SET` that took the key is answered with, and a script that deleted it.
const GOOD: [&[u8]; 2] = [b"+OK", b":1"];
/// How much is read at a time.
const CHUNK: usize = 16 << 10;

/// A hand-written client: one connection to each node.
pub(super) struct Plain {
    links: RefCell<Vec<Link>>,
    script: String,
}

impl Plain {
    pub(super) async fn connect(ports: &[u16]) -> io::Result<Self> {
        let mut script = String::new();
        for &port in ports {
            script = Probe::connect(port)?.text(&["SCRIPT", "LOAD", COMPARE_AND_DELETE])?;
        }
        let links = try_join_all(ports.iter().map(|&port| Link::connect(port))).await?;
        Ok(Self { links: RefCell::new(links), script })
    }

    /// Acquires and releases. `owner` is nobody else's.
    pub(super) async fn pair(&self, key: &str, owner: &str) {
        self.ask(&["SET", key, owner, "NX", "PX", TTL_MS]).await;
        self.ask(&["EVALSHA", &self.script, "1", key, owner]).await;
    }

    /// Sends a command to all nodes, and waits for a quorum of replies.
    async fn ask(&self, command: &[&str]) {
        let bytes = request(command);
        let asked = Rc::new(Asked::default());
        for link in self.links.borrow_mut().iter_mut() {
            link.output.extend_from_slice(&bytes);
            link.owed.push_back(asked.clone());
        }
        asked.agreed.notified().await;
    }

    /// Carries what is asked to the nodes, and their replies back, until `work` is over and every
    /// reply has come. `work` is polled first: what its tasks ask in one go leaves in one write.
    pub(super) async fn drive<T>(&self, work: impl Future<Output = T>) -> io::Result<T> {
        let output = tokio::select! {
            biased;
            output = work => output,
            end = std::future::poll_fn(|context| self.carry(context, false)) => return Err(end.err().unwrap_or_else(closed)),
        };
        std::future::poll_fn(|context| self.carry(context, true)).await?;
        Ok(output)
    }

    /// Ends with an error; or, if `until_quiet`, when no reply is owed.
    fn carry(&self, context: &mut Context<'_>, until_quiet: bool) -> Poll<io::Result<()>> {
        let mut links = self.links.borrow_mut();
        let quorum = links.len() / 2 + 1;
        for link in links.iter_mut() {
            link.write(context)?;
            link.read(context, quorum)?;
        }
        let quiet = until_quiet && links.iter().all(|link| link.owed.is_empty());
        if quiet { Poll::Ready(Ok(())) } else { Poll::Pending }
    }
}

/// A command that was sent to all nodes.
#[derive(Default)]
struct Asked {
    replies: Cell<usize>,
    agreed: Notify,
}

impl Asked {
    fn answered(&self, quorum: usize) {
        self.replies.update(|replies| replies + 1);
        if self.replies.get() == quorum {
            self.agreed.notify_one();
        }
    }
}

/// The connection to one node.
struct Link {
    stream: TcpStream,
    output: Vec<u8>,
    /// Where replies are read to.
    chunk: Box<[u8]>,
    /// What was read and not handed out yet: the begin of a reply.
    input: Vec<u8>,
    /// Whose replies are to come, in order.
    owed: VecDeque<Rc<Asked>>,
}

impl Link {
    async fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.set_nodelay(true)?;
        let chunk = vec![0; CHUNK].into();
        Ok(Self { stream, output: Vec::new(), chunk, input: Vec::new(), owed: VecDeque::new() })
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

    /// Reads whatever has come.
    fn read(&mut self, context: &mut Context<'_>, quorum: usize) -> io::Result<()> {
        while let Poll::Ready(count) = self.fill(context)? {
            self.input.extend_from_slice(&self.chunk[..count]);
            self.settle(quorum)?;
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
    fn settle(&mut self, quorum: usize) -> io::Result<()> {
        let mut rest = &self.input[..];
        while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
            let reply = &rest[..end];
            let asked = self.owed.pop_front().filter(|_| GOOD.contains(&reply));
            asked.ok_or_else(|| unexpected(reply))?.answered(quorum);
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
    io::Error::other(format!("a plain lock was answered with {}", String::from_utf8_lossy(reply)))
}
