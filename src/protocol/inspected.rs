//! The nodes' reports about a name.

use std::sync::Arc;

use super::blocker::is_same;
use super::inspect::Survey;
use super::voters::Voters;
use crate::node::{Description, Inspection, Kind, Operation};
use crate::rules::NodeSet;

/// Each node's report about a name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspected {
    /// Each node's name in error texts, with the node's report or the reason why there is none.
    pub nodes: Vec<(Arc<str>, Result<Inspection, String>)>,
    quorum: usize,
    /// The nodes whose votes counted both before and after the inspection.
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

    /// The owner that holds the name on a quorum of nodes: `host/pid/uuid/number`.
    ///
    /// If [readers](Self::readers) hold the name, this is one of them. That reader may hold the
    /// name on fewer nodes than a quorum, because each node names only one of its readers. So the
    /// result shows that readers hold the name, and not which ones.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        let holders = || self.said().filter_map(|said| said.holder.as_deref());
        holders().find(|holder| holders().filter(|other| is_same(holder, other)).count() >= self.quorum)
    }

    /// How many readers hold the name: the highest count on any node. `None` if no readers hold it.
    #[must_use]
    pub fn readers(&self) -> Option<u32> {
        self.holder().filter(|holder| Operation::is_shared(holder))?;
        let reading = |said: &&Inspection| said.holder.as_deref().is_some_and(Operation::is_shared);
        self.said().filter(reading).map(|said| said.count).max()
    }

    /// Whether the name belongs to a job that is done [once](crate::Once) in a period. If so, the
    /// job was done in this period, or is being done, and nodes hold the name until the period is
    /// over.
    #[must_use]
    pub fn is_once(&self) -> bool {
        let holder = self.holder();
        holder.is_some() && self.said().any(|said| said.kind == Kind::Once && said.holder.as_deref() == holder)
    }

    /// Whether the name is held as the gate of a [semaphore](crate::Quorum::semaphore). The holder
    /// of the gate is the next caller to get permits. Each permit is a name of its own.
    #[must_use]
    pub fn is_gate(&self) -> bool {
        let holder = self.holder();
        holder.is_some() && self.said().any(|said| said.kind == Kind::Gate && said.holder.as_deref() == holder)
    }

    /// The latest note of the holder on any node: see [`describe`](crate::QuorumLock::describe).
    #[must_use]
    pub fn description(&self) -> Option<&Description> {
        let holder = self.holder()?;
        let theirs = self.said().filter(|said| said.holder.as_deref() == Some(holder));
        theirs.filter_map(|said| said.description.as_ref()).max_by_key(|told| (told.token, told.number))
    }

    /// Whether enough nodes have [revoked](crate::Quorum::revoke) the hold, so that no quorum
    /// renews it. A node without a report, or one that names no holder, may still renew the hold.
    #[must_use]
    pub fn revoked(&self) -> bool {
        self.said().filter(|said| said.is_revoked()).count() > self.nodes.len() - self.quorum
    }

    /// Whether the name is held: `true` if a quorum of nodes names one holder, `false` if a quorum
    /// of voting nodes reports the name free. `None` if votes are split, or if too few nodes
    /// answered or vote. A quarantined node may have forgotten a holder, so its report that the
    /// name is free does not count.
    #[must_use]
    pub fn agreed(&self) -> Option<bool> {
        let free = self.votes().filter(|said| said.holder.is_none()).count() >= self.quorum;
        if self.holder().is_some() { Some(true) } else { free.then_some(false) }
    }

    /// Whether the reports show who holds the name. This is so if a quorum of voting nodes has
    /// reported, or if a quorum names one holder that is not a reader. Otherwise the holder may be
    /// an owner that no report names.
    #[must_use]
    pub fn is_conclusive(&self) -> bool {
        // If the holder is a reader, other readers may hold the name too, and nodes that do not
        // vote may have forgotten these readers.
        self.votes().count() >= self.quorum || self.holder().is_some_and(|holder| !Operation::is_shared(holder))
    }

    /// The highest fence that any node reported. If a quorum of nodes has reported, and none of
    /// them forgot the name, no token granted before the inspection is higher.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.said().map(|said| said.fence).max().unwrap_or(0)
    }

    /// The reports of nodes that vote.
    fn votes(&self) -> impl Iterator<Item = &Inspection> {
        let voting = self.nodes.iter().enumerate().filter(|(node, _)| self.voting.contains(*node));
        voting.filter_map(|(_, (_, said))| said.as_ref().ok())
    }

    fn said(&self) -> impl Iterator<Item = &Inspection> {
        self.nodes.iter().filter_map(|(_, said)| said.as_ref().ok())
    }
}
