//! What the nodes' states come to: whether a lock can be acquired, and what had better be mended.

use std::collections::BTreeSet;
use std::time::Duration;

use quorumlock::{Doubt, Inspected, Inspection, List, NodeState, NodeStatus};

use super::FAR;
use super::idle::{ROUNDED, forgot_unseen, has_restarted_unseen, is_idle, is_unused};
use crate::direct::mends::mend;
use crate::direct::rights::{Asked, Lacks};
use crate::duration::{exact, left};
use crate::failure::{UNAVAILABLE, USAGE};
use crate::lists::{Lists, Whose};
use crate::output::{same_once, voting};
use crate::words::counted;

/// The nodes, and what each answered when it was asked about a name.
pub(crate) struct Verdict<'a> {
    nodes: &'a [NodeStatus],
    inspected: &'a Inspected,
    /// The nodes whose votes count, as far as lists go.
    counted: BTreeSet<usize>,
    /// Which other list of this one's name is in force: then this client acquires nothing.
    kept_out: Option<String>,
    /// The nodes behind whose names clients have met a record lately.
    met: BTreeSet<usize>,
    max_ttl: Duration,
    /// How old a server must be that first use may call old.
    old: Duration,
    /// What is in the way of acquiring at each node; empty where nobody asked.
    rights: Vec<Asked>,
    /// What is said of a node that has not answered yet.
    silence: String,
}

impl<'a> Verdict<'a> {
    /// `list`: that of a client with these settings.
    pub(crate) fn new(nodes: &'a [NodeStatus], inspected: &'a Inspected, list: &List) -> Self {
        let lists = Lists::of_nodes(list, nodes);
        let kept_out = lists.conflict(Whose::Rival);
        let met = (0..nodes.len()).filter(|&node| !lists.servers(node).is_empty()).collect();
        let counts = |node: &usize| {
            kept_out.is_none() && !matches!(nodes[*node].state, NodeState::OtherList { .. } | NodeState::Twins { .. })
        };
        let counted = (0..nodes.len()).filter(counts).collect();
        let (rights, silence) = (Vec::new(), "no answer so far, so it hangs or is far away".to_owned());
        let (max_ttl, old) = (list.max_ttl(), list.old());
        Self { nodes, inspected, counted, kept_out, met, max_ttl, old, rights, silence }
    }

    /// Where nodes were waited for: for so long if the user said how long.
    pub(super) fn waited(mut self, told: Option<Duration>) -> Self {
        self.silence = match told {
            None => format!("{}; --connect-timeout {}s says which", self.silence, FAR.as_secs()),
            Some(told) if told < FAR => format!(
                "no answer within {}, so it hangs or is far away; a longer --connect-timeout says which",
                exact(told)
            ),
            Some(told) => format!("no answer within {}, so it hangs", exact(told)),
        };
        self
    }

    /// What is said of a node that has not answered yet.
    pub(super) fn silence(&self) -> &str {
        &self.silence
    }

    /// With what was found out of the users' rights, and of writes, node by node.
    pub(crate) fn with_rights(self, rights: Vec<Asked>) -> Self {
        Self { rights, ..self }
    }

    /// The rights that acquiring needs and this node's user lacks, as far as that is known.
    pub(super) fn lacks(&self, index: usize) -> Option<String> {
        self.asked(index)?.to_acquire()
    }

    fn asked(&self, index: usize) -> Option<&Lacks> {
        self.rights.get(index)?.as_ref().ok()?.as_ref()
    }

    /// Whether nothing keeps this client from writing there, as far as that is known.
    fn may_write(&self, index: usize) -> bool {
        self.asked(index).is_none_or(|lacks| lacks.writes.is_none() && lacks.to_acquire().is_none())
    }

    pub(crate) const fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// How many nodes vote on claims of a client with this list. One that is up and refuses to
    /// answer does not.
    pub(super) fn votes(&self) -> usize {
        self.waits().filter(|(_, wait)| wait.is_zero()).count()
    }

    /// Whether a node is one of these.
    pub(super) fn has_vote(&self, index: usize) -> bool {
        self.waits().any(|(voter, wait)| voter == index && wait.is_zero())
    }

    /// Whether the same server is behind two addresses: then `run` and the library refuse to start.
    pub(super) fn duplicate(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.state, NodeState::Duplicate { .. }))
    }

    /// Whether so many nodes vote that a name is known to be free if they say so. Those without
    /// memory, which grant nothing, are among them.
    pub(super) fn quorum_knows(&self) -> bool {
        self.knowing().filter(|(_, node)| node.state == NodeState::Up && node.record.is_some()).count() >= self.quorum()
    }

    fn quorum_votes(&self) -> bool {
        self.votes() >= self.quorum()
    }

    pub(crate) fn can_acquire(&self) -> bool {
        self.quorum_votes() && !self.duplicate()
    }

    /// Whether locks can be acquired, and not any more once another node fails, though the list has
    /// nodes to spare.
    pub(crate) fn is_bare(&self) -> bool {
        self.can_acquire() && self.votes() == self.quorum() && self.quorum() < self.nodes.len()
    }

    /// When more nodes vote than a quorum takes, if nothing else happens.
    pub(crate) fn spare(&self) -> Option<Spare> {
        let clients = self.waits().filter(|(index, wait)| wait.is_zero() || !self.counts_from_a_client(*index));
        let now = nth(clients.map(|(_, wait)| wait), self.quorum()).map(Spare::In);
        now.or_else(|| nth(self.waits().map(|(_, wait)| wait), self.quorum()).map(Spare::AfterAClient))
    }

    /// Whether the time until a node votes begins with its next client.
    fn counts_from_a_client(&self, index: usize) -> bool {
        is_unused(&self.nodes[index]) || has_restarted_unseen(&self.nodes[index])
    }

    /// Nodes that are only slow: nobody has found yet that they are down.
    pub(crate) fn slow(&self) -> Vec<&str> {
        let all = self.nodes.iter().enumerate();
        let slow = all.filter(|(index, node)| {
            node.state == NodeState::Connecting && !is_unused(node) && !matches!(self.rights.get(*index), Some(Err(_)))
        });
        slow.map(|(_, node)| &*node.node).collect()
    }

    /// The same of nodes that said whether this client may write there.
    pub(super) fn surely_acquires(mut self) -> bool {
        let unknown: Vec<_> =
            (0..self.nodes.len()).filter(|&index| matches!(self.rights.get(index), Some(Err(_)))).collect();
        for index in unknown {
            self.counted.remove(&index);
        }
        self.can_acquire()
    }

    /// Why a client with this list acquires nothing.
    pub(crate) fn kept_out(&self) -> Option<&str> {
        self.kept_out.as_deref()
    }

    /// How many nodes can be reached that have no record.
    pub(crate) fn unused(&self) -> usize {
        self.nodes.iter().filter(|node| is_unused(node)).count()
    }

    /// How many nodes vote as soon as a client has come, and not before.
    pub(super) fn waiting_for_a_client(&self) -> usize {
        self.nodes.iter().filter(|node| is_unused(node) || is_idle(node)).count()
    }

    /// How long it takes until an unused node votes: its first client waits for `max_ttl`, unless the
    /// server has run for longer, and remembers all.
    fn first_use(&self, index: usize) -> Duration {
        let old = self.nodes[index].uptime.is_some_and(|uptime| uptime > self.old + ROUNDED);
        if old && self.forgot(index).is_none() { Duration::ZERO } else { self.max_ttl }
    }

    /// How it is known that a node forgot what it had granted while it ran, if that is so.
    pub(crate) fn forgot(&self, index: usize) -> Option<&'static str> {
        if self.max_ttl.is_zero() {
            return None;
        }
        let node = &self.nodes[index];
        let emptied = self.asked(index).and_then(|lacks| lacks.emptied);
        match node.state {
            NodeState::Quarantined { doubt: Doubt::Forgot, .. } if is_unused(node) => Some("its record has gone"),
            _ if is_unused(node) && self.met.contains(&index) => Some("its record has gone"),
            _ if is_unused(node) => emptied,
            _ if forgot_unseen(node, self.old) => Some(emptied.unwrap_or("its record is younger than the server")),
            _ => None,
        }
    }

    /// Whether that is known of any node that has no record.
    pub(crate) fn any_forgot(&self) -> bool {
        (0..self.nodes.len()).any(|index| is_unused(&self.nodes[index]) && self.forgot(index).is_some())
    }

    /// After what time with a client such a node votes.
    pub(super) const fn max_ttl(&self) -> Duration {
        self.max_ttl
    }

    /// Whether no quorum votes before a client has come, and has waited for `max_ttl`.
    fn needs_a_client(&self) -> bool {
        let goes_on = |(index, node): &(usize, &NodeStatus)| {
            let counts = is_unused(node) || matches!(node.state, NodeState::Up | NodeState::Quarantined { .. });
            let waits = is_unused(node) && !self.first_use(*index).is_zero();
            counts && !waits && !has_restarted_unseen(node)
        };
        self.knowing().filter(goes_on).count() < self.quorum()
    }

    /// Nodes without a record that are taken to vote at once, and of which nobody knows whether they forgot.
    fn taken_for_old(&self) -> usize {
        let taken = |(index, node): &(usize, &NodeStatus)| {
            is_unused(node) && self.first_use(*index).is_zero() && self.asked(*index).is_none()
        };
        self.able().filter(taken).count()
    }

    /// 0 where `run` would begin, else what it would end with.
    pub(super) fn code(&self) -> u8 {
        match self.can_acquire() {
            true => 0,
            false if self.duplicate() => USAGE,
            false => UNAVAILABLE,
        }
    }

    /// In one sentence.
    pub(crate) fn sentence(&self) -> String {
        let counted = format!("{}; a quorum is {}", voting(self.votes(), self.nodes.len()), self.quorum());
        if self.duplicate() {
            return format!("{counted}: one server is behind two addresses, which `quorumlock run` refuses");
        }
        if self.can_acquire() {
            return match self.votes() - self.taken_for_old() < self.quorum() {
                false if self.is_bare() => format!("{counted}{}", self.bare()),
                false => counted,
                true => format!(
                    "{counted}. Those without a record vote at once unless they were flushed, evicted keys or were \
                     replicas: then the first client waits for {}",
                    left(self.max_ttl)
                ),
            };
        }
        if self.kept_out().is_some() {
            return format!("{counted}: a client with this list acquires nothing");
        }
        match self.opens_in() {
            Some(wait) if self.unused() == self.nodes.len() && !self.any_forgot() => format!(
                "{counted}: no client has come yet, and the first one waits for {}. If the servers are new and never \
                 held a lock, `quorumlock init` makes them vote at once",
                left(wait)
            ),
            Some(wait) if self.needs_a_client() => format!(
                "{counted}: no client has come since some of these servers began, restarted or forgot; the first one \
                 waits for {}",
                left(wait)
            ),
            Some(wait) => format!("{counted}: no lock can be acquired for another {}, then a quorum votes", left(wait)),
            None if self.only_this_name() => format!("{counted}: this name cannot be locked, others can"),
            None => format!("{counted}: no lock can be acquired"),
        }
    }

    /// What follows where no more nodes vote than a quorum takes. Nodes that vote soon need no mending.
    fn bare(&self) -> String {
        match (self.spare(), self.slow().len()) {
            (Some(Spare::In(wait)), _) => {
                format!(". One more votes in {}: restart no other node before that", left(wait))
            }
            (Some(Spare::AfterAClient(wait)), _) => format!(
                ". One more votes {} after the next client has come: restart no other node before that",
                left(wait)
            ),
            (None, 0) => ": the next failure stops all locks".to_owned(),
            (None, slow) => format!(". No answer so far from {}: look again", counted(slow, "node")),
        }
    }

    /// Whether a quorum would vote, were it not for what is stored under this name.
    fn only_this_name(&self) -> bool {
        let others = self.counting().filter(|(_, node, said)| {
            let fine = said.as_ref().map_or_else(|why| is_of_the_name(why), |_| true);
            fine && node.state == NodeState::Up && node.unreadable.is_none() && node.out_of_memory.is_none()
        });
        let others = others.filter(|(index, ..)| self.may_write(*index));
        others.count() >= self.quorum()
    }

    /// When quarantines have ended so that a quorum votes, if nothing else happens.
    pub(crate) fn opens_in(&self) -> Option<Duration> {
        nth(self.waits().map(|(_, wait)| wait), self.quorum() - 1)
    }

    /// How long it takes until they vote, of all nodes that will.
    fn waits(&self) -> impl Iterator<Item = (usize, Duration)> {
        self.able().filter_map(|(index, node)| match node.state {
            _ if is_unused(node) => Some((index, self.first_use(index))),
            _ if is_idle(node) => Some((index, Duration::ZERO)),
            NodeState::Up => Some((index, Duration::ZERO)),
            NodeState::Quarantined { left, .. } => Some((index, left)),
            _ => None,
        })
    }

    /// Those that can grant a lock as soon as they vote.
    fn able(&self) -> impl Iterator<Item = (usize, &NodeStatus)> {
        self.knowing().filter(|(index, node)| node.out_of_memory.is_none() && self.may_write(*index))
    }

    /// Those of them that answer, and can read their record; or have none yet.
    fn knowing(&self) -> impl Iterator<Item = (usize, &NodeStatus)> {
        let knows =
            self.counting().filter(|(_, node, said)| is_unused(node) || said.is_ok() && node.unreadable.is_none());
        knows.map(|(index, node, _)| (index, node))
    }

    /// The nodes whose votes count, as far as lists go, and what they answered.
    fn counting(&self) -> impl Iterator<Item = (usize, &NodeStatus, &Result<Inspection, String>)> {
        let all = self.nodes.iter().zip(&self.inspected.nodes).enumerate();
        all.filter(|(index, _)| self.counts(*index)).map(|(index, (node, (_, said)))| (index, node, said))
    }

    /// Whether a node's vote counts, as far as lists go.
    pub(crate) fn counts(&self, index: usize) -> bool {
        self.counted.contains(&index)
    }

    /// Why a node that was reached has no vote: it refused, or it hangs, it can grant nothing, or
    /// its vote does not count.
    pub(crate) fn refusal(&self, index: usize) -> Option<String> {
        let (node, said) = (&self.nodes[index], &self.inspected.nodes[index].1);
        if is_unused(node) {
            return self.without_rights(index).or_else(|| self.without_writes(index));
        }
        let refused = match (said, &node.unreadable) {
            (Err(why), _) if is_of_the_name(why) => format!("cannot lock this name: {why}"),
            (Err(why), _) => format!("does not answer: {why}"),
            (Ok(_), Some(why)) => format!("grants no lock: {why}"),
            (Ok(_), None) => {
                let without = || self.without_rights(index).or_else(|| self.without_writes(index));
                without_memory(node).or_else(without)?
            }
        };
        Some(refused).filter(|_| node.state.is_admitted())
    }

    fn without_rights(&self, index: usize) -> Option<String> {
        self.lacks(index).map(|rights| format!("grants this user no lock: the user lacks {rights}"))
    }

    /// To read, as who looks does, is not to write.
    fn without_writes(&self, index: usize) -> Option<String> {
        let why = self.asked(index)?.writes.as_deref()?;
        let mend = mend(why).unwrap_or_default().trim_end_matches('.');
        Some(format!("grants no lock, as it refuses writes: {why}. {mend}"))
    }

    /// What does not keep locks from being acquired, and had better be mended.
    pub(super) fn warnings(&self) -> Vec<String> {
        let nodes = self.nodes.len();
        let even = nodes.is_multiple_of(2).then(|| {
            let (failed, fewer) = ((nodes - 1) / 2, nodes - 1);
            format!("with {nodes} nodes {failed} may fail, as with {fewer}; use an odd number of nodes")
        });
        let unguarded = self.max_ttl.is_zero().then(|| {
            "max_ttl is 0 here: a client like that counts votes of nodes that may have forgotten who holds a lock"
                .to_owned()
        });
        let of_nodes = self.nodes.iter().flat_map(of_node).chain(self.untold());
        let of_nodes = same_once(of_nodes).into_iter().map(|(nodes, what)| format!("{what}: {nodes}"));
        even.into_iter().chain(unguarded).chain(of_nodes).collect()
    }

    /// Nodes that answer, and of whose user's rights nothing is known.
    fn untold(&self) -> impl Iterator<Item = (&str, String)> {
        let asked = self.nodes.iter().zip(&self.rights).filter(|(node, _)| node.state.is_admitted());
        asked.filter_map(|(node, rights)| {
            let why = rights.as_ref().err()?;
            Some((&*node.node, format!("nobody could ask whether the user may acquire locks ({why})")))
        })
    }
}

/// When one more node votes than a quorum takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spare {
    In(Duration),
    /// So long after the next client has come.
    AfterAClient(Duration),
}

/// One of these times, from 0, in their order.
fn nth(times: impl Iterator<Item = Duration>, index: usize) -> Option<Duration> {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times.get(index).copied()
}

/// How much memory it may use is among the warnings.
fn without_memory(node: &NodeStatus) -> Option<String> {
    let full = node.out_of_memory.is_some() && node.state == NodeState::Up;
    full.then(|| "grants no lock: it is out of memory".to_owned())
}

/// Whether other names can be locked all the same: what is in the way is stored under this one.
fn is_of_the_name(why: &str) -> bool {
    why.starts_with("WRONGTYPE") || why.contains("is no lock of this protocol")
}

/// What had better be mended of a node, and which it is.
fn of_node(node: &NodeStatus) -> impl Iterator<Item = (&str, String)> {
    let evicts = node.evicts.as_ref().map(|policy| {
        format!("a server may evict locks (maxmemory-policy {policy}); set maxmemory-policy to noeviction")
    });
    let silent = node
        .no_wake_ups
        .as_ref()
        .map(|why| format!("a server does not notify waiters, so waiting takes longer ({why})"));
    let full = node
        .out_of_memory
        .as_ref()
        .map(|used| format!("a server is out of memory ({used}) and grants no lock; raise maxmemory or free some"));
    evicts.into_iter().chain(full).chain(silent).map(|what| (&*node.node, what))
}
