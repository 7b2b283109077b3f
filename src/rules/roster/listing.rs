//! Which nodes' votes count, and since when.

use std::sync::Arc;
use std::time::Duration;

use super::{FRESH, Server};
use crate::rules::node_set::NodeSet;
use crate::rules::tick::Tick;

/// Whether the votes of one server count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Standing {
    /// They always do: it has no roster, or this client only looks, and has asked for it.
    Exempt,
    /// It was not enrolled yet.
    #[default]
    Unknown,
    /// They would, but no quorum of nodes answers.
    Few,
    /// They do until then, unless it is enrolled again.
    Listed(Tick),
    /// Not before then: some server is so young that others may come again which have another list.
    Newcomer(Tick),
    /// Not before then, unless all nodes of the list are heard first: some may know of others which
    /// have another list.
    Waiting(Tick),
    /// They do not, because of this.
    Unlisted(Arc<str>),
}

impl Standing {
    /// Whether a vote counts that came at `now`.
    #[must_use]
    pub fn counts(&self, now: Tick) -> bool {
        match self {
            Self::Exempt => true,
            Self::Listed(until) => now < *until,
            Self::Unknown | Self::Few | Self::Newcomer(_) | Self::Waiting(_) | Self::Unlisted(_) => false,
        }
    }
}

/// A node whose votes count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seat {
    run: String,
    /// Since when it is listed as that run.
    since: Tick,
    until: Tick,
}

/// What was enrolled last: one set of servers at a time, so that votes which count together are
/// votes of servers that were enrolled together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Listing {
    seats: Vec<Option<Seat>>,
    /// The longest ttl that its entries outlast.
    longest: Duration,
}

impl Listing {
    /// The servers of `chosen` were taken by all that answered; those of `took` answered
    /// themselves. The enrolment began at `began`, for locks of up to `longest`.
    pub fn take(
        &mut self,
        servers: &[Option<Server>],
        (chosen, took): (NodeSet, NodeSet),
        began: Tick,
        longest: Duration,
    ) {
        let shrinks = self.has_all(servers, chosen, began);
        self.longest = longest;
        self.seats.resize(servers.len(), None);
        for (node, (seat, server)) in self.seats.iter_mut().zip(servers).enumerate() {
            let Some(Server { run, .. }) = server else {
                // Not connected: nodes still have it beside the others, but for nodes that are new.
                *seat = seat.take().filter(|_| shrinks);
                continue;
            };
            let same = seat.take().filter(|seat| chosen.contains(node) && seat.run == *run);
            let since = same.as_ref().map_or(began, |same| same.since);
            let again = took.contains(node).then(|| Seat { run: run.clone(), since, until: began + FRESH });
            // Where it did not answer, what it said before stands for as long as it did.
            *seat = again.or(same.filter(|_| shrinks));
        }
    }

    /// Only these may vote still: some node does not take the others.
    pub fn keep(&mut self, fit: NodeSet) {
        let gone = |(node, _): &(usize, _)| !fit.contains(*node);
        self.seats.iter_mut().enumerate().filter(gone).for_each(|(_, seat)| *seat = None);
    }

    /// Nothing of it counts any more.
    pub fn clear(&mut self) {
        self.seats.clear();
    }

    /// Whether every server of `chosen` counts at `now`, as the same run.
    #[must_use]
    pub fn has_all(&self, servers: &[Option<Server>], chosen: NodeSet, now: Tick) -> bool {
        let has = |node: usize| {
            let seat = self.seats.get(node)?.as_ref()?;
            Some(now < seat.until && seat.run == servers.get(node)?.as_ref()?.run)
        };
        chosen.iter().all(|node| has(node) == Some(true))
    }

    /// The nodes whose votes may decide at `now`: see [`Self::electorate`].
    #[must_use]
    pub fn voters(&self, exempt: NodeSet, ttl: Duration, now: Tick) -> NodeSet {
        let fits = ttl <= self.longest;
        let counts = |seat: &Seat| fits && now < seat.until;
        let listed = self.seats.iter().enumerate().filter(|(_, seat)| seat.as_ref().is_some_and(counts));
        listed.map(|(node, _)| node).collect::<NodeSet>().or(exempt)
    }

    /// Whose votes may decide at `now` about locks of that `ttl`, where those of `exempt` always
    /// do.
    #[must_use]
    pub fn electorate(&self, exempt: NodeSet, ttl: Duration, now: Tick) -> Electorate {
        let nodes = self.seats.len().max(exempt.iter().last().map_or(0, |node| node + 1));
        let since = |node: usize| {
            if exempt.contains(node) {
                return Some(Tick::default());
            }
            let seat = self.seats.get(node)?.as_ref()?;
            (now < seat.until && ttl <= self.longest).then_some(seat.since)
        };
        Electorate(Some((0..nodes).map(since).collect()))
    }
}

/// Whose votes may decide at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Electorate(Option<Vec<Option<Tick>>>);

impl Electorate {
    /// All nodes'.
    #[must_use]
    pub const fn everyone() -> Self {
        Self(None)
    }

    /// Whether a node's vote counts for what was sent at `t0`: what was sent before its server was
    /// listed may have been answered by another one.
    #[must_use]
    pub fn has(&self, node: usize, t0: Tick) -> bool {
        let Some(since) = &self.0 else { return true };
        since.get(node).copied().flatten().is_some_and(|since| since <= t0)
    }

    /// Those of `nodes` that have a vote.
    #[must_use]
    pub fn of(&self, nodes: NodeSet, t0: Tick) -> NodeSet {
        nodes.iter().filter(|&node| self.has(node, t0)).collect()
    }
}
