//! Nodes whose answers the test gives, and a client of these nodes.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorumlock::host::{Host, Task, TokioTime};
use quorumlock::node::{HandedOver, Hint, Listener, Name, Node, NodeState, NodeStatus, Request, Verb};
use quorumlock::rules::Tick;
use quorumlock::rules::known_nodes::{Known, MembershipState};
use quorumlock::{InForce, List, LockGuard, Quorum, QuorumBuilder, Record, Result};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::answers::{Answer, granted, released, to};
use crate::asked::Asked;

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);
pub const MINUTE: Duration = Duration::from_secs(60);
/// The process of each node's server.
pub const PROCESS: &str = "process";

fn label(node: usize) -> String {
    format!("puppet://{node}")
}

/// The record of a node that votes for clients of this list.
pub fn record(node: usize, list: &List) -> Record {
    let (hash, says, left, age) = (list.hash().clone(), list.says().clone(), list.lasts(), Duration::ZERO);
    Record {
        id: format!("record-{node}").into(),
        process: PROCESS.into(),
        age: list.old(),
        high: 0,
        floor: 0,
        synced: true,
        word: None,
        in_force: Some(InForce { hash, says, left, age }),
        seen: Vec::new(),
    }
}

fn known(record: Option<Record>, at: Tick) -> Known {
    Known { at, process: PROCESS.into(), record, ..Known::default() }
}

/// A node that does nothing by itself.
pub struct Puppet {
    label: Arc<str>,
    asked: Mutex<VecDeque<Request>>,
    listener: Mutex<Option<Arc<dyn Listener>>>,
    hints: AtomicBool,
    /// How far its clock is ahead of the client's, if known.
    ahead: Mutex<Option<i128>>,
    closed: AtomicBool,
    /// The names whose news the client wants.
    followed: Mutex<BTreeSet<Name>>,
    state: Mutex<NodeState>,
    /// The result of the last hello, if the node takes hellos.
    known: Mutex<Option<Known>>,
    standing: Mutex<MembershipState>,
    /// An action that the node runs as soon as it is asked.
    reflex: Mutex<Option<Reflex>>,
}

/// Returns true if the action is done, and must not run again.
type Reflex = Box<dyn FnMut(&Asked) -> bool + Send>;

impl Puppet {
    fn react(&self, operation: &Asked) {
        let reflex = self.reflex.lock().unwrap().take();
        if let Some(mut reflex) = reflex
            && !reflex(operation)
        {
            *self.reflex.lock().unwrap() = Some(reflex);
        }
    }
}

impl fmt::Debug for Puppet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

impl Node for Puppet {
    fn label(&self) -> &Arc<str> {
        &self.label
    }

    fn submit(&self, request: Request) {
        let operation = (&*request.operation).into();
        self.asked.lock().unwrap().push_back(request);
        self.react(&operation);
    }

    fn hints(&self) -> bool {
        self.hints.load(Ordering::Relaxed)
    }

    fn clock_ahead(&self) -> Option<i128> {
        *self.ahead.lock().unwrap()
    }

    fn takes_hello(&self) -> bool {
        self.known.lock().unwrap().is_some()
    }

    fn known(&self) -> Option<Known> {
        self.known.lock().unwrap().clone()
    }

    fn judged(&self, standing: MembershipState) {
        *self.standing.lock().unwrap() = standing;
    }

    fn follow(&self, name: &Name, on: bool) {
        let mut followed = self.followed.lock().unwrap();
        let known = if on { !followed.insert(name.clone()) } else { !followed.remove(name) };
        assert!(!known, "it is asked for once");
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn listen(&self, _: usize, listener: Arc<dyn Listener>) {
        *self.listener.lock().unwrap() = Some(listener);
    }

    fn status(&self) -> NodeStatus {
        let state = match &*self.standing.lock().unwrap() {
            MembershipState::OtherList { why, .. } => NodeState::OtherList { why: why.clone() },
            _ => self.state.lock().unwrap().clone(),
        };
        NodeStatus::new(self.label.clone(), state)
    }
}

/// Tokio's clock, and a random source that always returns the same number.
struct Clock {
    time: TokioTime,
    random: AtomicU64,
    meanwhile: Mutex<Option<(Reading, Happens)>>,
    /// How many milliseconds the process has stood still in total.
    still: Arc<AtomicU64>,
}

/// Returns true if the action is done, and must not run again.
type Happens = Box<dyn FnMut() -> bool + Send>;

/// The clock that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    Now,
    Wall,
}

impl Clock {
    fn read(&self, reading: Reading) {
        let meanwhile = self.meanwhile.lock().unwrap().take_if(|(awaited, _)| *awaited == reading);
        // Run the action outside of the lock: the action may read clocks.
        if let Some((_, mut happens)) = meanwhile
            && !happens()
        {
            *self.meanwhile.lock().unwrap() = Some((reading, happens));
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl Host for Clock {
    fn now(&self) -> Tick {
        self.read(Reading::Now);
        self.time.now() + MS * u32::try_from(self.still.load(Ordering::Relaxed)).unwrap()
    }

    fn wall(&self) -> Duration {
        self.read(Reading::Wall);
        self.time.wall()
    }

    fn random(&self) -> u64 {
        self.random.load(Ordering::Relaxed)
    }

    fn spawn(&self, task: Task) {
        self.time.spawn(task);
    }
}

pub struct Stage {
    pub quorum: Quorum,
    clock: Arc<Clock>,
    puppets: Vec<Arc<Puppet>>,
    /// Requests that have no answer yet, each with its node.
    open: Mutex<Vec<(usize, Request)>>,
}

impl Stage {
    /// A stage of this many nodes, which give hints.
    pub fn new(nodes: usize) -> Self {
        Self::with(nodes, true, |builder| builder)
    }

    pub fn with(nodes: usize, hints: bool, settings: impl FnOnce(QuorumBuilder) -> QuorumBuilder) -> Self {
        Self::of(nodes, hints, None, settings)
    }

    /// A stage of this many nodes, on which the client's list is in force.
    pub fn of_list(nodes: usize) -> Self {
        let list = List::new("default", (0..nodes).map(label), MINUTE);
        Self::of(nodes, true, Some(&list), |builder| builder)
    }

    fn of(
        nodes: usize,
        hints: bool,
        list: Option<&List>,
        settings: impl FnOnce(QuorumBuilder) -> QuorumBuilder,
    ) -> Self {
        let time = TokioTime::new(Handle::current());
        let clock =
            Arc::new(Clock { time, random: AtomicU64::new(0), meanwhile: Mutex::default(), still: Arc::default() });
        let puppet = |node| {
            Arc::new(Puppet {
                label: label(node).into(),
                asked: Mutex::default(),
                listener: Mutex::default(),
                hints: AtomicBool::new(hints),
                ahead: Mutex::default(),
                closed: AtomicBool::new(false),
                followed: Mutex::default(),
                state: Mutex::new(NodeState::Up),
                known: Mutex::new(list.map(|list| known(Some(record(node, list)), clock.now()))),
                standing: Mutex::default(),
                reflex: Mutex::default(),
            })
        };
        let puppets: Vec<_> = (0..nodes).map(puppet).collect();
        let ports = puppets.iter().cloned().map(|puppet| puppet as Arc<dyn Node>).collect();
        let quorum = settings(Quorum::builder()).over(clock.clone(), ports).unwrap();
        Self { quorum, clock, puppets, open: Mutex::default() }
    }

    /// From now on all random pauses have their greatest length. Before this call, they have their
    /// least.
    pub fn pause_long(&self) {
        self.clock.random.store(u64::MAX, Ordering::Relaxed);
    }

    pub fn acquire(&self, timeout: Duration) -> JoinHandle<Result<LockGuard>> {
        let lock = self.quorum.lock("it");
        tokio::spawn(async move { lock.acquire(timeout).await })
    }

    /// As `acquire`, for another name.
    pub fn acquire_other(&self, name: &str, timeout: Duration) -> JoinHandle<Result<LockGuard>> {
        let lock = self.quorum.lock(name);
        tokio::spawn(async move { lock.acquire(timeout).await })
    }

    pub fn try_acquire(&self) -> JoinHandle<Result<Option<LockGuard>>> {
        let lock = self.quorum.lock("it");
        tokio::spawn(async move { lock.try_acquire().await })
    }

    /// A lock that these nodes grant, and the claim for it.
    pub async fn won(&self) -> (LockGuard, Asked) {
        self.won_with(|_| granted()).await
    }

    pub async fn won_with(&self, answer: impl Fn(usize) -> Answer) -> (LockGuard, Asked) {
        let acquiring = self.acquire(SECOND);
        let claim = self.round(Verb::Claim, |node, _| answer(node)).await;
        (acquiring.await.unwrap().unwrap(), claim)
    }

    /// Waits until every node has a request of `verb`, and lets the nodes answer, in the order of
    /// their numbers.
    pub async fn round(&self, verb: Verb, answer: impl Fn(usize, &Asked) -> Answer) -> Asked {
        self.some(0..self.puppets.len(), verb, answer).await
    }

    /// As `round`, for some nodes. No other node may be asked.
    pub async fn only(&self, nodes: &[usize], verb: Verb, answer: impl Fn(usize, &Asked) -> Answer) -> Asked {
        let operation = self.some(nodes.iter().copied(), verb, answer).await;
        self.quiet_for(Duration::ZERO).await;
        operation
    }

    /// As `round`, for some nodes. The other nodes may be asked anything.
    pub async fn some(
        &self,
        nodes: impl Iterator<Item = usize>,
        verb: Verb,
        answer: impl Fn(usize, &Asked) -> Answer,
    ) -> Asked {
        let mut asked = Vec::new();
        for node in nodes {
            asked.push((node, self.next(node).await));
        }
        let operation = Asked::from(&*asked[0].1.operation);
        for (node, request) in asked {
            let its = Asked::from(&*request.operation);
            assert_eq!(its.verb, verb, "node {node}: {:?}", request.operation);
            assert_eq!(its.owner, operation.owner);
            match answer(node, &its) {
                Some(reply) => request.reply.send(to(&request.operation, reply)),
                None => self.open.lock().unwrap().push((node, request)),
            }
        }
        operation
    }

    /// Lets a node that was silent answer all its open requests.
    pub fn answer(&self, node: usize, answer: impl Fn() -> Answer) {
        let open = std::mem::take(&mut *self.open.lock().unwrap());
        let (its, others): (Vec<_>, Vec<_>) = open.into_iter().partition(|(silent, _)| *silent == node);
        *self.open.lock().unwrap() = others;
        assert!(!its.is_empty(), "node {node} has answered everything");
        for (_, Request { operation, reply }) in its {
            reply.send(to(&operation, answer().expect("an answer")));
        }
    }

    /// A function that answers all requests that are open now, when it is called.
    pub fn answers(&self, answer: impl Fn() -> Answer + Send + 'static) -> impl FnMut() + Send + 'static {
        let mut open = std::mem::take(&mut *self.open.lock().unwrap());
        move || open.drain(..).for_each(|(_, request)| request.reply.send(answer().expect("an answer")))
    }

    async fn next(&self, node: usize) -> Request {
        for _ in 0..60_000 {
            if let Some(request) = self.puppets[node].asked.lock().unwrap().pop_front() {
                return request;
            }
            sleep(MS).await;
        }
        panic!("node {node} is asked nothing");
    }

    /// Checks that no node is asked anything for this long.
    pub async fn quiet_for(&self, time: Duration) {
        sleep(time.max(MS)).await;
        for puppet in &self.puppets {
            // Assert outside of the lock: values that a failed test drops may send requests.
            let asked = puppet.asked.lock().unwrap().front().map(|request| request.operation.clone());
            assert!(asked.is_none(), "{} is asked {asked:?}", puppet.label);
        }
    }

    /// A function that returns whether every node has a request of `verb` that the test has not
    /// taken yet.
    pub fn asked(&self, verb: Verb) -> impl Fn() -> bool + Send + 'static {
        let puppets = self.puppets.clone();
        let asks = move |puppet: &Arc<Puppet>| {
            puppet.asked.lock().unwrap().iter().any(|request| request.operation.verb() == verb)
        };
        move || puppets.iter().all(&asks)
    }

    /// How long it takes until some node is asked.
    pub async fn asked_after(&self) -> Duration {
        let began = Instant::now();
        while self.puppets.iter().all(|puppet| puppet.asked.lock().unwrap().is_empty()) {
            assert!(began.elapsed() < 60 * SECOND, "nobody is asked");
            sleep(MS).await;
        }
        began.elapsed()
    }

    /// A node asks the owner of `claim` to ask again after this long.
    pub fn hint(&self, node: usize, claim: &Asked, after: Duration) {
        self.hint_to(node, &claim.owner, after);
    }

    pub fn hint_to(&self, node: usize, owner: &str, after: Duration) {
        self.listener(node).hint(node, &Hint::ask_again(owner.into(), after));
    }

    pub fn news(&self, node: usize, name: &str) {
        self.listener(node).news(node, &Name::new("quorumlock:", name).unwrap());
    }

    /// The names whose news the client wants of each node.
    pub fn followed(&self) -> Vec<String> {
        let of = |puppet: &Puppet| puppet.followed.lock().unwrap().iter().map(|name| name.text().to_string()).collect();
        let all: Vec<Vec<_>> = self.puppets.iter().map(|puppet| of(puppet)).collect();
        assert!(all.iter().all(|names| names == &all[0]), "of all nodes the same: {all:?}");
        all[0].clone()
    }

    /// A node hands the name over.
    pub fn push(&self, node: usize, granted: HandedOver) {
        self.listener(node).hint(node, &Hint::granted(granted));
    }

    /// Waits until every node has a claim, and lets each node answer its claim. Confirms
    /// withdrawals that come before the claim.
    pub async fn until_claimed(&self, answer: impl Fn(usize) -> Answer) -> Asked {
        let mut claim = None;
        for node in 0..self.puppets.len() {
            loop {
                let request = self.next(node).await;
                if request.operation.verb() == Verb::Withdraw {
                    request.reply.send(released().expect("an answer"));
                    continue;
                }
                claim = Some(Asked::from(&*request.operation));
                match answer(node) {
                    Some(reply) => {
                        let reply = to(&request.operation, reply);
                        request.reply.send(reply);
                    }
                    None => self.open.lock().unwrap().push((node, request)),
                }
                break;
            }
        }
        claim.expect("there are nodes")
    }

    /// Lets all nodes that were silent answer their open requests.
    pub fn answer_all(&self, answer: impl Fn(usize) -> Answer) {
        let open = std::mem::take(&mut *self.open.lock().unwrap());
        for (node, Request { operation, reply }) in open {
            reply.send(to(&operation, answer(node).expect("an answer")));
        }
    }

    /// Reports to the client that it may have missed hints of a node.
    pub fn missed(&self, node: usize) {
        self.listener(node).missed(node);
    }

    /// Reports to the client that a node may have forgotten what it granted.
    pub fn doubted(&self, node: usize) {
        self.listener(node).doubted(node);
    }

    /// From now on a node reports this state.
    pub fn turns(&self, node: usize, state: NodeState) {
        *self.puppets[node].state.lock().unwrap() = state;
    }

    /// Reports to the client that a hello has shown this record of a node, or none.
    pub fn told(&self, node: usize, record: Option<Record>) {
        *self.puppets[node].known.lock().unwrap() = Some(known(record, self.clock.now()));
        self.listener(node).heard(node);
    }

    /// A node's clock is this many microseconds ahead of the client's.
    pub fn clock_ahead(&self, node: usize, micros: i128) {
        *self.puppets[node].ahead.lock().unwrap() = Some(micros);
    }

    /// Runs an action, as another thread would, when the client reads a clock. Runs it at each
    /// reading until it returns true.
    pub fn meanwhile(&self, reading: Reading, happens: impl FnMut() -> bool + Send + 'static) {
        *self.clock.meanwhile.lock().unwrap() = Some((reading, Box::new(happens)));
    }

    /// The process stands still for this many seconds before reading number `reading` of its clock,
    /// counted from now on.
    pub fn stand_still_before(&self, reading: u32, seconds: u64) {
        let (still, mut readings) = (self.clock.still.clone(), 0);
        self.meanwhile(Reading::Now, move || {
            readings += 1;
            if readings == reading {
                still.fetch_add(seconds * 1_000, Ordering::Relaxed);
            }
            readings == reading
        });
    }

    /// Whether the connections to all nodes were ended.
    pub fn closed(&self) -> bool {
        self.puppets.iter().all(|puppet| puppet.closed.load(Ordering::Relaxed))
    }

    fn listener(&self, node: usize) -> Arc<dyn Listener> {
        self.puppets[node].listener.lock().unwrap().clone().expect("the client listens")
    }
}
