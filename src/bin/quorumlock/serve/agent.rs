//! What all connections share: the quorum, the table of locks, and the agent's end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metrics::{Gauge, describe_gauge, gauge};
use metrics_exporter_prometheus::PrometheusHandle;
use quorumlock::{LostReason, Quorum};
use tokio::sync::{Notify, Semaphore};
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::errors::Refusal;
use super::table::{Entry, Limits, Sizes, Table};
use super::terms::{ClientId, Peer, Terms};
use crate::held_lock::{Held, View};
use crate::settings::Settings;

/// How many connections may be refused at a time, with an answer. Further ones are closed at once.
const REFUSALS: usize = 64;

pub(super) struct Agent {
    pub(super) quorum: Quorum,
    pub(super) settings: Settings,
    pub(super) metrics: PrometheusHandle,
    table: Mutex<Table<Holding>>,
    waiting: AtomicUsize,
    gauges: Gauges,
    /// One for each connection that is being refused.
    pub(super) refusals: Semaphore,
    /// Is notified when a lock was added that lapses before all others.
    earlier: Notify,
    /// Is notified when a lock or a connection has left the table.
    left: Notify,
    /// No more locks are taken.
    pub(super) stopping: CancellationToken,
    /// No client may use its locks any more.
    pub(super) stopped: CancellationToken,
}

/// A lock that the agent holds for a client.
pub(super) struct Holding {
    pub(super) held: Held,
    /// The names, as the client gave them.
    pub(super) names: Arc<[String]>,
}

impl Agent {
    pub(super) fn new(quorum: Quorum, settings: Settings, metrics: PrometheusHandle, limits: Limits) -> Self {
        Self {
            quorum,
            settings,
            metrics,
            table: Mutex::new(Table::new(limits)),
            waiting: AtomicUsize::new(0),
            gauges: Gauges::new(),
            refusals: Semaphore::new(REFUSALS),
            earlier: Notify::new(),
            left: Notify::new(),
            stopping: CancellationToken::new(),
            stopped: CancellationToken::new(),
        }
    }

    /// Calls nothing that may panic or block: requests share the table.
    pub(super) fn table(&self) -> MutexGuard<'_, Table<Holding>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sizes(&self) -> Sizes {
        self.table().sizes()
    }

    /// Adds a connection. Its locks end when the returned value is dropped.
    pub(super) fn enter(self: &Arc<Self>, peer: Peer, is_tcp: bool) -> Result<Client, Refusal> {
        let id = self.table().enter().map_err(Refusal::no_room)?;
        self.gauges.clients.increment(1.0);
        Ok(Client { agent: self.clone(), id, peer, is_tcp })
    }

    /// A deadline that has not passed yet, and that the client of this connection was told for one
    /// of its locks.
    pub(super) fn told(&self, client: ClientId) -> Option<Instant> {
        self.table().told(client).filter(|told| *told > Instant::now())
    }

    /// Reserves a place for a lock that is about to be acquired.
    pub(super) fn reserve(&self, client: Option<ClientId>) -> Result<Place<'_>, Refusal> {
        if self.stopping.is_cancelled() {
            return Err(Refusal::stopping());
        }
        self.table().reserve(client)?;
        Ok(Place { agent: self, _waiting: self.waits() })
    }

    /// Counts a request that waits, until the returned value is dropped.
    pub(super) fn waits(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.gauges.waiting.increment(1.0);
        Waiting(self)
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Locks or connections have left the table.
    fn have_left(&self) {
        self.gauges.locks.set(self.sizes().locks as f64);
        self.left.notify_waiters();
    }

    /// Gives the lock to its owner, the connection or the time to keep it. Nothing else may happen
    /// between the acquisition and this call: until then, a closed connection drops the lock.
    pub(super) fn hold(&self, terms: Terms, holding: Holding) -> Result<Uuid, Refusal> {
        let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
        let added = self.table().add(id, terms, holding);
        match added {
            Ok(is_earliest) => {
                self.gauges.locks.increment(1.0);
                if is_earliest {
                    self.earlier.notify_one();
                }
                Ok(id)
            }
            // Nobody reads this answer. The guard is dropped here, with the table unlocked.
            Err(_guard) => Err(Refusal::stopping()),
        }
    }

    /// A view of the lock, and the token that is cancelled when the agent has ended the lock.
    pub(super) fn view(&self, id: Uuid, peer: Peer) -> Result<(View, CancellationToken), Refusal> {
        let mut table = self.table();
        let entry = table.find(id, peer, Instant::now())?;
        Ok((entry.guard.held.view(), entry.ended.clone()))
    }

    /// Calls `each` with the lock and with the time for which its client may work, counted from
    /// the request's arrival. Fails if the lock was lost.
    pub(super) fn with_lock<T>(
        &self,
        id: Uuid,
        peer: Peer,
        arrival: Instant,
        each: impl FnOnce(&Holding, Duration) -> T,
    ) -> Result<T, Refusal> {
        let mut table = self.table();
        let now = Instant::now();
        let entry = table.find(id, peer, now)?;
        let view = entry.guard.held.view();
        let remaining = view.remaining();
        if remaining.is_zero() {
            return Err(lost(&view));
        }
        let until = entry.terms.until(arrival, now, remaining);
        Ok(each(&entry.guard, until))
    }

    /// The client lives: starts the time anew in which it must say so.
    pub(super) fn keep(&self, id: Uuid, peer: Peer) -> Result<(), Refusal> {
        let mut table = self.table();
        let now = Instant::now();
        table.find(id, peer, now)?.terms.keep(now);
        Ok(())
    }

    /// Removes the lock from the table. The caller releases it.
    pub(super) fn take(&self, id: Uuid, peer: Peer) -> Result<Entry<Holding>, Refusal> {
        let entry = self.table().take(id, peer)?;
        self.have_left();
        Ok(entry)
    }

    /// Ends locks that their clients did not keep in time. Never returns.
    pub(super) async fn end_lapsed(&self) {
        loop {
            let (guards, next) = self.table().lapse(Instant::now());
            if !guards.is_empty() {
                drop(guards);
                self.have_left();
            }
            let due = async {
                match next {
                    Some(next) => sleep_until(next.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = due => {}
                () = self.earlier.notified() => {}
            }
        }
    }

    /// Waits until the condition holds.
    pub(super) async fn until(&self, condition: impl Fn(Sizes) -> bool) {
        loop {
            let left = self.left.notified();
            if condition(self.sizes()) {
                return;
            }
            left.await;
        }
    }
}

/// Why the lock was lost.
pub(super) fn lost(view: &View) -> Refusal {
    use futures::FutureExt;
    Refusal::lost_by(view.lost().now_or_never().unwrap_or(LostReason::Expired))
}

/// A connection in the table.
pub(super) struct Client {
    pub(super) agent: Arc<Agent>,
    pub(super) id: ClientId,
    pub(super) peer: Peer,
    pub(super) is_tcp: bool,
}

impl Drop for Client {
    fn drop(&mut self) {
        let guards = self.agent.table().leave(self.id, Instant::now());
        if !guards.is_empty() {
            tracing::debug!(locks = guards.len(), "a connection was closed: its locks are released");
        }
        drop(guards);
        self.agent.gauges.clients.decrement(1.0);
        self.agent.have_left();
    }
}

/// A reserved place for a lock.
pub(super) struct Place<'a> {
    agent: &'a Agent,
    _waiting: Waiting<'a>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.agent.table().give_back();
    }
}

/// A request that waits.
pub(super) struct Waiting<'a>(&'a Agent);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        self.0.gauges.waiting.decrement(1.0);
    }
}

/// The agent's own metrics.
struct Gauges {
    clients: Gauge,
    locks: Gauge,
    waiting: Gauge,
}

impl Gauges {
    /// Call this after the recorder has started.
    fn new() -> Self {
        describe_gauge!("quorumlock_agent_clients", "Connections of clients to the agent.");
        describe_gauge!("quorumlock_agent_locks", "Locks that the agent holds for clients.");
        describe_gauge!("quorumlock_agent_waiting", "Requests to the agent that wait.");
        let [clients, locks, waiting] =
            [gauge!("quorumlock_agent_clients"), gauge!("quorumlock_agent_locks"), gauge!("quorumlock_agent_waiting")];
        for gauge in [&clients, &locks, &waiting] {
            gauge.set(0.0);
        }
        Self { clients, locks, waiting }
    }
}
