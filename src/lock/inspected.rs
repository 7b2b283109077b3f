//! What the nodes say of a name, and taking it away by force.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, NodeReport, Result};
use crate::host::before;
use crate::node::{Inspection, Name, Operation, Verb};
use crate::protocol::{Cleanup, Survey, Voters, Whom};
use crate::quorum::ballot::LIMIT;
use crate::quorum::tally::Freed;

/// What each node says of a name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspected {
    /// Each node, and what it says, or what kept it from saying anything.
    pub nodes: Vec<(Arc<str>, Result<Inspection, String>)>,
    quorum: usize,
}

impl Inspected {
    pub(super) fn new(voters: &Voters, survey: Survey) -> Self {
        let entry = |(node, said): (usize, Result<Inspection, crate::node::Fault>)| {
            (voters.nodes[node].label().clone(), said.map_err(|fault| fault.to_string()))
        };
        let nodes = survey.0.into_iter().enumerate().map(entry).collect();
        Self { nodes, quorum: voters.size.quorum() as usize }
    }

    /// Who holds the name on a quorum of nodes: the owner of a round, `host/pid/uuid/acquisition.round`.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        let holders = || self.said().filter_map(|said| said.holder.as_deref());
        holders().find(|holder| holders().filter(|other| other == holder).count() >= self.quorum)
    }

    /// Whether a quorum of nodes says the same: that one owner holds it, or that nobody does. `None` if votes are split or too few nodes answer.
    #[must_use]
    pub fn agreed(&self) -> Option<bool> {
        let free = self.said().filter(|said| said.holder.is_none()).count() >= self.quorum;
        if self.holder().is_some() { Some(true) } else { free.then_some(false) }
    }

    /// The highest fence on any node: every token dealt so far is at most this, where a quorum answers.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.said().map(|said| said.fence).max().unwrap_or(0)
    }

    fn said(&self) -> impl Iterator<Item = &Inspection> {
        self.nodes.iter().filter_map(|(_, said)| said.as_ref().ok())
    }
}

/// Releases `name` for whoever holds it, on every node, with a ballot above every fence: that much the fence is raised.
pub(super) async fn force(voters: &Arc<Voters>, name: &Name, patience: Duration) -> Result<bool> {
    let survey = Survey::of(voters, name, patience).await;
    let heard: Vec<_> = survey.0.iter().filter_map(|said| said.as_ref().ok()).collect();
    if heard.len() < voters.size.quorum() as usize {
        return Err(unavailable(voters, name, &survey));
    }
    heard.iter().for_each(|said| voters.seen(said.fence));
    let mut owners: Vec<_> = heard.iter().filter_map(|said| said.holder.as_deref()).collect();
    owners.sort_unstable();
    owners.dedup();
    let anybody = !owners.is_empty();
    // A name that is free has its fence raised all the same: a claim that is on its way may rest on an old ballot.
    if owners.is_empty() {
        owners.push("-");
    }
    let until = voters.host.now() + patience;
    let told = heard.iter().map(|said| said.fence).filter(|&fence| fence < LIMIT - 1).max().unwrap_or(0);
    let ballot = voters.ballot(told)?;
    for owner in owners {
        let release = Operation {
            verb: Verb::Release,
            owner: owner.into(),
            ttl: Duration::from_secs(60),
            ballot,
            ..Operation::inspect([name.clone()].into())
        };
        let cleanup = Cleanup::start(voters, release, Whom::all(voters.everyone()));
        match before(&voters.host, until, cleanup.freed()).await {
            Some(Freed::Held | Freed::Gone) => {}
            Some(Freed::Unknown) | None => return Err(unavailable(voters, name, &survey)),
        }
    }
    Ok(anybody)
}

fn unavailable(voters: &Voters, name: &Name, survey: &Survey) -> Error {
    let report = |(node, said): (usize, &Result<Inspection, crate::node::Fault>)| NodeReport {
        node: voters.nodes[node].label().clone(),
        said: said.as_ref().map_or_else(ToString::to_string, |_| "answered".to_owned()),
    };
    let message = format!("{name:?} was not released on a quorum of nodes");
    Error::new(ErrorKind::Unavailable, message).with_nodes(survey.0.iter().enumerate().map(report).collect())
}
