//! What follows from the nodes' states: whether a lock can be acquired, and what should be
//! repaired.

use std::collections::BTreeSet;
use std::time::Duration;

use quorumlock::{Doubt, Inspected, Inspection, List, NodeState, NodeStatus};

use super::FAR;
use super::idle::{ROUNDED, forgot_unseen, has_restarted_unseen, is_idle, is_unused};
use crate::duration::{exact, left};
use crate::failure::{UNAVAILABLE, USAGE};
use crate::lists::{Lists, Whose};
use crate::output::{same_once, voting};
use crate::raw_connection::remedies::mend;
use crate::raw_connection::rights::{Asked, Lacks};
use crate::words::counted;

/// The nodes, and the reply of each about a name.
pub(crate) struct Verdict<'a> {
    nodes: &'a [NodeStatus],
    inspected: &'a Inspected,
    /// The nodes whose votes count: no other list is in force on them, and no second server has
    /// their name.
    counted: BTreeSet<usize>,
    /// Which other list with the same name is in force. Then this client acquires nothing.
    kept_out: Option<String>,
    /// The nodes on which clients have lately met a record.
    met: BTreeSet<usize>,
    max_ttl: Duration,
    /// A server with a longer uptime may vote at first use.
    old: Duration,
    /// What keeps this client from acquiring, for each node. Empty if the nodes were not asked.
    rights: Vec<Asked>,
    /// The text about a node that has not answered yet.
    silence: String,
}

impl<'a> Verdict<'a> {
    /// `list` is the list of a client with these settings.
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

    /// Notes that the command waited for nodes, and for how long if the user set that time.
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

    /// The text about a node that has not answered yet.
    pub(super) fn silence(&self) -> &str {
        &self.silence
    }

    /// Adds, for each node, what is known of its user's rights and of writes.
    pub(crate) fn with_rights(self, rights: Vec<Asked>) -> Self {
        Self { rights, ..self }
    }

    /// The missing rights that acquiring needs on this node, as far as they are known.
    pub(super) fn lacks(&self, index: usize) -> Option<String> {
        self.asked(index)?.to_acquire()
    }

    fn asked(&self, index: usize) -> Option<&Lacks> {
        self.rights.get(index)?.as_ref().ok()?.as_ref()
    }

    /// Whether this client may write to the node; true if that is unknown.
    fn may_write(&self, index: usize) -> bool {
        self.asked(index).is_none_or(|lacks| lacks.writes.is_none() && lacks.to_acquire().is_none())
    }

    pub(crate) const fn quorum(&self) -> usize {
        self.nodes.len() / 2 + 1
    }

    /// How many nodes vote on claims of a client with this list. A node that is up and does not
    /// answer has no vote.
    pub(super) fn votes(&self) -> usize {
        self.waits().filter(|(_, wait)| wait.is_zero()).count()
    }

    /// Whether a node votes.
    pub(super) fn has_vote(&self, index: usize) -> bool {
        self.waits().any(|(voter, wait)| voter == index && wait.is_zero())
    }

    /// Whether the same server is behind two addresses: then `run` and the library refuse to start.
    pub(super) fn duplicate(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.state, NodeState::Duplicate { .. }))
    }

    /// Whether enough nodes vote to know that a name is free. Nodes that are out of memory count,
    /// too, although they grant nothing.
    pub(super) fn quorum_knows(&self) -> bool {
        self.knowing().filter(|(_, node)| node.state == NodeState::Up && node.record.is_some()).count() >= self.quorum()
    }

    fn quorum_votes(&self) -> bool {
        self.votes() >= self.quorum()
    }

    pub(crate) fn can_acquire(&self) -> bool {
        self.quorum_votes() && !self.duplicate()
    }

    /// Whether locks can be acquired now, but not after one more failure, although the list has
    /// nodes to spare.
    pub(crate) fn is_bare(&self) -> bool {
        self.can_acquire() && self.votes() == self.quorum() && self.quorum() < self.nodes.len()
    }

    /// When one more node votes than a quorum needs, if nothing else happens.
    pub(crate) fn spare(&self) -> Option<Spare> {
        let clients = self.waits().filter(|(index, wait)| wait.is_zero() || !self.counts_from_a_client(*index));
        let now = nth(clients.map(|(_, wait)| wait), self.quorum()).map(Spare::In);
        now.or_else(|| nth(self.waits().map(|(_, wait)| wait), self.quorum()).map(Spare::AfterAClient))
    }

    /// Whether the time until a node votes begins with its next client.
    fn counts_from_a_client(&self, index: usize) -> bool {
        is_unused(&self.nodes[index]) || has_restarted_unseen(&self.nodes[index])
    }

    /// Nodes that have not answered yet, and are not known to be down.
    pub(crate) fn slow(&self) -> Vec<&str> {
        let all = self.nodes.iter().enumerate();
        let slow = all.filter(|(index, node)| {
            node.state == NodeState::Connecting && !is_unused(node) && !matches!(self.rights.get(*index), Some(Err(_)))
        });
        slow.map(|(_, node)| &*node.node).collect()
    }

    /// As `can_acquire`, but without nodes whose answer about rights is missing.
    pub(super) fn surely_acquires(mut self) -> bool {
        let unknown: Vec<_> =
            (0..self.nodes.len()).filter(|&index| matches!(self.rights.get(index), Some(Err(_)))).collect();
        for index in unknown {
            self.counted.remove(&index);
        }
        self.can_acquire()
    }

    /// Why a client with this list acquires nothing; `None` if no other list keeps the client out.
    pub(crate) fn kept_out(&self) -> Option<&str> {
        self.kept_out.as_deref()
    }

    /// How many nodes can be reached and have no record.
    pub(crate) fn unused(&self) -> usize {
        self.nodes.iter().filter(|node| is_unused(node)).count()
    }

    /// How many nodes vote only after a client has come.
    pub(super) fn waiting_for_a_client(&self) -> usize {
        self.nodes.iter().filter(|node| is_unused(node) || is_idle(node)).count()
    }

    /// How long it takes after the first client has come until an unused node votes: `max_ttl`, or
    /// no time at all if the server has run for longer than `old` and forgot nothing.
    fn first_use(&self, index: usize) -> Duration {
        let old = self.nodes[index].uptime.is_some_and(|uptime| uptime > self.old + ROUNDED);
        if old && self.forgot(index).is_none() { Duration::ZERO } else { self.max_ttl }
    }

    /// What shows that a node forgot locks while it ran; `None` if nothing shows that.
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

    /// Whether any node without a record is known to have forgotten locks.
    pub(crate) fn any_forgot(&self) -> bool {
        (0..self.nodes.len()).any(|index| is_unused(&self.nodes[index]) && self.forgot(index).is_some())
    }

    /// The list's `max_ttl`. A node that forgot votes this long after its next client has come.
    pub(super) const fn max_ttl(&self) -> Duration {
        self.max_ttl
    }

    /// Whether no quorum votes until a client has come and has waited for `max_ttl`.
    fn needs_a_client(&self) -> bool {
        let goes_on = |(index, node): &(usize, &NodeStatus)| {
            let counts = is_unused(node) || matches!(node.state, NodeState::Up | NodeState::Quarantined { .. });
            let waits = is_unused(node) && !self.first_use(*index).is_zero();
            counts && !waits && !has_restarted_unseen(node)
        };
        self.knowing().filter(goes_on).count() < self.quorum()
    }

    /// How many nodes without a record are assumed to vote at once, although they may have
    /// forgotten locks.
    fn taken_for_old(&self) -> usize {
        let taken = |(index, node): &(usize, &NodeStatus)| {
            is_unused(node) && self.first_use(*index).is_zero() && self.asked(*index).is_none()
        };
        self.able().filter(taken).count()
    }

    /// The exit code: 0 if `run` would begin, else the code with which it would end.
    pub(super) fn code(&self) -> u8 {
        match self.can_acquire() {
            true => 0,
            false if self.duplicate() => USAGE,
            false => UNAVAILABLE,
        }
    }

    /// The verdict in one sentence.
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
                    "{counted}. Nodes without a record vote at once. If they were flushed, evicted keys or were \
                     replicas, the first client waits for {}",
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

    /// The end of the sentence if no more nodes vote than a quorum needs. Nodes that vote soon need
    /// no repair.
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

    /// Whether a quorum would vote on other names: only the data under this name prevents it.
    fn only_this_name(&self) -> bool {
        let others = self.counting().filter(|(_, node, said)| {
            let fine = said.as_ref().map_or_else(|why| is_of_the_name(why), |_| true);
            fine && node.state == NodeState::Up && node.unreadable.is_none() && node.out_of_memory.is_none()
        });
        let others = others.filter(|(index, ..)| self.may_write(*index));
        others.count() >= self.quorum()
    }

    /// How long it takes until quarantines have ended and a quorum votes, if nothing else happens.
    pub(crate) fn opens_in(&self) -> Option<Duration> {
        nth(self.waits().map(|(_, wait)| wait), self.quorum() - 1)
    }

    /// The nodes that vote now or later, each with the time until then.
    fn waits(&self) -> impl Iterator<Item = (usize, Duration)> {
        self.able().filter_map(|(index, node)| match node.state {
            _ if is_unused(node) => Some((index, self.first_use(index))),
            _ if is_idle(node) => Some((index, Duration::ZERO)),
            NodeState::Up => Some((index, Duration::ZERO)),
            NodeState::Quarantined { left, .. } => Some((index, left)),
            _ => None,
        })
    }

    /// The nodes that can grant a lock as soon as they vote.
    fn able(&self) -> impl Iterator<Item = (usize, &NodeStatus)> {
        self.knowing().filter(|(index, node)| node.out_of_memory.is_none() && self.may_write(*index))
    }

    /// The nodes that know who holds a name: they answer and can read their record, or have no
    /// record yet.
    fn knowing(&self) -> impl Iterator<Item = (usize, &NodeStatus)> {
        let knows =
            self.counting().filter(|(_, node, said)| is_unused(node) || said.is_ok() && node.unreadable.is_none());
        knows.map(|(index, node, _)| (index, node))
    }

    /// The nodes whose votes [count](Self::counts), with their replies.
    fn counting(&self) -> impl Iterator<Item = (usize, &NodeStatus, &Result<Inspection, String>)> {
        let all = self.nodes.iter().zip(&self.inspected.nodes).enumerate();
        all.filter(|(index, _)| self.counts(*index)).map(|(index, (node, (_, said)))| (index, node, said))
    }

    /// Whether a node's vote counts: no other list is in force on the node, and no second server
    /// has its name. The node may lack a vote for other reasons.
    pub(crate) fn counts(&self, index: usize) -> bool {
        self.counted.contains(&index)
    }

    /// Why a node that was reached has no vote: it refused, it hangs, or it can grant nothing.
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

    /// Why a node grants no lock, if it refuses writes. This command only reads, so it would not
    /// notice that by itself.
    fn without_writes(&self, index: usize) -> Option<String> {
        let why = self.asked(index)?.writes.as_deref()?;
        let mend = mend(why).unwrap_or_default().trim_end_matches('.');
        Some(format!("grants no lock, as it refuses writes: {why}. {mend}"))
    }

    /// What should be repaired, although locks can be acquired.
    pub(super) fn warnings(&self) -> Vec<String> {
        let nodes = self.nodes.len();
        let even = nodes.is_multiple_of(2).then(|| {
            let (failed, fewer) = ((nodes - 1) / 2, nodes - 1);
            format!("with {nodes} nodes {failed} may fail, as with {fewer}; use an odd number of nodes")
        });
        let unguarded = self.max_ttl.is_zero().then(|| {
            "max_ttl is 0 here: a client with max_ttl 0 counts votes of nodes that may have forgotten who holds a lock"
                .to_owned()
        });
        let of_nodes = self.nodes.iter().flat_map(of_node).chain(self.untold());
        let of_nodes = same_once(of_nodes).into_iter().map(|(nodes, what)| format!("{what}: {nodes}"));
        even.into_iter().chain(unguarded).chain(of_nodes).collect()
    }

    /// Nodes that answer, and whose user's rights are unknown.
    fn untold(&self) -> impl Iterator<Item = (&str, String)> {
        let asked = self.nodes.iter().zip(&self.rights).filter(|(node, _)| node.state.is_admitted());
        asked.filter_map(|(node, rights)| {
            let why = rights.as_ref().err()?;
            Some((&*node.node, format!("nobody could ask whether the user may acquire locks ({why})")))
        })
    }
}

/// When one more node votes than a quorum needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spare {
    In(Duration),
    /// This long after the next client has come.
    AfterAClient(Duration),
}

/// The time at this index, from 0, after sorting.
fn nth(times: impl Iterator<Item = Duration>, index: usize) -> Option<Duration> {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times.get(index).copied()
}

/// Why a node grants no lock, if it is out of memory. A warning says how much memory the node may
/// use.
fn without_memory(node: &NodeStatus) -> Option<String> {
    let full = node.out_of_memory.is_some() && node.state == NodeState::Up;
    full.then(|| "grants no lock: it is out of memory".to_owned())
}

/// Whether the error comes from data under this name, so that other names can be locked.
fn is_of_the_name(why: &str) -> bool {
    why.starts_with("WRONGTYPE") || why.contains("is no lock of this protocol")
}

/// The warnings about a node, with its address.
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
