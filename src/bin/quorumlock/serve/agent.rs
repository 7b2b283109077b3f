//! What all connections share: the quorum, the table of locks, and the agent's end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::PrometheusHandle;
use quorumlock::{Error, Inspected, LostReason, Quorum, Released};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::task::{JoinHandle, unconstrained};
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::errors::Refusal;
use super::table::{Entry, Limits, Sizes, Table};
use super::terms::{ClientId, Ended, Peer, Terms};
use crate::held_lock::{Held, View};
use crate::settings::Settings;

/// How many connections are refused with an answer at a time. Further connections are closed
/// without an answer.
const REFUSALS: usize = 64;
/// How many inspections of names run at a time. Further inspections wait, because each asks all
/// nodes.
const INSPECTIONS: usize = 32;
/// The id of connections that are not in the table.
const OUTSIDE: ClientId = 0;

pub(super) struct Agent {
    pub(super) quorum: Quorum,
    pub(super) settings: Settings,
    pub(super) metrics: PrometheusHandle,
    /// The ttl of a lock whose client gave none.
    pub(super) ttl: Duration,
    table: Mutex<Table<Holding>>,
    waiting: AtomicUsize,
    /// How many releases are under way.
    releasing: AtomicUsize,
    runtime: Handle,
    meters: Meters,
    /// A permit for each connection that is being refused.
    pub(super) refusals: Semaphore,
    inspections: Semaphore,
    /// Notifies `end_lapsed` that it must check a lock before all others.
    earlier: Notify,
    /// Notifies `until` that a lock or a connection has left the table, or that a release has
    /// ended.
    left: Notify,
    /// Is cancelled when the agent grants no more locks.
    pub(super) stopping: CancellationToken,
    /// Is cancelled when clients may no longer use their locks.
    pub(super) stopped: CancellationToken,
}

#[cfg(test)]
impl Agent {
    pub(super) fn of_memory() -> Arc<Self> {
        let metrics = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder().handle();
        let limits = Limits { clients: 9, user_clients: 9, locks: 9, user_locks: 9, client_locks: 9, streams: 9 };
        let ttl = Duration::from_secs(30);
        Arc::new(Self::new(Quorum::in_memory(3).unwrap(), Settings::default(), metrics, ttl, limits))
    }
}

/// A lock that the agent holds for a client.
pub(super) struct Holding {
    id: Uuid,
    pub(super) held: Held,
    /// The names, as the client gave them.
    pub(super) names: Arc<[String]>,
    /// The client that acquired the lock.
    peer: Peer,
}

impl Agent {
    pub(super) fn new(
        quorum: Quorum,
        settings: Settings,
        metrics: PrometheusHandle,
        ttl: Duration,
        limits: Limits,
    ) -> Self {
        Self {
            quorum,
            settings,
            metrics,
            ttl,
            table: Mutex::new(Table::new(limits)),
            waiting: AtomicUsize::new(0),
            releasing: AtomicUsize::new(0),
            runtime: Handle::current(),
            meters: Meters::new(),
            refusals: Semaphore::new(REFUSALS),
            inspections: Semaphore::new(INSPECTIONS),
            earlier: Notify::new(),
            left: Notify::new(),
            stopping: CancellationToken::new(),
            stopped: CancellationToken::new(),
        }
    }

    /// While you hold this guard, call nothing that may panic or block: all requests share the
    /// table.
    pub(super) fn table(&self) -> MutexGuard<'_, Table<Holding>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sizes(&self) -> Sizes {
        self.table().sizes()
    }

    /// Adds a connection. Its locks end when the returned value is dropped, except those that
    /// [`cut`](Self::cut) leaves.
    pub(super) fn enter(self: &Arc<Self>, peer: Peer, port: Option<u16>) -> Result<Client, Refusal> {
        let id = self.table().enter(peer.uid).map_err(Refusal::no_room)?;
        self.show_sizes();
        Ok(Client::new(self, id, peer, port))
    }

    /// Makes a connection that is not in the table, so it cannot have locks of its own.
    pub(super) fn outside(self: &Arc<Self>, peer: Peer, port: Option<u16>) -> Client {
        Client::new(self, OUTSIDE, peer, port)
    }

    /// Notes that the agent closes this connection, or is about to. Its locks stay until the last
    /// deadlines in the answers to the client, because the client may work until these deadlines.
    pub(super) fn cut(&self, client: ClientId) {
        self.table().cut(client, Instant::now());
        self.earlier.notify_one();
    }

    /// Reserves places for a lock that is about to be acquired.
    pub(super) fn reserve(&self, peer: Peer, client: Option<ClientId>, places: usize) -> Result<Reserved<'_>, Refusal> {
        if self.stopping.is_cancelled() {
            return Err(Refusal::stopping());
        }
        self.table().reserve(peer.uid, client, places)?;
        Ok(Reserved { agent: self, uid: peer.uid, places, _waiting: self.waits() })
    }

    /// Reserves a place for a stream of events, until the returned value is dropped.
    pub(super) fn stream(self: &Arc<Self>, peer: Peer) -> Result<StreamPlace, Refusal> {
        self.table().open_stream(peer.uid)?;
        Ok(StreamPlace { agent: self.clone(), uid: peer.uid })
    }

    /// Waits until an inspection may run. (Never returns `None`, because nobody closes the
    /// semaphore.)
    pub(super) async fn inspection(&self) -> Option<SemaphorePermit<'_>> {
        self.inspections.acquire().await.ok()
    }

    /// The nodes' reports about a name.
    pub(super) async fn inspect(&self, name: &str) -> Result<Inspected, Error> {
        let _one = self.inspection().await;
        self.quorum.inspect(name).await
    }

    /// Counts a request that waits, until the returned value is dropped.
    pub(super) fn waits(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.meters.waiting.increment(1.0);
        Waiting(self)
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Sets the gauges to the sizes of the table.
    fn show_sizes(&self) {
        let sizes = self.sizes();
        self.meters.clients.set(sizes.clients as f64);
        self.meters.locks.set(sizes.locks as f64);
    }

    /// Call this after locks or connections have left the table.
    fn have_left(&self) {
        self.show_sizes();
        self.left.notify_waiters();
    }

    /// Releases a lock. The release goes on even if the caller drops the returned handle.
    pub(super) fn release(self: &Arc<Self>, held: Held, undo: bool) -> JoinHandle<Result<Released, Error>> {
        let releasing = Releasing::new(self.clone());
        self.runtime.spawn(async move {
            let _releasing = releasing;
            if undo { held.undo().await } else { held.release().await }
        })
    }

    /// Waits until no release is under way.
    pub(super) async fn released(&self) {
        self.until(|agent| agent.releasing.load(Ordering::Relaxed) == 0).await;
    }

    /// Releases locks that have left the table.
    fn end(self: &Arc<Self>, ended: Vec<Holding>) {
        ended.into_iter().for_each(|holding| drop(self.release(holding.held, false)));
        self.have_left();
    }

    /// Adds the lock to the table. Call this right after the acquisition, without an `await`
    /// before: until this call, a closed connection drops the lock. Returns the lock if its
    /// connection was closed, or if the agent has stopped.
    pub(super) fn hold(&self, terms: Terms, places: usize, holding: Holding) -> Result<Uuid, Holding> {
        let (id, names, peer) = (holding.id, holding.names.clone(), holding.peer);
        // This statement unlocks the table again: `show_sizes` locks it anew.
        let added = self.table().add(id, terms, places, holding, Instant::now());
        if added? {
            self.earlier.notify_one();
        }
        self.show_sizes();
        if let Ok((view, ended)) = self.view(id, peer) {
            self.runtime.spawn(log_loss(view, [ended, self.stopped.clone()], id, names, peer));
        }
        Ok(id)
    }

    /// A view of the lock, and a token that is cancelled when the lock leaves the table.
    pub(super) fn view(&self, id: Uuid, peer: Peer) -> Result<(View, CancellationToken), Refusal> {
        let mut table = self.table();
        let entry = table.find(id, peer, Instant::now())?;
        Ok((entry.guard.held.view(), entry.ended.clone()))
    }

    /// Calls `each` with the lock and with the time for which its client may work, counted from the
    /// request's arrival. If `kept` is set, `keep_ms` begins anew. Fails if the lock was lost.
    pub(super) fn with_lock<T>(
        &self,
        id: Uuid,
        peer: Peer,
        arrival: Instant,
        kept: bool,
        each: impl FnOnce(&Holding, Duration) -> T,
    ) -> Result<T, Refusal> {
        let mut table = self.table();
        let now = Instant::now();
        let entry = table.find(id, peer, now)?;
        let view = entry.guard.held.view();
        let remaining = view.remaining();
        if remaining.is_zero() {
            return Err(Refusal::lost_by(lost(&view)));
        }
        if kept {
            entry.terms.keep(now, remaining);
        }
        let until = entry.terms.until(arrival, now, remaining);
        Ok(each(&entry.guard, until))
    }

    /// From now on, the lock takes up at least `places` places.
    pub(super) fn grow(&self, id: Uuid, places: usize) -> Result<(), Refusal> {
        Ok(self.table().grow(id, places)?)
    }

    /// Removes the lock from the table. The caller must release the lock.
    pub(super) fn take(&self, id: Uuid, peer: Peer) -> Result<Entry<Holding>, Refusal> {
        let entry = self.table().take(id, peer)?;
        self.have_left();
        Ok(entry)
    }

    pub(super) async fn end_lapsed(self: &Arc<Self>) {
        loop {
            let (ended, next) = self.table().lapse(Instant::now(), Holding::lost);
            for (how, Holding { id, names, peer: Peer { uid, pid }, .. }) in &ended {
                tracing::warn!(%id, ?names, uid, pid, "a lock is released: {}", what_was_missed(*how));
                if *how == Ended::NotKept {
                    self.meters.not_kept.increment(1);
                }
            }
            if !ended.is_empty() {
                self.end(ended.into_iter().map(|(_, holding)| holding).collect());
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

    /// From now on, no client may use its locks. Requests that wait for a loss are answered.
    pub(super) fn stop(&self) {
        self.stopping.cancel();
        self.table().stop();
        self.stopped.cancel();
    }

    /// Waits until the condition holds.
    pub(super) async fn until(&self, condition: impl Fn(&Self) -> bool) {
        loop {
            let left = self.left.notified();
            if condition(self) {
                return;
            }
            left.await;
        }
    }
}

/// Logs the loss of a lock, unless one of the tokens in `ends` is cancelled first: the lock has
/// left the table, or the agent has stopped.
async fn log_loss(view: View, ends: [CancellationToken; 2], id: Uuid, names: Arc<[String]>, peer: Peer) {
    let [left, stopped] = ends;
    tokio::select! {
        biased;
        () = left.cancelled() => {}
        () = stopped.cancelled() => {}
        reason = view.lost() => {
            let Peer { uid, pid } = peer;
            tracing::warn!(%id, ?names, uid, pid, reason = reason.as_str(), "a client of the agent lost its lock");
        }
    }
}

/// What the client of a lock did not do in time, so that the agent releases the lock.
const fn what_was_missed(how: Ended) -> &'static str {
    match how {
        Ended::NotKept => "its client did not keep it in time",
        Ended::Lost(_) => "it was lost, and its client did not release it in time",
        Ended::Disconnected | Ended::Stopping => "its connection was closed, and its client did not release it in time",
    }
}

impl Holding {
    /// A lock that `peer` has just acquired, with a new id.
    pub(super) fn new(held: Held, names: Arc<[String]>, peer: Peer) -> Self {
        Self { id: uuid::Builder::from_random_bytes(rand::random()).into_uuid(), held, names, peer }
    }

    /// Why the lock was lost, if it was.
    fn lost(&self) -> Option<LostReason> {
        let view = self.held.view();
        view.remaining().is_zero().then(|| lost(&view))
    }
}

/// Why the lock was lost. Call this only for a lost lock.
pub(super) fn lost(view: &View) -> LostReason {
    use futures::FutureExt;
    // Without `unconstrained`, Tokio may let a busy task wait, although the loss is known.
    unconstrained(view.lost()).now_or_never().unwrap_or(LostReason::Expired)
}

pub(super) struct Client {
    pub(super) agent: Arc<Agent>,
    pub(super) id: ClientId,
    pub(super) peer: Peer,
    /// The agent's port, if the connection is over TCP.
    pub(super) port: Option<u16>,
}

impl Client {
    fn new(agent: &Arc<Agent>, id: ClientId, peer: Peer, port: Option<u16>) -> Self {
        Self { agent: agent.clone(), id, peer, port }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let ended = self.agent.table().leave(self.id, Instant::now());
        for Holding { id, names, peer: Peer { uid, pid }, .. } in &ended {
            tracing::info!(%id, ?names, uid, pid, "a lock is released: its client has closed the connection");
        }
        self.agent.meters.disconnected.increment(ended.len() as u64);
        self.agent.end(ended);
    }
}

pub(super) struct Reserved<'a> {
    agent: &'a Agent,
    uid: Option<u32>,
    places: usize,
    _waiting: Waiting<'a>,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.agent.table().give_back(self.uid, self.places);
    }
}

pub(super) struct StreamPlace {
    agent: Arc<Agent>,
    uid: Option<u32>,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        self.agent.table().close_stream(self.uid);
    }
}

/// Counts a release as under way until this value is dropped. A panic drops this value, too.
struct Releasing(Arc<Agent>);

impl Releasing {
    fn new(agent: Arc<Agent>) -> Self {
        agent.releasing.fetch_add(1, Ordering::Relaxed);
        Self(agent)
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        self.0.releasing.fetch_sub(1, Ordering::Relaxed);
        self.0.left.notify_waiters();
    }
}

pub(super) struct Waiting<'a>(&'a Agent);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        self.0.meters.waiting.decrement(1.0);
    }
}

/// The agent's own metrics.
struct Meters {
    clients: Gauge,
    locks: Gauge,
    waiting: Gauge,
    /// Locks that ended because their client did not keep them or let go of them in time.
    not_kept: Counter,
    /// Locks that ended because their connection was closed.
    disconnected: Counter,
}

/// Locks that the agent released without a `DELETE` of the client.
const ENDED: &str = "quorumlock_agent_locks_ended_total";

impl Meters {
    /// Call this after the recorder was installed: meters that exist before have no effect.
    fn new() -> Self {
        describe_gauge!("quorumlock_agent_clients", "Connections of clients to the agent.");
        describe_gauge!("quorumlock_agent_locks", "Locks that the agent holds for clients.");
        describe_gauge!("quorumlock_agent_waiting", "Requests to the agent that wait.");
        describe_counter!(ENDED, "Locks that the agent released without a DELETE of their client.");
        let meters = Self {
            clients: gauge!("quorumlock_agent_clients"),
            locks: gauge!("quorumlock_agent_locks"),
            waiting: gauge!("quorumlock_agent_waiting"),
            not_kept: counter!(ENDED, "reason" => "not_kept"),
            disconnected: counter!(ENDED, "reason" => "disconnected"),
        };
        [&meters.clients, &meters.locks, &meters.waiting].iter().for_each(|gauge| gauge.set(0.0));
        [&meters.not_kept, &meters.disconnected].iter().for_each(|counter| counter.increment(0));
        meters
    }
}
