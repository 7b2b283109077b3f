//! A node that is a real Redis or Valkey server.
//!
//! A transport opens a connection and carries bytes; this folder does all the rest. A connection
//! never reconnects: the supervisor makes a new connection, which is the next *generation*. Votes
//! count only after the supervisor has checked the server. The batcher of each connection sends the
//! queued operations in script calls.

mod admission;
mod advice;
mod answers;
mod batcher;
mod batches;
#[cfg(test)]
mod by_hand;
mod choice;
mod credential_charset;
mod credentials;
mod decode;
mod dial;
mod encode;
mod endpoint;
mod fred;
mod in_flight;
mod messages;
mod meters;
mod news;
mod patience;
#[cfg(feature = "redis-rs")]
mod redis_rs;
mod registry;
mod scan;
mod script;
mod state;
mod supervisor;
#[cfg(test)]
mod tests;
mod tls;
#[cfg(feature = "unstable")]
pub mod transport;
#[cfg(not(feature = "unstable"))]
#[allow(unreachable_pub, reason = "public for simulations only")]
pub(crate) mod transport;
mod trouble;
mod wording;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::SharedString;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use choice::Transport;
pub(crate) use credentials::Site;
pub use credentials::{Credentials, CredentialsProvider, FetchingCredentials};
pub use endpoint::Endpoint;
pub(crate) use registry::Registry;
pub(crate) use tls::NO_TLS;
pub use tls::Tls;

use super::hint::Listener;
use super::operation::{Hello, Intent, Name, Operation};
use super::reply::{Fault, FaultKind};
use super::status::{NodeState, NodeStatus};
use super::{Node, Request};
use crate::host::Host;
use crate::rules::Tick;
use crate::rules::known_nodes::{Known, MembershipState};
use crate::rules::list::{List, OldAtOnce};
use meters::NodeMeters;
use news::Followed;
use state::{Link, State};
use transport::Dialer;

/// How many jobs may be queued for one node.
const QUEUE: usize = 4_096;

/// The settings of a node, apart from its address.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The name of the quorum in metrics.
    pub(crate) quorum: SharedString,
    /// The time limit of one command.
    pub(crate) timeout: Duration,
    /// The longest ttl of any lock. With zero, nodes are never quarantined.
    pub(crate) max_ttl: Duration,
    /// The client's list of nodes.
    pub(crate) list: Arc<List>,
    /// The intent of a connection's first hello. In a quorum, the intent is `Look`, which changes
    /// nothing: another list may be in force on the node. `RedisNode::alone` uses `Put`.
    pub(crate) greets: Intent,
    /// The largest drift between two clocks, as a fraction such as 0.01.
    pub(crate) drift: f64,
    /// The argument of `CLIENT SETNAME`.
    pub(crate) client_name: Arc<str>,
    /// The key of the node's record.
    pub(crate) record: Arc<str>,
    /// The common prefix of the channels on which clients get hints.
    pub(crate) channel: Arc<str>,
    /// Receives the messages that nodes push to this client.
    pub(crate) listener: Arc<dyn Listener>,
}

/// One operation in the node's queue, or several operations that were submitted together.
#[derive(Debug)]
struct Job {
    request: Request,
    submitted: Tick,
    /// The other operations that were submitted together with `request`.
    others: Vec<Request>,
}

impl Job {
    fn apart(self) -> impl Iterator<Item = Self> {
        let Self { request, submitted, others } = self;
        let job = move |request| Self { request, submitted, others: Vec::new() };
        std::iter::once(request).chain(others).map(job)
    }
}

/// The state that callers, the supervisor and the batcher share.
#[derive(Debug)]
struct Shared {
    index: usize,
    /// The node's name in the list.
    name: Arc<str>,
    dialer: Arc<dyn Dialer>,
    label: Arc<str>,
    settings: Settings,
    host: Arc<dyn Host>,
    meters: NodeMeters,
    registry: Arc<Registry>,
    /// The names that this client observes.
    followed: watch::Sender<Followed>,
    state: Mutex<State>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first hello on a connection. This hello names no process, because the reply to INFO has
    /// not come yet.
    fn first_hello(&self) -> Operation {
        let intent = self.settings.greets;
        let knew = self.state().guard.id().cloned();
        Operation::Hello(Hello {
            intent,
            new: format!("{:016x}", self.host.random()).into(),
            process: "".into(),
            list: self.settings.list.clone(),
            old: (intent == Intent::Put).then_some(OldAtOnce::FirstUse),
            knew,
            sync: None,
            seen: Vec::new(),
        })
    }

    /// Notes that this node cannot send hints. Without hints, waiters ask again after pauses. Warns
    /// once for each node.
    fn without_hints(&self, why: &str) {
        let mut state = self.state();
        state.hinting = false;
        let news = state.silent.is_none();
        state.silent.get_or_insert_with(|| why.to_owned());
        drop(state);
        if news {
            let channels = &self.settings.channel;
            tracing::warn!(
                node = %self.label, why,
                "no wake-ups from this node, so waiting takes longer; does its user have +subscribe, +publish and &{channels}*?"
            );
        }
    }

    /// Queues an operation. If the operation must not be sent now, delivers a fault.
    fn enqueue(&self, request: Request) {
        let submitted = self.host.now();
        let link = self.state().link_for(&request.operation, submitted);
        match link {
            Ok(queue) => self.queue(&queue, Job { request, submitted, others: Vec::new() }),
            Err(fault) => self.fail(request, fault),
        }
    }

    /// Queues several operations as one job. Delivers faults for those that must not be sent now.
    fn enqueue_all(&self, requests: Vec<Request>) {
        let submitted = self.host.now();
        let (mut queue, mut allowed) = (None, Vec::with_capacity(requests.len()));
        for request in requests {
            let link = self.state().link_for(&request.operation, submitted);
            match link {
                Ok(link) => {
                    queue = Some(link);
                    allowed.push(request);
                }
                Err(fault) => self.fail(request, fault),
            }
        }
        let mut allowed = allowed.into_iter();
        if let Some((queue, request)) = queue.zip(allowed.next()) {
            self.queue(&queue, Job { request, submitted, others: allowed.collect() });
        }
    }

    fn queue(&self, queue: &mpsc::Sender<Job>, job: Job) {
        match queue.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Closed(job)) => {
                self.fail_job(job, &Fault::new(FaultKind::Down, "the connection has just ended"));
            }
            Err(TrySendError::Full(job)) => {
                self.fail_job(job, &Fault::new(FaultKind::Overloaded, format!("the queue is full ({QUEUE})")));
            }
        }
    }

    fn fail_job(&self, job: Job, fault: &Fault) {
        job.apart().for_each(|job| self.fail(job.request, fault.clone()));
    }

    /// Reports a new doubt about this node (`is_new`) to the listener, the log and the metrics. If
    /// the log has reported the same event (`is_told`), only the listener gets the report.
    fn tell_doubt(&self, is_new: bool, is_told: bool) {
        if !is_new {
            return;
        }
        let now = self.host.now();
        let mut state = self.state();
        let doubt = state.guard.quarantined(now);
        state.warned |= doubt.is_some();
        drop(state);
        if let Some((left, doubt)) = doubt.filter(|_| !is_told) {
            self.meters.doubted(doubt);
            tracing::warn!(node = %self.label, reason = doubt.as_str(), "{}", NodeState::Quarantined { left, doubt });
        }
        self.settings.listener.doubted(self.index);
    }

    fn fail(&self, request: Request, fault: Fault) {
        self.meters.answered(request.operation.verb(), Err(fault.kind()));
        request.reply.send(Err(fault));
    }
}

/// A node that is a Redis server. When this value is dropped, the node sends the submitted
/// operations, and then ends its connection and tasks.
#[derive(Debug)]
pub struct RedisNode {
    shared: Arc<Shared>,
    closing: CancellationToken,
    _closes: DropGuard,
}

impl RedisNode {
    /// Starts to connect. When a connection ends, the node connects again.
    pub(crate) fn new(
        index: usize,
        name: Arc<str>,
        dialer: Arc<dyn Dialer>,
        settings: Settings,
        host: Arc<dyn Host>,
        registry: Arc<Registry>,
    ) -> Self {
        let label: Arc<str> = dialer.address().into();
        let state = State::new(&settings, host.now());
        let state = Mutex::new(state);
        let meters = NodeMeters::new(&settings.quorum, &label);
        let followed = watch::Sender::default();
        let shared =
            Shared { index, name, dialer, label, settings, host: host.clone(), meters, registry, followed, state };
        let shared = Arc::new(shared);
        let closing = CancellationToken::new();
        host.spawn(Box::pin(supervisor::run(shared.clone(), closing.clone())));
        host.spawn(Box::pin(news::run(shared.clone(), closing.clone())));
        Self { shared, closing: closing.clone(), _closes: closing.drop_guard() }
    }

    /// The indices of these operations, in the order in which the node sends them if they are
    /// submitted together. Operations on one name keep their order.
    #[cfg(feature = "unstable")]
    #[must_use]
    pub fn order(operations: &[Arc<Operation>]) -> Vec<usize> {
        let numbered = operations.iter().enumerate();
        let calls = batches::batches(numbered, |(_, operation)| operation);
        calls.into_iter().flat_map(|call| call.jobs).map(|(number, _)| number).collect()
    }

    /// The node at `address`, without a quorum and without quarantines, for tests of single
    /// operations.
    ///
    /// # Errors
    /// `Config` if the address is invalid.
    #[cfg(feature = "unstable")]
    pub fn alone(
        address: &str,
        transport: Transport,
        host: Arc<dyn Host>,
        listener: Arc<dyn Listener>,
    ) -> crate::error::Result<Self> {
        let settings = Settings {
            quorum: "default".into(),
            // Tests need each reply, even if the machine stalls.
            timeout: Duration::from_secs(60),
            max_ttl: Duration::ZERO,
            list: Arc::new(List::new("alone", ["alone"], Duration::ZERO)),
            greets: Intent::Put,
            drift: 0.01,
            client_name: "alone".into(),
            record: crate::node::operation::record_key("").into(),
            channel: crate::node::hint::channel("").into(),
            listener,
        };
        let dialer = transport.dialer(Endpoint::parse(address)?.into());
        Ok(Self::new(0, "alone".into(), dialer, settings, host, Arc::new(Registry::new(1))))
    }
}

impl Node for RedisNode {
    fn label(&self) -> &Arc<str> {
        &self.shared.label
    }

    fn submit(&self, request: Request) {
        self.shared.enqueue(request);
    }

    fn submit_all(&self, requests: Vec<Request>) {
        self.shared.enqueue_all(requests);
    }

    fn hints(&self) -> bool {
        let state = self.shared.state();
        state.hinting && matches!(state.link, Link::Up(_))
    }

    fn clock_ahead(&self) -> Option<i128> {
        self.shared.state().guard.clock_ahead()
    }

    fn takes_hello(&self) -> bool {
        true
    }

    fn known(&self) -> Option<Known> {
        self.shared.state().known()
    }

    fn judged(&self, standing: MembershipState) {
        let mut state = self.shared.state();
        let is_new = state.standing != standing;
        state.standing = standing;
        drop(state);
        if is_new {
            self.shared.registry.changed();
        }
    }

    fn votes(&self) -> bool {
        self.shared.state().votes(self.shared.host.now())
    }

    fn is_usable(&self) -> bool {
        self.shared.state().is_usable()
    }

    fn follow(&self, name: &Name, on: bool) {
        self.shared.followed.send_modify(|followed| {
            let _ = if on { followed.names.insert(name.clone()) } else { followed.names.remove(name) };
        });
    }

    fn close(&self) {
        self.closing.cancel();
    }

    fn status(&self) -> NodeStatus {
        let state = self.shared.state();
        let (server, is_up) = (state.server.as_ref(), matches!(state.link, Link::Up(_)));
        NodeStatus {
            node: self.shared.label.clone(),
            state: state.node_state(self.shared.host.now()),
            name: self.shared.name.clone(),
            run: server.filter(|_| is_up).map(|server| server.run_id.clone()),
            round_trip: state.round_trip,
            version: server.map(|server| server.version.clone()),
            uptime: server.map(|server| server.uptime),
            evicts: server.and_then(|server| server.evicts.clone()),
            unreadable: state.unreadable.clone(),
            out_of_memory: server.and_then(|server| server.full.clone()),
            no_wake_ups: state.silent.clone().filter(|_| !state.hinting),
            record: state.guard.record().cloned(),
        }
    }
}
