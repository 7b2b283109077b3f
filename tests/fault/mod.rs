//! A wrapper around any node, which fails on demand.
//!
//! The wrapper stands for the network, and for the server process behind the network. Requests can
//! be delayed, lost or held back. Replies can be delayed or lost. The node can hang, go down, and
//! come back empty. Time, randomness and tasks come from the host, so that a run can be repeated. A
//! request without an answer in time ends with a timeout, as on a real connection.

#![allow(dead_code, unreachable_pub, missing_debug_implementations, reason = "each test orders some of the faults")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

mod link;
mod relay;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use link::{Link, State, closed};
use quorumlock::host::Host;
use quorumlock::node::{Listener, Name, Node, NodeState, NodeStatus, Request, Verb};
use quorumlock::rules::doubt::Doubt;
use quorumlock::rules::known_nodes::{Known, MembershipState};
use quorumlock::rules::validity::MAX_ROUND;
use relay::{Relay, Relays};

/// A node whose faults are controlled by a [`Faults`].
#[derive(Debug)]
pub struct FaultyNode {
    label: Arc<str>,
    link: Arc<Link>,
    relays: Arc<Relays>,
}

/// Controls the faults of one node.
#[derive(Clone, Debug)]
pub struct Faults {
    link: Arc<Link>,
    relays: Arc<Relays>,
}

impl FaultyNode {
    /// Wraps `node`. At first there are no faults.
    #[must_use]
    pub fn new(node: Arc<dyn Node>, host: Arc<dyn Host>) -> (Arc<Self>, Faults) {
        let label = node.label().clone();
        let link = Arc::new(Link { host, state: Mutex::new(State::new(node)) });
        let relays = Arc::new(Relays::default());
        let node = Self { label, link: link.clone(), relays: relays.clone() };
        (Arc::new(node), Faults { link, relays })
    }

    /// How many clients listen to this node.
    pub fn listeners(&self) -> usize {
        self.relays.all().len()
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
        // Add the relay and read the node under one lock. So a restart either finds this relay, or
        // has already replaced the node that is read here.
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

    fn judged(&self, standing: MembershipState) {
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

    /// Whether requests and replies overtake each other. If so, each takes a random part of its
    /// delay.
    pub fn reorder(&self, on: bool) {
        self.link.state().reorders = on;
    }

    /// Loses the next `count` requests: the node never sees them.
    pub fn lose_requests(&self, count: u32) {
        self.link.state().requests_to_lose = count;
    }

    /// Loses the next `count` replies: the node has carried out the requests, and the client does
    /// not learn of it.
    pub fn lose_replies(&self, count: u32) {
        self.link.state().replies_to_lose = count;
    }

    /// The node hangs: connections stay open, and nothing answers.
    pub fn pause(&self) {
        self.link.state().paused = true;
    }

    /// The node goes on. It now carries out the requests that were sent while it hung, in order.
    pub fn resume(&self) {
        self.link.state().paused = false;
        self.link.pump();
    }

    /// Holds requests of `verb` back, so that other requests overtake them.
    pub fn hold_back(&self, verb: Verb) {
        self.link.state().held_back = Some(verb);
    }

    /// Moves on the requests that were held back.
    pub fn let_go(&self) {
        self.link.state().held_back = None;
        self.link.pump();
    }

    /// The node dies: messages on their way are lost, and no message can be sent.
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

    /// From now on, the new process `node` is behind the address. The node votes on no claim for
    /// `quarantine`. Its votes on renewals do not count until rounds that run now have ended.
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

    /// The connection is up again, and leads to the same process as before.
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

    /// How many calls were made. All requests that are submitted at one moment go into one call.
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
