//! One client: what it knows of its nodes, its hellos, and its claim.

use std::sync::Arc;
use std::time::Duration;

use quorumlock::node::Outcome;
use quorumlock::node::operation::{Hello, Intent};
use quorumlock::rules::known_nodes::{Known, KnownNodes, MembershipState, Plan, Wanted};
use quorumlock::rules::list::List;
use quorumlock::rules::{NodeSet, RestartGuard, Size, Tick};

use super::Scope;
use super::nodes::{MAX_TTL, Nodes, TTL, tick};
use crate::scope::Ticks;

/// How many plans a client may make within one moment. It reads records, makes missing ones, puts
/// its list in force, and reads the result.
const PLANS: u32 = 8;
/// Clocks run apart by 1 % at most.
const RATE: f64 = 0.01;
/// How long a client waits for a node that does not answer: less than a tick.
const ROUND: Duration = Duration::from_millis(200);

/// What a client knows of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Link {
    server: usize,
    guard: RestartGuard,
    /// When the last answered hello was sent; `None` without a connection.
    at: Option<Tick>,
    process: Arc<str>,
    stale: bool,
    /// `silent`: no message passes for a while. `cut`: no message ever passes.
    silent: bool,
    cut: bool,
}

/// A claim under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asking {
    t0: Ticks,
    ballot: u64,
    pub pending: NodeSet,
    granted: NodeSet,
    /// The highest bar that a node returned. Only a ballot above the bar can be granted.
    bar: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    number: usize,
    list: Arc<List>,
    /// When the client started; `None` before that.
    pub since: Option<Ticks>,
    links: Vec<Link>,
    book: KnownNodes,
    standings: Vec<MembershipState>,
    other_list: bool,
    pub asking: Option<Asking>,
    /// Whether the client has claimed.
    claimed: bool,
    /// If the client got the lock: until when it treats the lock as held.
    until: Option<Ticks>,
    won: bool,
    ahead: u64,
}

impl Client {
    pub fn new(scope: &Scope, number: usize) -> Self {
        let servers = scope.lists[number % 2];
        let names: Vec<Arc<str>> = servers.iter().map(|server| format!("n{server}").into()).collect();
        let list = Arc::new(List::new("default", &names, MAX_TTL));
        let cut: &[usize] = scope.cut.get(number).copied().unwrap_or_default();
        let link = |&server: &usize| Link {
            server,
            guard: RestartGuard::new(MAX_TTL, RATE),
            at: None,
            process: "".into(),
            stale: false,
            silent: false,
            cut: cut.contains(&server),
        };
        Self {
            number,
            book: KnownNodes::new(list.clone(), names, ROUND, false),
            list,
            since: None,
            links: servers.iter().map(link).collect(),
            standings: vec![MembershipState::Unknown; servers.len()],
            other_list: false,
            asking: None,
            claimed: number > 1,
            until: None,
            won: false,
            ahead: if number == 0 { scope.ahead } else { 0 },
        }
    }

    fn size(&self) -> Size {
        Size::of(u32::try_from(self.links.len()).unwrap_or(u32::MAX))
    }

    /// The server behind this node of the client.
    pub fn server(&self, node: usize) -> usize {
        self.links[node].server
    }

    /// The number of this server among the client's nodes, if any.
    pub fn node(&self, server: usize) -> Option<usize> {
        self.links.iter().position(|link| link.server == server)
    }

    /// Makes a node silent, or ends its silence. When the silence ends, connects to the node if
    /// there is no connection.
    pub fn silence(&mut self, nodes: &mut Nodes, node: usize, silent: bool) {
        self.links[node].silent = silent;
        if !silent && self.since.is_some() && self.links[node].at.is_none() {
            self.connect(nodes, node);
        }
    }

    pub fn holds(&self, now: Ticks) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    pub const fn has_won(&self) -> bool {
        self.won
    }

    pub const fn is_shut_out(&self) -> bool {
        self.other_list
    }

    /// Whether the client may hold the lock now or later.
    pub fn matters(&self, now: Ticks) -> bool {
        self.holds(now) || self.asking.is_some() || !self.claimed
    }

    /// The connection to a server's process has ended, and a new connection opens at once. A claim
    /// on the old connection is lost.
    pub fn reconnect(&mut self, nodes: &mut Nodes, server: usize) {
        let Some(node) = self.node(server).filter(|_| self.since.is_some()) else { return };
        self.links[node].at = None;
        if let Some(asking) = &mut self.asking {
            asking.pending.remove(node);
        }
        self.connect(nodes, node);
    }

    /// The greeting: INFO, and a hello that is sent before the client has read INFO's reply.
    fn connect(&mut self, nodes: &mut Nodes, node: usize) {
        if !self.links[node].silent && !self.links[node].cut {
            let (intent, seen) = (Intent::Keep, Vec::new());
            self.hello(nodes, node, "".into(), Wanted { intent, old: None, knew: None, sync: None, seen });
        }
    }

    pub fn start(&mut self, nodes: &mut Nodes) {
        self.since = Some(nodes.now);
        (0..self.links.len()).for_each(|node| self.connect(nodes, node));
    }

    /// Says hello until no hello is due.
    pub fn greet(&mut self, nodes: &mut Nodes) {
        for _ in 0..PLANS {
            let now = tick(nodes.now);
            for node in 0..self.links.len() {
                let known = self.known(node);
                self.book.heard(node, known, now);
            }
            let Plan { standings, hellos, other_list, .. } = self.book.plan(now, self.holds(nodes.now), 0);
            (self.standings, self.other_list) = (standings, other_list.is_some());
            if self.other_list {
                self.until = None;
            }
            if hellos.is_empty() {
                return;
            }
            hellos.into_iter().for_each(|(node, wanted)| self.say(nodes, node, wanted));
        }
        unreachable!("it says hello again and again in one moment");
    }

    fn known(&self, node: usize) -> Option<Known> {
        let link = &self.links[node];
        if link.cut {
            return None;
        }
        let Some(at) = link.at else { return Some(Known { connecting: true, ..Known::default() }) };
        let guard = &link.guard;
        Some(Known {
            at,
            process: link.process.clone(),
            connecting: false,
            record: guard.record().cloned(),
            settles_at: guard.settles_at(),
            free_at: guard.free_at(),
            stale: link.stale,
        })
    }

    fn say(&mut self, nodes: &mut Nodes, node: usize, wanted: Wanted) {
        if self.links[node].silent {
            return self.book.failed(node, tick(nodes.now));
        }
        let process = self.links[node].process.clone();
        self.hello(nodes, node, process, wanted);
    }

    /// Sends INFO and a hello, and reads the replies.
    fn hello(&mut self, nodes: &mut Nodes, node: usize, process: Arc<str>, wanted: Wanted) {
        let now = tick(nodes.now);
        let Wanted { intent, old, knew, sync, seen } = wanted;
        let new = format!("{}.{}", self.number, nodes.memory(self.links[node].server)).into();
        let hello = Hello { intent, new, process, list: self.list.clone(), old, knew, sync, seen };
        let link = &mut self.links[node];
        link.process = nodes.process(link.server);
        link.guard.meets_process(&link.process);
        let record = nodes.hello(link.server, hello);
        link.guard.hello(record.as_ref(), now, now);
        link.guard.take_news();
        (link.at, link.stale) = (Some(now), false);
    }

    /// The nodes whose votes count now.
    fn voting(&self, now: Ticks) -> NodeSet {
        let votes = |&node: &usize| {
            let (link, at) = (&self.links[node], tick(now));
            link.at.is_some() && self.standings[node].counts(at) && link.guard.quarantined(at).is_none()
        };
        (0..self.links.len()).filter(votes).collect()
    }

    pub fn may_claim(&self, now: Ticks) -> bool {
        let quorum = self.size().quorum();
        !self.claimed && !self.other_list && self.since.is_some() && self.voting(now).len() >= quorum
    }

    pub fn claim(&mut self, now: Ticks) {
        self.claimed = true;
        self.ask(now, 0);
    }

    fn ask(&mut self, now: Ticks, above: u64) {
        let wall = u64::from((1 + now).unsigned_abs()) * 1_000 + self.number as u64 + self.ahead;
        let (nobody, ballot) = (NodeSet::default(), wall.max(above + 1));
        self.asking = Some(Asking { t0: now, ballot, pending: self.voting(now), granted: nobody, bar: 0 });
    }

    /// The claim reaches a node, unless the node is silent.
    pub fn vote(&mut self, nodes: &mut Nodes, node: usize) {
        let link = &mut self.links[node];
        let Some(asking) = &mut self.asking else { return };
        asking.pending.remove(node);
        if link.silent {
            return;
        }
        let outcome = nodes.claim(link.server, self.number, self.list.hash(), asking.ballot);
        let at = tick(nodes.now);
        // Each reply shows the record's id.
        if !link.guard.showed(nodes.id(link.server).as_deref(), at) {
            link.guard.take_news();
            link.stale = true;
            return;
        }
        match outcome {
            Outcome::Granted { .. } => {
                asking.granted.insert(node);
                link.guard.granted(asking.ballot, at);
            }
            Outcome::Stale { fence } => asking.bar = asking.bar.max(fence),
            Outcome::Forgot | Outcome::NoList | Outcome::OtherList { .. } => link.stale = true,
            _ => {}
        }
    }

    /// Counts the votes. The client wins, asks again above the highest returned bar, or gives up if
    /// no vote is pending. Returns the token if it won.
    pub fn count(&mut self, nodes: &mut Nodes) -> Option<u64> {
        let asking = self.asking?;
        let (now, quorum) = (nodes.now, self.size().quorum());
        let votes = asking.granted.and(self.voting(now));
        // No vote is older than MAX_ROUND here, because `TTL` is shorter.
        if votes.len() >= quorum && !self.other_list && now < asking.t0 + TTL {
            (self.asking, self.until, self.won) = (None, Some(asking.t0 + TTL - 1), true);
            return Some(asking.ballot);
        }
        if asking.pending.is_empty() && asking.bar > asking.ballot {
            self.ask(now, asking.bar);
        } else if asking.pending.is_empty() {
            self.give_up(nodes);
        }
        None
    }

    pub fn give_up(&mut self, nodes: &mut Nodes) {
        let Some(asking) = self.asking.take() else { return };
        for node in asking.granted.iter().filter(|node| !self.links[*node].silent) {
            nodes.release(self.links[node].server, self.number, asking.ballot);
        }
    }
}
