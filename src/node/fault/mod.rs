//! A node that fails on demand: a decorator over any other, for simulations and for users' own
//! tests.
//!
//! It stands for the network and for the process behind it. Requests can be delayed, lost or held
//! back, replies delayed or lost; the node can hang, go down, and come back empty. Time, randomness
//! and tasks are the host's, so that a run can be repeated. What is not answered in time is
//! answered with a timeout, as a real connection does it.

mod link;
#[cfg(test)]
mod played;
mod relay;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::hint::Listener;
use super::operation::{Name, Verb};
use super::status::{NodeState, NodeStatus};
use super::{Node, Request};
use crate::host::Host;
use crate::rules::book::{Known, Standing};
use crate::rules::doubt::Doubt;
use crate::rules::validity::MAX_ROUND;
use link::{Link, State, closed};
use relay::{Relay, Relays};

/// A node whose faults are ordered by a [`Faults`].
#[derive(Debug)]
pub struct FaultyNode {
    label: Arc<str>,
    link: Arc<Link>,
    relays: Arc<Relays>,
}

/// Orders the faults of one node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Faults {
    link: Arc<Link>,
    relays: Arc<Relays>,
}

impl FaultyNode {
    /// `node` with faults, none of them at first.
    #[must_use]
    pub fn new(node: Arc<dyn Node>, host: Arc<dyn Host>) -> (Arc<Self>, Faults) {
        let label = node.label().clone();
        let link = Arc::new(Link { host, state: Mutex::new(State::new(node)) });
        let relays = Arc::new(Relays::default());
        let node = Self { label, link: link.clone(), relays: relays.clone() };
        (Arc::new(node), Faults { link, relays })
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
        let relay = Relay::new(&self.link, index, &listener);
        // At one moment: who restarts the node has the relay, or this the new node.
        let state = self.link.state();
        self.relays.add(relay.clone());
        let node = state.node.clone();
        drop(state);
        relay.listen_to(&node);
    }

    fn hints(&self) -> bool {
        let state = self.link.state();
        !state.down && state.node.hints()
    }

    fn clock_ahead(&self) -> Option<i128> {
        self.link.state().node.clock_ahead()
    }

    fn known(&self) -> Option<Known> {
        let state = self.link.state();
        if state.down { None } else { state.node.known() }
    }

    fn takes_hello(&self) -> bool {
        self.link.state().node.takes_hello()
    }

    fn judged(&self, standing: Standing) {
        let node = self.link.state().node.clone();
        node.judged(standing);
    }

    fn follow(&self, name: &Name, on: bool) {
        let node = self.link.state().node.clone();
        node.follow(name, on);
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
        self.link.state().timeout = timeout;
    }

    /// From now on requests take `request` to the node, and replies take `reply` back. Their order
    /// is kept.
    pub fn delay(&self, request: Duration, reply: Duration) {
        let mut state = self.link.state();
        (state.request_delay, state.reply_delay) = (request, reply);
    }

    /// Whether requests and replies overtake each other: each then takes a random part of its
    /// delay.
    pub fn reorder(&self, on: bool) {
        self.link.state().reorders = on;
    }

    /// Loses the next `count` requests: the node never sees them.
    pub fn lose_requests(&self, count: u32) {
        self.link.state().requests_to_lose = count;
    }

    /// Loses the next `count` replies: the node has done what was asked, and nobody hears of it.
    pub fn lose_replies(&self, count: u32) {
        self.link.state().replies_to_lose = count;
    }

    /// The node hangs: connections stay open, and nothing answers.
    pub fn pause(&self) {
        self.link.state().paused = true;
    }

    /// The node goes on. What was sent while it hung is carried out now, in order.
    pub fn resume(&self) {
        self.link.state().paused = false;
        self.link.pump();
    }

    /// Holds requests of `verb` back, so that others overtake them.
    pub fn hold_back(&self, verb: Verb) {
        self.link.state().held_back = Some(verb);
    }

    /// Lets what was held back go on.
    pub fn let_go(&self) {
        self.link.state().held_back = None;
        self.link.pump();
    }

    /// The node dies: what is on its way is lost, and nothing can be sent.
    pub fn kill(&self) {
        let mut state = self.link.state();
        state.down = true;
        state.paused = false;
        state.life += 1;
        let lost: Vec<_> = state.requests.drain(..).map(|sent| sent.waiting).collect();
        let unheard: Vec<_> = state.replies.drain(..).map(|answer| answer.waiting).collect();
        drop(state);
        lost.iter().chain(&unheard).for_each(|waiting| waiting.answer(Err(closed())));
    }

    /// A new process is behind the address, `node`, which votes on no claim for `quarantine`, and
    /// whose renewals count for nothing until running rounds have ended.
    pub fn restart(&self, node: Arc<dyn Node>, quarantine: Duration) {
        self.kill();
        let now = self.link.host.now();
        let mut state = self.link.state();
        state.node = node.clone();
        state.down = false;
        state.quarantine = now + quarantine;
        state.settled = now + quarantine.min(MAX_ROUND.mul_f64(1.02));
        let relays = self.relays.all();
        drop(state);
        for relay in relays {
            relay.listen_to(&node);
            relay.has_missed();
            relay.has_forgotten();
        }
    }

    /// The connection is there again, to the same process as before.
    pub fn reconnect(&self) {
        let mut state = self.link.state();
        state.down = false;
        let relays = self.relays.all();
        drop(state);
        relays.iter().for_each(|relay| relay.has_missed());
    }

    /// Whether hints are lost from now on.
    pub fn lose_hints(&self, on: bool) {
        self.link.state().hints_lost = on;
    }

    /// Whether every hint comes twice from now on.
    pub fn double_hints(&self, on: bool) {
        self.link.state().hints_doubled = on;
    }

    /// How many calls were made: what is submitted at one moment goes into one.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.link.state().calls.0
    }

    /// How many operations of `verb` were submitted.
    #[must_use]
    pub fn asked(&self, verb: Verb) -> u64 {
        self.link.state().asked[verb as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::TokioTime;
    use crate::node::{Claim, Hint, MemoryNode, Operation, Release, Reply, ReplyTo, Sink, Waiter};
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
            self.submit(number, Claim::sample("a", "me", 7).with_verb(verb));
        }

        /// Claims for somebody else, who waits.
        fn wait(&self, number: usize) {
            let minute = Duration::from_secs(60);
            let waiter = Waiter { ticket: 1, lasts: minute, again: minute };
            let claim = Claim { waiter: Some(waiter), ..Claim::sample("a", "one/1", 8) };
            self.submit(number, claim.into());
        }

        fn submit(&self, number: usize, operation: Operation) {
            let operation = Arc::new(operation);
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

    /// Keeps what it is told, in a word each.
    #[derive(Debug)]
    struct Told(&'static str, Mutex<Vec<&'static str>>);

    impl Told {
        fn client(name: &'static str) -> Arc<Self> {
            Arc::new(Self(name, Mutex::default()))
        }

        fn take(&self) -> Vec<&'static str> {
            std::mem::take(&mut *self.1.lock().unwrap())
        }
    }

    impl Listener for Told {
        fn client(&self) -> &str {
            self.0
        }

        fn hint(&self, _: usize, _: &Hint) {
            self.1.lock().unwrap().push("hint");
        }

        fn missed(&self, _: usize) {
            self.1.lock().unwrap().push("missed");
        }

        fn doubted(&self, _: usize) {
            self.1.lock().unwrap().push("doubted");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_of_two_clients_is_told_what_concerns_it() {
        let mut bench = Bench::new();
        let clients = ["one", "other"].map(Told::client);
        clients.iter().for_each(|client| bench.node.listen(0, client.clone()));
        bench.faults.kill();
        bench.faults.reconnect();
        assert!(clients.iter().all(|client| client.take() == ["missed"]));
        bench.faults.restart(Arc::new(MemoryNode::new("memory://0", bench.host.clone())), Duration::ZERO);
        assert!(clients.iter().all(|client| client.take() == ["missed", "doubted"]));
        bench.ask(0, Verb::Claim);
        bench.wait(1);
        bench.submit(2, Release { next: 20, ..Release::of(&Claim::sample("a", "me", 7)) }.into());
        let answers = [bench.answer().await, bench.answer().await, bench.answer().await];
        assert_eq!(answers, [(0, "granted"), (1, "held"), (2, "released")]);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(clients.iter().all(|client| client.take() == ["hint"]), "each sees by itself whom it is for");
        drop(clients);
        bench.node.listen(0, Told::client("third"));
        assert_eq!(bench.node.relays.all().len(), 1, "who has gone is forgotten");
    }
}
