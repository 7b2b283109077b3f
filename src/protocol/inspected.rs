//! What the nodes say of a name.

use std::sync::Arc;

use super::in_the_way::is_same;
use super::inspect::Survey;
use super::voters::Voters;
use crate::node::{Description, Inspection, Kind, Operation};
use crate::rules::NodeSet;

/// What each node says of a name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspected {
    /// Each node, and what it says, or what kept it from saying anything.
    pub nodes: Vec<(Arc<str>, Result<Inspection, String>)>,
    quorum: usize,
    /// The nodes that voted when they were asked.
    voting: NodeSet,
}

impl Inspected {
    pub(crate) fn new(voters: &Voters, survey: &Survey) -> Self {
        let entry = |(node, said): (usize, &Result<Inspection, crate::node::Fault>)| {
            (voters.nodes[node].label().clone(), said.clone().map_err(|fault| fault.to_string()))
        };
        let nodes = survey.said.iter().enumerate().map(entry).collect();
        Self { nodes, quorum: voters.size.quorum() as usize, voting: survey.voting }
    }

    /// Who holds the name on a quorum of nodes: an owner, `host/pid/uuid/number`.
    ///
    /// Where [readers](Self::readers) hold it, one that some node names. Each node names one reader of
    /// all, so that a quorum names readers tells that no writer has a quorum, and not that this reader
    /// has.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        let holders = || self.said().filter_map(|said| said.holder.as_deref());
        holders().find(|holder| holders().filter(|other| is_same(holder, other)).count() >= self.quorum)
    }

    /// How many readers hold it, as the node says that knows of most; `None` where it is not held,
    /// or not by readers.
    #[must_use]
    pub fn readers(&self) -> Option<u32> {
        self.holder().filter(|holder| Operation::is_shared(holder))?;
        let reading = |said: &&Inspection| said.holder.as_deref().is_some_and(Operation::is_shared);
        self.said().filter(reading).map(|said| said.count).max()
    }

    /// Whether it is held for a period in which something is done [once](crate::Once): it was done,
    /// or is being done. The name is held until the period is over.
    #[must_use]
    pub fn is_once(&self) -> bool {
        let holder = self.holder();
        holder.is_some() && self.said().any(|said| said.kind == Kind::Once && said.holder.as_deref() == holder)
    }

    /// Whether it is held as the gate of a [semaphore](crate::Quorum::semaphore): the holder is the
    /// next to take permits, which are names of their own.
    #[must_use]
    pub fn is_gate(&self) -> bool {
        let holder = self.holder();
        holder.is_some() && self.said().any(|said| said.kind == Kind::Gate && said.holder.as_deref() == holder)
    }

    /// What the holder says of itself ([`describe`](crate::QuorumLock::describe)), if anything: the
    /// last that any node knows.
    #[must_use]
    pub fn description(&self) -> Option<&Description> {
        let holder = self.holder()?;
        let theirs = self.said().filter(|said| said.holder.as_deref() == Some(holder));
        theirs.filter_map(|said| said.description.as_ref()).max_by_key(|told| (told.token, told.number))
    }

    /// Whether the hold was [revoked](crate::Quorum::revoke), and so many nodes say so that no
    /// quorum of them renews it.
    #[must_use]
    pub fn revoked(&self) -> bool {
        let kept = self.said().filter(|said| said.holder.is_some() && !said.is_revoked()).count();
        kept < self.quorum && self.said().any(Inspection::is_revoked)
    }

    /// Whether a quorum of nodes says the same: that one owner holds it, or, of nodes that vote,
    /// that nobody does. `None` if votes are split, or too few nodes answer or vote: one that is
    /// quarantined may have forgotten a holder, so that it knows of none means nothing.
    #[must_use]
    pub fn agreed(&self) -> Option<bool> {
        let free = self.votes().filter(|said| said.holder.is_none()).count() >= self.quorum;
        if self.holder().is_some() { Some(true) } else { free.then_some(false) }
    }

    /// Whether the answers tell who holds the name: a quorum of nodes votes, or names one holder that
    /// is no reader. Where they do not, somebody may hold it of whom no node knows.
    #[must_use]
    pub fn is_conclusive(&self) -> bool {
        // Readers keep no other reader out, so a quorum that names some says nothing of those that it
        // may have forgotten.
        self.votes().count() >= self.quorum || self.holder().is_some_and(|holder| !Operation::is_shared(holder))
    }

    /// The highest fence on any node: every token dealt so far is at most this, where a quorum
    /// answers of which no node forgot it.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.said().map(|said| said.fence).max().unwrap_or(0)
    }

    /// What those nodes say that vote.
    fn votes(&self) -> impl Iterator<Item = &Inspection> {
        let voting = self.nodes.iter().enumerate().filter(|(node, _)| self.voting.contains(*node));
        voting.filter_map(|(_, (_, said))| said.as_ref().ok())
    }

    fn said(&self) -> impl Iterator<Item = &Inspection> {
        self.nodes.iter().filter_map(|(_, said)| said.as_ref().ok())
    }
}
