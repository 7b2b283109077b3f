//! The quorum: hands out locks by name.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::lock::QuorumLock;
use super::worker::Worker;
use crate::config::LockOptions;
use crate::error::Result;
use crate::lock::{Quorum as Nodes, QuorumBuilder};
use crate::node::NodeStatus;
use crate::protocol::{Inspected, Taken};

/// N independent nodes that vote on who holds a name: [`quorumlock::Quorum`](crate::Quorum) for
/// threads. Cheap to clone, `Send` and `Sync`.
///
/// When the last handle, lock and guard are dropped, its thread ends, as soon as what was released
/// has been sent. Except within a Tokio runtime that drop waits for it, for up to 250 ms, so that a
/// guard that is dropped as `main` returns is released. Leases, sessions and iterators keep it too.
/// A `static` is never dropped, so nothing waits for what its quorum releases last: call
/// [`shutdown`](Self::shutdown) before `main` returns.
///
/// # Examples
/// ```
/// # fn main() -> quorumlock::Result<()> {
/// use quorumlock::blocking::Quorum;
/// use std::time::Duration;
///
/// let quorum = Quorum::in_memory(5)?;
/// let guard = quorum.lock("orders/42").describe("a return").acquire(Duration::from_secs(5))?;
/// assert!(quorum.inspect("orders/42")?.holder().is_some());
/// guard.release()?;
/// quorum.shutdown(Duration::from_secs(1))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Quorum(pub(super) Arc<Worker>);

impl Quorum {
    /// Connects, and returns when a quorum of nodes is admitted: see [`QuorumBuilder::connect`].
    ///
    /// # Errors
    /// As [`QuorumBuilder::connect`]; `Config` within a Tokio runtime, `Unavailable` if the system
    /// gives no thread. A process that forks connects after it has forked.
    ///
    /// # Examples
    /// ```no_run
    /// # fn main() -> quorumlock::Result<()> {
    /// use quorumlock::blocking::Quorum;
    ///
    /// let nodes = ["redis://eu:6379", "redis://us:6379", "redis://asia:6379"];
    /// let quorum = Quorum::connect(quorumlock::Quorum::builder().nodes(nodes))?;
    /// # drop(quorum);
    /// # Ok(())
    /// # }
    /// ```
    pub fn connect(builder: QuorumBuilder) -> Result<Self> {
        Worker::start(builder.connect()).map(Self)
    }

    /// Starts to connect and returns at once: see [`QuorumBuilder::open`].
    ///
    /// # Errors
    /// `Config` if a setting makes no sense, or within a Tokio runtime; `Unavailable` if the system
    /// gives no thread.
    pub fn open(builder: QuorumBuilder) -> Result<Self> {
        Worker::start(async { builder.open() }).map(Self)
    }

    /// Connects to the nodes that the environment names: see [`Quorum::from_env`](Nodes::from_env).
    ///
    /// # Errors
    /// As [`Quorum::from_env`](Nodes::from_env), and as [`connect`](Self::connect).
    pub fn from_env() -> Result<Self> {
        Worker::start(Nodes::from_env()).map(Self)
    }

    /// A quorum of `nodes` nodes in this process's memory, for examples and tests. It excludes
    /// within this process only.
    ///
    /// # Errors
    /// `Config` for no node or more than 64, and within a Tokio runtime; `Unavailable` if the
    /// system gives no thread.
    pub fn in_memory(nodes: usize) -> Result<Self> {
        Worker::start(async { Nodes::in_memory(nodes) }).map(Self)
    }

    /// The same with settings: see [`QuorumBuilder::in_memory`].
    ///
    /// # Errors
    /// As [`in_memory`](Self::in_memory), and `Config` if a setting makes no sense.
    pub fn in_memory_with(builder: QuorumBuilder, nodes: usize) -> Result<Self> {
        Worker::start(async { builder.in_memory(nodes) }).map(Self)
    }

    /// The lock on `name`: see [`Quorum::lock`](Nodes::lock).
    #[must_use]
    pub fn lock(&self, name: impl AsRef<str>) -> QuorumLock {
        QuorumLock::new(self.0.quorum.lock(name), self.0.clone())
    }

    /// The lock on `name` with options of its own.
    ///
    /// # Errors
    /// As [`Quorum::lock_with`](Nodes::lock_with).
    pub fn lock_with(&self, name: impl AsRef<str>, options: &LockOptions) -> Result<QuorumLock> {
        Ok(QuorumLock::new(self.0.quorum.lock_with(name, options)?, self.0.clone()))
    }

    /// The lock on all of `names`: see [`Quorum::lock_all`](Nodes::lock_all).
    #[must_use]
    pub fn lock_all(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> QuorumLock {
        QuorumLock::new(self.0.quorum.lock_all(names), self.0.clone())
    }

    /// The lock on all of `names` with options of its own.
    ///
    /// # Errors
    /// As [`lock_with`](Self::lock_with).
    pub fn lock_all_with(
        &self,
        names: impl IntoIterator<Item = impl AsRef<str>>,
        options: &LockOptions,
    ) -> Result<QuorumLock> {
        Ok(QuorumLock::new(self.0.quorum.lock_all_with(names, options)?, self.0.clone()))
    }

    /// The options of locks that set no others, to start from for [`lock_with`](Self::lock_with).
    #[must_use]
    pub fn options(&self) -> LockOptions {
        self.0.quorum.options()
    }

    /// How each node is, in the order in which they were configured.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.0.quorum.nodes()
    }

    /// Asks all nodes who holds `name`: see [`Quorum::inspect`](Nodes::inspect).
    ///
    /// # Errors
    /// `Config` for a bad name or within a Tokio runtime, `Closed` after a shutdown.
    pub fn inspect(&self, name: &str) -> Result<Inspected> {
        self.0.wait(self.0.quorum.inspect(name))?
    }

    /// Takes `name` away from whoever holds it, and makes no two holders: see
    /// [`Quorum::revoke`](Nodes::revoke).
    ///
    /// # Errors
    /// As [`Quorum::revoke`](Nodes::revoke), and `Config` within a Tokio runtime.
    pub fn revoke(&self, name: &str) -> Result<Taken> {
        self.0.wait(self.0.quorum.revoke(name))?
    }

    /// Frees `name` at once, whoever holds it; **until the holder learns of it there may be two**:
    /// see [`Quorum::force_release`](Nodes::force_release).
    ///
    /// # Errors
    /// As [`Quorum::force_release`](Nodes::force_release), and `Config` within a Tokio runtime.
    pub fn force_release(&self, name: &str) -> Result<Taken> {
        self.0.wait(self.0.quorum.force_release(name))?
    }

    /// Waits until a quorum of nodes is admitted: see [`Quorum::ready`](Nodes::ready).
    ///
    /// # Errors
    /// As [`Quorum::ready`](Nodes::ready), and `Config` within a Tokio runtime.
    pub fn ready(&self, patience: Duration) -> Result<()> {
        self.0.wait(self.0.quorum.ready(patience))?
    }

    /// Stops: nobody acquires any more, locks that are held are lost and released, and what is
    /// being released is waited for until `deadline` from now: see
    /// [`Quorum::shutdown`](Nodes::shutdown).
    ///
    /// # Errors
    /// `Config` within a Tokio runtime; then nothing was stopped.
    pub fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.0.wait(self.0.quorum.shutdown(deadline))
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.quorum, f)
    }
}
