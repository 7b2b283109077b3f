//! What the nodes' states come to: whether a lock can be acquired, and what had better be mended.

use std::collections::BTreeSet;
use std::time::Duration;

use quorumlock::{Inspected, Inspection, List, NodeState, NodeStatus};

use super::idle::{has_restarted_unseen, is_idle, is_unused};
use crate::direct::mends::mend;
use crate::direct::rights::{Asked, Lacks};
use crate::duration::left;
use crate::failure::{UNAVAILABLE, USAGE};
use crate::lists::{Lists, Whose, described};

/// An uptime may be a second too long.
const ROUNDED: Duration = Duration::from_secs(1);

/// The nodes, and what each answered when it was asked about a name.
pub(crate) struct Verdict<'a> {
    nodes: &'a [NodeStatus],
    inspected: &'a Inspected,
    /// The nodes whose votes count, as far as lists go.
    counted: BTreeSet<usize>,
    /// Why this client acquires nothing, since another list of its name is in force.
    kept_out: Option<String>,
    max_ttl: Duration,
    /// How old a server must be that first use may call old.
    old: Duration,
    /// What is in the way of acquiring at each node; empty where nobody asked.
    rights: Vec<Asked>,
}

impl<'a> Verdict<'a> {
    /// `list`: that of a client with these settings.
    pub(crate) fn new(nodes: &'a [NodeStatus], inspected: &'a Inspected, list: &List) -> Self {
        let lists = Lists::of_nodes(list, nodes);
        let kept_out = lists.with(Whose::Rival).first().and_then(|&node| {
            let (theirs, _) = lists.at(node)?;
            let (node, theirs, ours) = (&nodes[node].node, described(&theirs.says), described(list.says()));
            Some(format!("clients of another list use {node}: theirs is {theirs}; this one is {ours}"))
        });
        let counts = |node: &usize| {
            kept_out.is_none() && !matches!(nodes[*node].state, NodeState::OtherList { .. } | NodeState::Twins { .. })
        };
        let counted = (0..nodes.len()).filter(counts).collect();
        Self { nodes, inspected, counted, kept_out, max_ttl: list.max_ttl(), old: list.old(), rights: Vec::new() }
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
        self.waits().filter(Duration::is_zero).count()
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
    pub(super) fn kept_out(&self) -> Option<&str> {
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
    /// server has run for longer.
    fn first_use(&self, node: &NodeStatus) -> Duration {
        let old = node.uptime.is_some_and(|uptime| uptime > self.old + ROUNDED);
        if old { Duration::ZERO } else { self.max_ttl }
    }

    /// Whether no quorum votes before a client has come, and has waited for `max_ttl`.
    fn needs_a_client(&self) -> bool {
        let waits = |node: &NodeStatus| is_unused(node) && !self.first_use(node).is_zero();
        let goes_on = |(_, node): &(usize, &NodeStatus)| {
            let counts = is_unused(node) || matches!(node.state, NodeState::Up | NodeState::Quarantined { .. });
            counts && !waits(node) && !has_restarted_unseen(node)
        };
        self.knowing().filter(goes_on).count() < self.quorum()
    }

    /// Nodes without a record that are taken to vote at once.
    fn taken_for_old(&self) -> usize {
        self.able().filter(|node| is_unused(node) && self.first_use(node).is_zero()).count()
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
        let counted = format!("{} of {} nodes vote; a quorum is {}", self.votes(), self.nodes.len(), self.quorum());
        if self.duplicate() {
            return format!("{counted}: one server is behind two addresses, which `quorumlock run` refuses");
        }
        if self.can_acquire() {
            return match self.votes() - self.taken_for_old() < self.quorum() {
                false if self.is_bare() => format!("{counted}: the next failure stops all locks"),
                false => counted,
                true => format!(
                    "{counted}. Those without a record vote at once unless they were flushed, evicted keys or were \
                     replicas: then the first client waits for {}",
                    left(self.max_ttl)
                ),
            };
        }
        if let Some(why) = self.kept_out() {
            return format!("{counted}: a client with this list acquires nothing: {why}");
        }
        match self.opens_in() {
            Some(wait) if self.unused() == self.nodes.len() => format!(
                "{counted}: no client has come since these servers began, or forgot, and the first one waits for {}; if \
                 they are new and never held a lock, `quorumlock init` makes them vote at once",
                left(wait)
            ),
            Some(wait) if self.needs_a_client() => format!(
                "{counted}: no client has come since some of these servers began, restarted or forgot, and the first one waits for {}",
                left(wait)
            ),
            Some(wait) => format!("{counted}: no lock can be acquired for another {}, then a quorum votes", left(wait)),
            None if self.only_this_name() => format!("{counted}: this name cannot be locked, others can"),
            None => format!("{counted}: no lock can be acquired"),
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
        let mut waits: Vec<_> = self.waits().collect();
        waits.sort_unstable();
        waits.get(self.quorum() - 1).copied()
    }

    /// How long it takes until they vote, of all nodes that will.
    fn waits(&self) -> impl Iterator<Item = Duration> {
        self.able().filter_map(|node| match node.state {
            _ if is_unused(node) => Some(self.first_use(node)),
            _ if is_idle(node) => Some(Duration::ZERO),
            NodeState::Up => Some(Duration::ZERO),
            NodeState::Quarantined { left, .. } => Some(left),
            _ => None,
        })
    }

    /// Those that can grant a lock as soon as they vote.
    fn able(&self) -> impl Iterator<Item = &NodeStatus> {
        let can = self.knowing().filter(|(index, node)| node.out_of_memory.is_none() && self.may_write(*index));
        can.map(|(_, node)| node)
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
        let all = even.into_iter().chain(unguarded).chain(self.nodes.iter().flat_map(of_node));
        all.chain(self.untold()).collect()
    }

    /// Nodes that answer, and of whose user's rights nothing is known.
    fn untold(&self) -> impl Iterator<Item = String> {
        let asked = self.nodes.iter().zip(&self.rights).filter(|(node, _)| node.state.is_admitted());
        asked.filter_map(|(node, rights)| {
            let why = rights.as_ref().err()?;
            Some(format!("nobody could ask {} whether its user may acquire locks: {why}", node.node))
        })
    }
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

fn of_node(node: &NodeStatus) -> impl Iterator<Item = String> {
    let evicts = node.evicts.as_ref().map(|policy| {
        format!("{} may evict locks (maxmemory-policy {policy}); set maxmemory-policy to noeviction", node.node)
    });
    let silent = node
        .no_wake_ups
        .as_ref()
        .map(|why| format!("{} does not notify waiters, so waiting takes longer: {why}", node.node));
    let full = node.out_of_memory.as_ref().map(|used| {
        format!("{} is out of memory ({used}) and grants no lock; raise maxmemory or free some", node.node)
    });
    evicts.into_iter().chain(full).chain(silent)
}
