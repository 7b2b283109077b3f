//! A node that fails on demand: a decorator over any other, for simulations and for users' own tests.
//!
//! It stands for the network and for the process behind it. Requests can be delayed, lost or held back, replies delayed or lost;
//! the node can hang, go down, and come back empty. Time, randomness and tasks are the host's, so that a run can be repeated. What is not answered in
//! time is answered with a timeout, as a real connection does it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::hint::{Hint, Listener};
use super::operation::{Operation, Verb};
use super::reply::{Fault, FaultKind, Reply, ReplyTo, Sink};
use super::status::{NodeState, NodeStatus};
use super::{Node, Request};
use crate::host::{Host, sleep_until};
use crate::quorum::Tick;
use crate::quorum::guard::Doubt;

/// How long an answer may take unless told otherwise, as real nodes have it by default.
const TIMEOUT: Duration = Duration::from_secs(1);

/// A node whose faults are ordered by a [`Faults`].
#[derive(Debug)]
pub struct FaultyNode {
    label: Arc<str>,
    link: Arc<Link>,
}

/// Orders the faults of one node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Link>);

struct Link {
    host: Arc<dyn Host>,
    state: Mutex<State>,
}

struct State {
    node: Arc<dyn Node>,
    timeout: Duration,
    request_delay: Duration,
    reply_delay: Duration,
    reorders: bool,
    requests_to_lose: u32,
    replies_to_lose: u32,
    paused: bool,
    down: bool,
    held_back: Option<Verb>,
    quarantine: Tick,
    /// On their way to the node, in the order of sending.
    requests: VecDeque<Sent>,
    /// On their way back.
    replies: VecDeque<Answer>,
    /// Somebody moves them on; one at a time, so that the order is kept.
    pumping: bool,
    /// How often the node died: answers of an earlier life never arrive.
    life: u64,
    asked: [u64; 5],
    hints_lost: bool,
    hints_doubled: bool,
    relay: Option<Arc<Relay>>,
}

/// A request on its way.
struct Sent {
    due: Tick,
    operation: Arc<Operation>,
    waiting: Arc<Waiting>,
}

/// A reply on its way.
struct Answer {
    due: Tick,
    waiting: Arc<Waiting>,
    reply: Reply,
}

/// What happens next.
enum Step {
    Request(Arc<dyn Node>, Sent),
    Reply(Answer),
}

/// Takes the node's hints, and gives them on as late as replies, or not at all.
#[derive(Debug)]
struct Relay {
    link: Weak<Link>,
    index: usize,
    listener: Arc<dyn Listener>,
}

impl Listener for Relay {
    fn client(&self) -> &str {
        self.listener.client()
    }

    fn hint(&self, _: usize, hint: &Hint) {
        let Some(link) = self.link.upgrade() else { return };
        let state = link.state();
        let times = if state.down || state.paused || state.hints_lost { 0 } else { 1 + u32::from(state.hints_doubled) };
        let delay = state.reply_delay;
        drop(state);
        for _ in 0..times {
            let (host, index, listener, hint) = (link.host.clone(), self.index, self.listener.clone(), hint.clone());
            let due = host.now() + delay;
            link.host.spawn(Box::pin(async move {
                sleep_until(&host, due).await;
                listener.hint(index, &hint);
            }));
        }
    }

    fn missed(&self, _: usize) {
        self.listener.missed(self.index);
    }
}

/// Who waits for the answer to one request; empty once that was given.
struct Waiting {
    link: Weak<Link>,
    life: u64,
    reply: Mutex<Option<ReplyTo>>,
}

impl FaultyNode {
    /// `node` with faults, none of them at first.
    #[must_use]
    pub fn new(node: Arc<dyn Node>, host: Arc<dyn Host>) -> (Arc<Self>, Faults) {
        let label = node.label().clone();
        let link = Arc::new(Link { host, state: Mutex::new(State::new(node)) });
        (Arc::new(Self { label, link: link.clone() }), Faults(link))
    }
}

impl Node for FaultyNode {
    fn label(&self) -> &Arc<str> {
        &self.label
    }

    fn submit(&self, request: Request) {
        self.link.submit(request);
    }

    fn listen(&self, index: usize, listener: Arc<dyn Listener>) {
        let relay = Arc::new(Relay { link: Arc::downgrade(&self.link), index, listener });
        let mut state = self.link.state();
        state.relay = Some(relay.clone());
        let node = state.node.clone();
        drop(state);
        node.listen(index, relay);
    }

    fn hints(&self) -> bool {
        let state = self.link.state();
        !state.down && state.node.hints()
    }

    fn close(&self) {
        let node = self.link.state().node.clone();
        node.close();
    }

    fn status(&self) -> NodeStatus {
        let now = self.link.host.now();
        let state = self.link.state();
        if state.down {
            return NodeStatus::new(self.label.clone(), NodeState::Down { why: "the connection ended".to_owned() });
        }
        if now < state.quarantine {
            let told = NodeState::Quarantined { left: state.quarantine.since(now), doubt: Doubt::Restarted };
            return NodeStatus::new(self.label.clone(), told);
        }
        let node = state.node.clone();
        drop(state);
        node.status()
    }
}

impl Faults {
    /// How long a request goes unanswered before it counts as timed out. Default 1 s.
    pub fn timeout(&self, timeout: Duration) {
        self.0.state().timeout = timeout;
    }

    /// From now on requests take `request` to the node, and replies take `reply` back. Their order is kept.
    pub fn delay(&self, request: Duration, reply: Duration) {
        let mut state = self.0.state();
        (state.request_delay, state.reply_delay) = (request, reply);
    }

    /// Whether requests and replies overtake each other: each then takes a random part of its delay.
    pub fn reorder(&self, on: bool) {
        self.0.state().reorders = on;
    }

    /// Loses the next `count` requests: the node never sees them.
    pub fn lose_requests(&self, count: u32) {
        self.0.state().requests_to_lose = count;
    }

    /// Loses the next `count` replies: the node has done what was asked, and nobody hears of it.
    pub fn lose_replies(&self, count: u32) {
        self.0.state().replies_to_lose = count;
    }

    /// The node hangs: connections stay open, and nothing answers.
    pub fn pause(&self) {
        self.0.state().paused = true;
    }

    /// The node goes on. What was sent while it hung is carried out now, in order.
    pub fn resume(&self) {
        self.0.state().paused = false;
        self.0.pump();
    }

    /// Holds requests of `verb` back, so that others overtake them.
    pub fn hold_back(&self, verb: Verb) {
        self.0.state().held_back = Some(verb);
    }

    /// Lets what was held back go on.
    pub fn let_go(&self) {
        self.0.state().held_back = None;
        self.0.pump();
    }

    /// The node dies: what is on its way is lost, and nothing can be sent.
    pub fn kill(&self) {
        let mut state = self.0.state();
        state.down = true;
        state.paused = false;
        state.life += 1;
        let lost: Vec<_> = state.requests.drain(..).map(|sent| sent.waiting).collect();
        let unheard: Vec<_> = state.replies.drain(..).map(|answer| answer.waiting).collect();
        drop(state);
        lost.iter().chain(&unheard).for_each(|waiting| waiting.answer(Err(closed())));
    }

    /// A new process is behind the address, `node`, which votes on no claim for `quarantine`.
    pub fn restart(&self, node: Arc<dyn Node>, quarantine: Duration) {
        self.kill();
        let now = self.0.host.now();
        let mut state = self.0.state();
        state.node = node.clone();
        state.down = false;
        state.quarantine = now + quarantine;
        let relay = state.relay.clone();
        drop(state);
        if let Some(relay) = relay {
            node.listen(relay.index, relay.clone());
            relay.listener.missed(relay.index);
        }
    }

    /// The connection is there again, to the same process as before.
    pub fn reconnect(&self) {
        let mut state = self.0.state();
        state.down = false;
        let relay = state.relay.clone();
        drop(state);
        if let Some(relay) = relay {
            relay.listener.missed(relay.index);
        }
    }

    /// Whether hints are lost from now on.
    pub fn lose_hints(&self, on: bool) {
        self.0.state().hints_lost = on;
    }

    /// Whether every hint comes twice from now on.
    pub fn double_hints(&self, on: bool) {
        self.0.state().hints_doubled = on;
    }

    /// How many operations of `verb` were submitted.
    #[must_use]
    pub fn asked(&self, verb: Verb) -> u64 {
        self.0.state().asked[verb as usize]
    }
}

impl Link {
    fn submit(self: &Arc<Self>, request: Request) {
        let Request { operation, reply } = request;
        let now = self.host.now();
        let mut state = self.state();
        state.asked[operation.verb as usize] += 1;
        if let Some(fault) = state.refusal(operation.verb, now) {
            drop(state);
            return reply.send(Err(fault));
        }
        let waiting = Waiting { link: Arc::downgrade(self), life: state.life, reply: Mutex::new(Some(reply)) };
        let waiting = Arc::new(waiting);
        let timeout = now + state.timeout;
        let lost = take(&mut state.requests_to_lose);
        let due = state.due(now, state.request_delay, state.requests.back().map(|sent| sent.due), &*self.host);
        if !lost {
            state.requests.push_back(Sent { due, operation, waiting: waiting.clone() });
        }
        drop(state);
        self.pump_at(due);
        if waiting.is_open() {
            self.time_out(timeout, waiting);
        }
    }

    /// Moves on whatever is due at `due`, which may be now.
    fn pump_at(self: &Arc<Self>, due: Tick) {
        if due <= self.host.now() {
            return self.pump();
        }
        let (link, host) = (Arc::downgrade(self), self.host.clone());
        self.host.spawn(Box::pin(async move {
            sleep_until(&host, due).await;
            if let Some(link) = link.upgrade() {
                link.pump();
            }
        }));
    }

    /// Carries out the requests that are due, and delivers the replies that are. Both may lead to new ones, which the same loop takes.
    fn pump(self: &Arc<Self>) {
        if std::mem::replace(&mut self.state().pumping, true) {
            return;
        }
        while let Some(step) = self.next() {
            match step {
                Step::Request(node, sent) => {
                    node.submit(Request { operation: sent.operation, reply: ReplyTo::new(0, sent.waiting) });
                }
                Step::Reply(answer) => answer.waiting.answer(answer.reply),
            }
        }
    }

    fn next(&self) -> Option<Step> {
        let now = self.host.now();
        let mut state = self.state();
        let step = state.next(now);
        state.pumping = step.is_some();
        step
    }

    fn answered(self: &Arc<Self>, waiting: Arc<Waiting>, reply: Reply) {
        let now = self.host.now();
        let mut state = self.state();
        if waiting.life != state.life {
            drop(state);
            return waiting.answer(Err(closed()));
        }
        if take(&mut state.replies_to_lose) {
            return;
        }
        let due = state.due(now, state.reply_delay, state.replies.back().map(|answer| answer.due), &*self.host);
        state.replies.push_back(Answer { due, waiting, reply });
        drop(state);
        self.pump_at(due);
    }

    fn time_out(&self, at: Tick, waiting: Arc<Waiting>) {
        let host = self.host.clone();
        self.host.spawn(Box::pin(async move {
            sleep_until(&host, at).await;
            waiting.answer(Err(Fault::new(FaultKind::Timeout, "no answer in time")));
        }));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(node: Arc<dyn Node>) -> Self {
        Self {
            node,
            timeout: TIMEOUT,
            request_delay: Duration::ZERO,
            reply_delay: Duration::ZERO,
            reorders: false,
            requests_to_lose: 0,
            replies_to_lose: 0,
            paused: false,
            down: false,
            held_back: None,
            quarantine: Tick::default(),
            requests: VecDeque::new(),
            replies: VecDeque::new(),
            pumping: false,
            life: 0,
            asked: [0; 5],
            hints_lost: false,
            hints_doubled: false,
            relay: None,
        }
    }

    /// What is answered at once, without asking the node.
    fn refusal(&self, verb: Verb, now: Tick) -> Option<Fault> {
        if self.down {
            return Some(Fault::new(FaultKind::Down, "down: the connection ended"));
        }
        (matches!(verb, Verb::Claim | Verb::Pass) && now < self.quarantine)
            .then(|| Fault::new(FaultKind::Quarantined, "quarantined: it restarted, and may have forgotten locks"))
    }

    /// When something sent `now` arrives: not before what was sent `before` it, unless they may overtake each other.
    fn due(&self, now: Tick, delay: Duration, before: Option<Tick>, host: &dyn Host) -> Tick {
        if self.reorders {
            #[allow(clippy::cast_precision_loss)]
            let share = (host.random() >> 11) as f64 / (1u64 << 53) as f64;
            return now + delay.mul_f64(share);
        }
        before.unwrap_or_default().max(now + delay)
    }

    /// What is due first, replies before requests: the node's answers leave before it takes up more.
    fn next(&mut self, now: Tick) -> Option<Step> {
        if self.paused {
            return None;
        }
        if let Some(at) = self.replies.iter().position(|answer| answer.due <= now) {
            return self.replies.remove(at).map(Step::Reply);
        }
        let ready = |sent: &Sent| sent.due <= now && self.held_back != Some(sent.operation.verb);
        let at = self.requests.iter().position(ready)?;
        let sent = self.requests.remove(at)?;
        Some(Step::Request(self.node.clone(), sent))
    }
}

impl Waiting {
    fn answer(&self, reply: Reply) {
        let waiting = self.reply.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waiting) = waiting {
            waiting.send(reply);
        }
    }

    fn is_open(&self) -> bool {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl Sink for Waiting {
    fn deliver(self: Arc<Self>, _: usize, reply: Reply) {
        if let Some(link) = self.link.upgrade() {
            link.answered(self, reply);
        }
    }
}

fn closed() -> Fault {
    Fault::new(FaultKind::Closed, "the connection ended before the answer")
}

/// Takes one from a budget, if there is one left.
const fn take(budget: &mut u32) -> bool {
    let left = *budget > 0;
    *budget = budget.saturating_sub(1);
    left
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Link").field("node", &state.node).field("down", &state.down).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::TokioTime;
    use crate::node::{MemoryNode, Name};
    use tokio::runtime::Handle;
    use tokio::sync::mpsc;

    /// Sends replies on, with the number under which they were asked for.
    struct Inbox(mpsc::UnboundedSender<(usize, Reply)>);

    impl Sink for Inbox {
        fn deliver(self: Arc<Self>, number: usize, reply: Reply) {
            self.0.send((number, reply)).unwrap();
        }
    }

    struct Bench {
        node: Arc<FaultyNode>,
        faults: Faults,
        host: Arc<dyn Host>,
        inbox: Arc<Inbox>,
        replies: mpsc::UnboundedReceiver<(usize, Reply)>,
    }

    impl Bench {
        fn new() -> Self {
            let host: Arc<dyn Host> = Arc::new(TokioTime::new(Handle::current()));
            let (node, faults) = FaultyNode::new(Arc::new(MemoryNode::new("memory://0", host.clone())), host.clone());
            let (sender, replies) = mpsc::unbounded_channel();
            Self { node, faults, host, inbox: Arc::new(Inbox(sender)), replies }
        }

        fn ask(&self, number: usize, verb: Verb) {
            let names = [Name::new("", "a").unwrap()].into();
            let ttl = Duration::from_secs(60);
            let operation =
                Arc::new(Operation { verb, owner: "me".into(), ttl, ballot: 7, count: 1, ..Operation::inspect(names) });
            self.node.submit(Request { operation, reply: ReplyTo::new(number, self.inbox.clone()) });
        }

        async fn answer(&mut self) -> (usize, &'static str) {
            let (number, reply) = self.replies.recv().await.unwrap();
            (number, reply.map_or_else(|fault| fault.kind().as_str(), |outcome| outcome.as_str()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn delays_keep_the_order_and_take_their_time() {
        let mut bench = Bench::new();
        bench.faults.delay(Duration::from_millis(30), Duration::from_millis(20));
        bench.ask(0, Verb::Claim);
        bench.ask(1, Verb::Release);
        assert_eq!(bench.answer().await, (0, "granted"));
        assert_eq!(bench.answer().await, (1, "released"));
        assert_eq!(bench.host.now().since_origin().as_millis() / 2, 25, "50 ms, to a millisecond or two");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_request_never_ran_and_a_lost_reply_did() {
        let mut bench = Bench::new();
        bench.faults.lose_requests(1);
        bench.ask(0, Verb::Claim);
        bench.ask(1, Verb::Renew);
        bench.faults.lose_replies(1);
        bench.ask(2, Verb::Release);
        bench.ask(3, Verb::Release);
        assert_eq!(bench.answer().await, (1, "healed"), "nothing had been claimed");
        assert_eq!(bench.answer().await, (3, "released"));
        assert_eq!((bench.answer().await, bench.answer().await), ((0, "timeout"), (2, "timeout")));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_held_back_is_overtaken() {
        let mut bench = Bench::new();
        bench.faults.hold_back(Verb::Claim);
        bench.ask(0, Verb::Claim);
        bench.ask(1, Verb::Release);
        assert_eq!(bench.answer().await, (1, "released"));
        bench.faults.let_go();
        assert_eq!(bench.answer().await, (0, "stale"), "the raised fence is the claim's tombstone");
    }

    #[tokio::test(start_paused = true)]
    async fn a_hung_node_goes_on_in_order_and_a_dead_one_forgets() {
        let mut bench = Bench::new();
        bench.faults.pause();
        bench.ask(0, Verb::Claim);
        bench.ask(1, Verb::Renew);
        bench.faults.resume();
        assert_eq!((bench.answer().await, bench.answer().await), ((0, "granted"), (1, "extended")));
        bench.faults.pause();
        bench.ask(2, Verb::Renew);
        let fresh = Arc::new(MemoryNode::new("memory://0", bench.host.clone()));
        bench.faults.restart(fresh, Duration::from_secs(5));
        bench.ask(3, Verb::Claim);
        bench.ask(4, Verb::Renew);
        assert_eq!(bench.answer().await, (2, "closed"));
        assert_eq!((bench.answer().await, bench.answer().await), ((3, "quarantined"), (4, "healed")));
    }
}
