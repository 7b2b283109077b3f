//! The quorum: its nodes, and the holders of names.

use std::ops::Deref;
use std::time::Duration;

use super::worker::{Blocking, debug_as_async};
use crate::config::LockOptions;
use crate::error::Result;
use crate::lock::{Members, QuorumBuilder};
use crate::node::NodeStatus;
use crate::protocol::{Inspected, Taken};

/// N independent nodes that vote on which owner holds a name. This type is
/// [`quorumlock::Quorum`](crate::Quorum) for threads. Cheap to clone, `Send` and `Sync`.
///
/// The quorum's thread ends once the last handle, lock and guard are dropped, and all releases are
/// confirmed (after 30 s at most). Leases, sessions and iterators keep the thread alive too.
/// Outside of a Tokio runtime, dropping the last of all these values waits up to 250 ms for the
/// releases. So a lock is released even if its guard is dropped just as `main` returns. A quorum in
/// a `static` is never dropped: call [`shutdown`](Self::shutdown) before `main` returns.
///
/// # Examples
/// ```
/// use quorumlock::blocking::Quorum;
/// use std::time::Duration;
///
/// let quorum = Quorum::in_memory(5)?;
/// let guard = quorum.lock("orders/42").describe("a return").acquire(Duration::from_secs(5))?;
/// assert!(quorum.inspect("orders/42")?.holder().is_some());
/// guard.release()?;
/// quorum.shutdown(Duration::from_secs(1))?;
/// # Ok::<(), quorumlock::Error>(())
/// ```
#[derive(Clone)]
pub struct Quorum(pub(super) Blocking<crate::Quorum>);

/// An iterator over the held names, page by page: see [`Quorum::held_names`].
///
/// The pages are those that [`HeldNames::next`](crate::HeldNames::next) returns. The iterator has
/// the methods [`unread`](crate::HeldNames::unread), [`missed`](crate::HeldNames::missed) and
/// [`is_complete`](crate::HeldNames::is_complete) of [`quorumlock::HeldNames`](crate::HeldNames).
/// These methods work after the last page too.
///
/// An error ends the iterator: `Config` within a Tokio runtime, `Closed` after a shutdown.
///
/// # Examples
/// ```
/// # let quorum = quorumlock::blocking::Quorum::in_memory(3)?;
/// # let _guard = quorum.lock("orders/42").acquire_default()?;
/// let mut names = quorum.held_names();
/// for page in &mut names {
///     for (name, inspected) in page? {
///         println!("{name} is held by {:?}", inspected.holder());
/// #       assert_eq!(name, "orders/42");
///     }
/// }
/// assert!(names.is_complete());
/// # Ok::<(), quorumlock::Error>(())
/// ```
pub struct HeldNames(
    Blocking<crate::HeldNames>,
    /// Whether the iterator has ended.
    bool,
);

impl Quorum {
    /// Connects, and returns when a quorum of nodes is connected and checked: see
    /// [`QuorumBuilder::connect`]. If your process forks, connect after the fork.
    ///
    /// # Errors
    /// As [`QuorumBuilder::connect`]. Also `Config` within a Tokio runtime, and `Unavailable` if
    /// the system cannot start a thread.
    pub fn connect(builder: QuorumBuilder) -> Result<Self> {
        Blocking::start(builder.connect()).map(Self)
    }

    /// Starts to connect and returns at once: see [`QuorumBuilder::open`].
    ///
    /// # Errors
    /// `Config` if a setting is invalid, or within a Tokio runtime; `Unavailable` if the system
    /// cannot start a thread.
    pub fn open(builder: QuorumBuilder) -> Result<Self> {
        Blocking::start(async { builder.open() }).map(Self)
    }

    /// Connects to the nodes that the environment names: see
    /// [`Quorum::from_env`](crate::Quorum::from_env).
    ///
    /// # Errors
    /// As [`Quorum::from_env`](crate::Quorum::from_env) and [`connect`](Self::connect).
    pub fn from_env() -> Result<Self> {
        Blocking::start(crate::Quorum::from_env()).map(Self)
    }

    /// A quorum of `nodes` nodes in this process's memory, for examples and tests. Its locks
    /// exclude only callers in this process.
    ///
    /// # Errors
    /// As [`open`](Self::open), and `Config` if `nodes` is 0 or above 64.
    pub fn in_memory(nodes: usize) -> Result<Self> {
        Blocking::start(async { crate::Quorum::in_memory(nodes) }).map(Self)
    }

    /// A quorum in memory, with the builder's settings: see [`QuorumBuilder::in_memory`].
    ///
    /// # Errors
    /// As [`in_memory`](Self::in_memory), and `Config` if a setting is invalid.
    pub fn in_memory_with(builder: QuorumBuilder, nodes: usize) -> Result<Self> {
        Blocking::start(async { builder.in_memory(nodes) }).map(Self)
    }

    /// A copy of the default options of this quorum's locks, as a base for
    /// [`lock_with`](Self::lock_with).
    #[must_use]
    pub fn options(&self) -> LockOptions {
        self.0.inner.options()
    }

    /// The state of each node, in the order of the configuration.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeStatus> {
        self.0.inner.nodes()
    }

    /// Asks all nodes which owner holds `name`: see [`Quorum::inspect`](crate::Quorum::inspect).
    ///
    /// # Errors
    /// `Config` for a bad name or within a Tokio runtime, `Closed` after a shutdown.
    pub fn inspect(&self, name: &str) -> Result<Inspected> {
        self.0.wait(self.0.inner.inspect(name))
    }

    /// Takes `name` away from its holder, without making two holders: see
    /// [`Quorum::revoke`](crate::Quorum::revoke).
    ///
    /// # Errors
    /// As [`Quorum::revoke`](crate::Quorum::revoke), and `Config` within a Tokio runtime.
    pub fn revoke(&self, name: &str) -> Result<Taken> {
        self.0.wait(self.0.inner.revoke(name))
    }

    /// Frees `name` at once. **There may be two holders until the present holder learns that it
    /// lost the lock**: see [`Quorum::force_release`](crate::Quorum::force_release).
    ///
    /// # Errors
    /// As [`Quorum::force_release`](crate::Quorum::force_release); `Config` within a Tokio runtime.
    pub fn force_release(&self, name: &str) -> Result<Taken> {
        self.0.wait(self.0.inner.force_release(name))
    }

    /// Lists all held names: see [`Quorum::held_names`](crate::Quorum::held_names).
    #[must_use]
    pub fn held_names(&self) -> HeldNames {
        HeldNames(self.0.wrap(self.0.inner.held_names()), false)
    }

    /// Asks all nodes for their records. A node's record names the list in force on the node: see
    /// [`Quorum::members`](crate::Quorum::members).
    ///
    /// # Errors
    /// `Config` within a Tokio runtime, `Closed` after a shutdown. A node that does not answer is
    /// no error: the result reports it.
    pub fn members(&self) -> Result<Members> {
        self.0.wait(self.0.inner.members())
    }

    /// Declares that the servers of all nodes are new, so that they vote at once: see
    /// [`Quorum::init`](crate::Quorum::init).
    ///
    /// # Errors
    /// As [`Quorum::init`](crate::Quorum::init). `Config` within a Tokio runtime: nothing is sent.
    pub fn init(&self) -> Result<()> {
        self.0.wait(self.0.inner.init())
    }

    /// Waits until a quorum of nodes is connected and checked: see
    /// [`Quorum::ready`](crate::Quorum::ready).
    ///
    /// # Errors
    /// As [`Quorum::ready`](crate::Quorum::ready), and `Config` within a Tokio runtime.
    pub fn ready(&self, patience: Duration) -> Result<()> {
        self.0.wait(self.0.inner.ready(patience))
    }

    /// Stops the quorum. From now on all acquisitions fail, and held locks are lost and released.
    /// Waits for the releases for `deadline` at most: see
    /// [`Quorum::shutdown`](crate::Quorum::shutdown).
    ///
    /// # Errors
    /// `Config` within a Tokio runtime: the quorum goes on.
    pub fn shutdown(&self, deadline: Duration) -> Result<()> {
        self.0.worker.wait(self.0.inner.shutdown(deadline))
    }
}

impl Iterator for HeldNames {
    type Item = Result<Vec<(String, Inspected)>>;

    fn next(&mut self) -> Option<Self::Item> {
        let Self(names, over) = self;
        if *over {
            return None;
        }
        let page = names.worker.wait(names.inner.next()).and_then(|page| page).transpose();
        *over = !matches!(page, Some(Ok(_)));
        page
    }
}

impl Deref for HeldNames {
    type Target = crate::HeldNames;

    fn deref(&self) -> &crate::HeldNames {
        &self.0.inner
    }
}

debug_as_async!(Quorum, HeldNames);
