//! One client: what it is connected to, what it has enrolled, and what it claims.

use quorumlock::rules::roster::{Listing, Roster, Standing};
use quorumlock::rules::{NodeSet, Tick};

use super::enrol::{Writing, common};
use super::first::First;
use super::history::History;
use super::nodes::{Nodes, TTL, tick, time};
use super::{LIST, Scope};
use crate::scope::Ticks;

/// A connection to one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Link {
    /// To which process.
    pub epoch: Option<u8>,
    /// It was there before.
    met: bool,
    /// Nothing comes over it.
    pub silent: bool,
}

/// A claim under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Asking {
    pub t0: Ticks,
    pub pending: NodeSet,
    /// Who granted it, and could have forgotten nothing.
    granted: NodeSet,
    /// Who granted it.
    took: NodeSet,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    number: usize,
    pub list: [usize; LIST],
    /// Since when it runs.
    pub since: Option<Ticks>,
    pub links: [Link; LIST],
    /// It enrols before time goes on.
    pub due: bool,
    pub writing: Option<Writing>,
    pub(super) histories: [History; LIST],
    pub(super) listing: Listing,
    pub(super) standings: [Standing; LIST],
    pub(super) listed: Option<Tick>,
    pub(super) first: First,
    pub(super) own: Option<(Roster, Tick)>,
    pub asking: Option<Asking>,
    /// It has claimed.
    claimed: bool,
    /// Until when it treats the lock as held, if it got it.
    until: Option<Ticks>,
}

impl Client {
    pub fn new(scope: &Scope, number: usize) -> Self {
        Self {
            number,
            list: scope.lists[number],
            since: None,
            links: [Link::default(); LIST],
            due: false,
            writing: None,
            histories: Default::default(),
            listing: Listing::default(),
            standings: Default::default(),
            listed: None,
            first: First::default(),
            own: None,
            asking: None,
            claimed: false,
            until: None,
        }
    }

    pub fn connected(&self) -> NodeSet {
        (0..LIST).filter(|&node| self.links[node].epoch.is_some()).collect()
    }

    pub fn silent(&self) -> NodeSet {
        (0..LIST).filter(|&node| self.links[node].silent).collect()
    }

    /// Whether this node has taken its servers itself.
    pub const fn is_listed(&self, node: usize) -> bool {
        matches!(self.standings[node], Standing::Listed(_))
    }

    /// Whether a node is being connected to for the first time.
    pub(super) fn others_come(&self) -> bool {
        self.links.iter().any(|link| !link.met)
    }

    pub fn holds(&self, now: Ticks) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    pub const fn has_won(&self) -> bool {
        self.until.is_some()
    }

    /// Whether it may hold the lock now or later.
    pub fn matters(&self, now: Ticks) -> bool {
        self.holds(now) || self.asking.is_some() || !self.claimed
    }

    pub fn connect(&mut self, nodes: &Nodes, node: usize) {
        (self.links[node].epoch, self.links[node].met) = (Some(nodes.epoch(self.list[node])), true);
        self.standings[node] = Standing::Unknown;
        self.comes_anew();
    }

    /// A connection has ended: what was sent over it is lost. It enrols again, once a round that is
    /// under way has ended.
    pub fn disconnect(&mut self, node: usize) {
        self.links[node].epoch = None;
        if let Some(asking) = &mut self.asking {
            asking.pending.remove(node);
        }
        if let Some(writing) = &mut self.writing {
            writing.pending.remove(node);
        }
        self.due = true;
    }

    /// A round of enrolling begins anew.
    fn comes_anew(&mut self) {
        self.catch_up();
        self.due = true;
    }

    /// Where it would claim: no claim is sent to a server that is not listed.
    fn voters(&self, now: Ticks) -> NodeSet {
        let connected = self.connected();
        connected.iter().filter(|&node| self.standings[node].counts(tick(now))).collect()
    }

    pub fn may_claim(&self, now: Ticks) -> bool {
        !self.claimed && self.voters(now).len() >= common().size.quorum()
    }

    pub fn claim(&mut self, now: Ticks) {
        let nobody = NodeSet::default();
        self.claimed = true;
        self.asking = Some(Asking { t0: now, pending: self.voters(now), granted: nobody, took: nobody });
    }

    /// Its claim reaches a node.
    pub fn vote(&mut self, nodes: &mut Nodes, node: usize) {
        let (server, number) = (self.list[node], self.number);
        let Some(asking) = &mut self.asking else { return };
        asking.pending.remove(node);
        if nodes.claim(server, number) {
            asking.took.insert(node);
            if nodes.is_trusted(server) {
                asking.granted.insert(node);
            }
        }
    }

    /// It counts the votes that came: it has the lock, or gives up once no more come.
    pub fn count(&mut self, nodes: &mut Nodes) {
        let Some(asking) = self.asking else { return };
        let now = nodes.now;
        let electorate = self.listing.electorate(NodeSet::default(), time(TTL), tick(now));
        // No vote counts for longer than 5 s, which is a little more than a tick.
        let votes = electorate.of(asking.granted, tick(asking.t0));
        if votes.len() >= common().size.quorum() && now <= asking.t0 + 1 {
            (self.asking, self.until) = (None, Some(asking.t0 + TTL));
        } else if asking.pending.without(self.silent()).is_empty() || now > asking.t0 + 1 {
            self.asking = None;
            asking.took.without(self.silent()).iter().for_each(|node| nodes.release(self.list[node], self.number));
        }
    }
}
