//! Taking a name away from whoever holds it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::inspect::Survey;
use super::release::{Cleanup, Undoing, Whom};
use super::revoke::{Revocation, revoke};
use super::voters::Voters;
use crate::error::{Error, ErrorKind, NodeCause, NodeReport, Result};
use crate::host::before;
use crate::node::{Fault, Inspection, Name, Operation, Revoke, Withdraw};
use crate::rules::ballot::LIMIT;

/// How often a name is freed whose holders were revoked: of readers, a node names one at a time.
const TRIES: u32 = 1_000;

/// For how long a node that does not confirm it is asked again at least, and as often as for a lease.
const AGAIN: Duration = Duration::from_secs(60);

/// What was taken away, and from whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taken {
    /// From whom: the owners that nodes named, in their order. One that was granted it by too few
    /// nodes, and never held it, may be among them. Of readers each node names one. Empty if no node
    /// named any.
    pub from: Vec<String>,
    /// For how long it may be held still, by the nodes' clocks; zero where it was freed at once,
    /// and `None` if nobody held it. Of readers that a node no longer names, since others came
    /// meanwhile, it may be longer than they are held.
    pub left: Option<Duration>,
    /// Tokens that were dealt before it was asked for are below this, and those that are dealt
    /// from now on are above. What was dealt in between may be either.
    pub fence: u64,
}

/// Takes a name away from whoever holds it, and lets the hold end by itself.
pub(crate) async fn take_away(voters: &Arc<Voters>, name: &Name, patience: Duration) -> Result<Taken> {
    let taking = Taking::look(voters, name, patience).await?;
    let (taken, known) = taking.revoke().await?;
    known?;
    Ok(taken)
}

/// Frees a name on every node at once.
pub(crate) async fn free(voters: &Arc<Voters>, name: &Name, patience: Duration) -> Result<Taken> {
    let taking = Taking::look(voters, name, patience).await?;
    // First: so none that came before goes on, of however many.
    let (Taken { from, mut left, fence }, known) = taking.revoke().await?;
    let mut freed = BTreeSet::new();
    for _ in 0..TRIES {
        let survey = Survey::of(voters, name, patience).await;
        // Also at a node that the revocation has not reached.
        let revoked = survey.heard().filter(|said| said.ballot <= fence).filter_map(|said| said.holder.clone());
        // A node that does not confirm it is asked again by itself.
        let revoked: BTreeSet<_> = revoked.filter(|owner| !freed.contains(owner)).collect();
        if revoked.is_empty() {
            taking.is_told(&survey)?;
            let free = survey.heard().filter(|said| is_free(said, fence)).count();
            if free >= voters.size.quorum() as usize {
                left = left.map(|_| Duration::ZERO);
            }
            break;
        }
        taking.free(&revoked, left.unwrap_or_default()).await?;
        left.get_or_insert_default();
        freed.extend(revoked);
    }
    known?;
    let from = BTreeSet::from_iter(from.into_iter().chain(freed));
    Ok(Taken { from: Vec::from_iter(from), left, fence })
}

/// Whoever holds a name is to lose it, with a token up to a ballot above all that the nodes know, so
/// above all tokens that were dealt before they were asked.
struct Taking<'a> {
    voters: &'a Arc<Voters>,
    name: &'a Name,
    ballot: u64,
    patience: Duration,
}

impl<'a> Taking<'a> {
    /// Asks the nodes for their bars.
    async fn look(voters: &'a Arc<Voters>, name: &'a Name, patience: Duration) -> Result<Self> {
        let survey = Survey::of(voters, name, patience).await;
        let mut taking = Self { voters, name, ballot: 0, patience };
        taking.is_told(&survey)?;
        survey.heard().for_each(|said| voters.seen(said.fence));
        let told = survey.heard().map(|said| said.fence).filter(|&fence| fence < LIMIT - 1).max().unwrap_or(0);
        taking.ballot = voters.ballot(told)?;
        Ok(taking)
    }

    /// An error if less than a quorum of nodes has answered.
    fn is_told(&self, survey: &Survey) -> Result<()> {
        if survey.heard().count() < self.voters.size.quorum() as usize {
            return Err(refused(self.name).with_nodes(reports(self.voters, survey)));
        }
        Ok(())
    }

    /// Lets each hold end by itself. What was taken away; and an error where nobody can tell whether
    /// that is all.
    async fn revoke(&self) -> Result<(Taken, Result<()>)> {
        let until = self.voters.host.now() + self.patience;
        let revocation = Revoke { names: [self.name.clone()].into(), ballot: self.ballot };
        let revocation = revoke(self.voters, revocation, until).await;
        let taken = revocation.map_err(|reports| refused(self.name).with_nodes(reports))?;
        let known = if taken.truthful { Ok(()) } else { Err(self.unknown(&taken)) };
        let Revocation { from, left, .. } = taken;
        Ok((Taken { from, left, fence: self.ballot }, known))
    }

    /// Takes back from these owners what they may hold for so long. They may go on: what they are
    /// granted with higher ballots stays theirs.
    async fn free(&self, owners: &BTreeSet<String>, left: Duration) -> Result<()> {
        let until = self.voters.host.now() + self.patience;
        let start = |owner: &String| {
            Cleanup::start(self.voters, self.withdrawal(owner, left), Whom::all(self.voters.everyone()))
        };
        let cleanups: Vec<_> = owners.iter().map(start).collect();
        for cleanup in cleanups {
            if before(&self.voters.host, until, cleanup.confirmed()).await != Some(true) {
                return Err(refused(self.name));
            }
        }
        Ok(())
    }

    fn withdrawal(&self, owner: &str, left: Duration) -> Undoing {
        let (names, owner, ballot) = ([self.name.clone()].into(), owner.into(), self.ballot);
        // Tried again for that long: a node that told nothing may hold it for longer.
        let (ttl, lease) = (left.max(AGAIN), AGAIN);
        let next = self.voters.next_ballot(ballot);
        Undoing { lease, ..Withdraw { names, owner, ttl, ballot, next }.into() }
    }

    /// Too few of those that have done it vote: others may know of another holder.
    fn unknown(&self, taken: &Revocation) -> Error {
        let done = all_of(&taken.from)
            .map_or_else(|| "the nodes name no holder".to_owned(), |owners| format!("it was taken away from {owners}"));
        let message = match self.voters.other_list() {
            // First: it says what to do.
            Some(other) => format!("{other}; until then nobody can tell who holds {:?}; {done}", self.name),
            None => format!(
                "nobody can tell who holds {:?}, since too few of the nodes that vote have answered; {done}",
                self.name
            ),
        };
        Error::new(ErrorKind::Unavailable, message).with_nodes(taken.reports.clone())
    }
}

fn reports(voters: &Voters, survey: &Survey) -> Vec<NodeReport> {
    let report = |(node, said): (usize, &Result<Inspection, Fault>)| {
        let node = voters.nodes[node].label();
        match said {
            Ok(_) => NodeReport::new(node, NodeCause::Agreed, "answered"),
            Err(fault) => NodeReport::of_fault(node, fault),
        }
    };
    survey.said.iter().enumerate().map(report).collect()
}

/// Whether a node names nobody who holds it with a ballot up to this one. It names one reader, and rather one that
/// was not revoked: that may hide others.
fn is_free(said: &Inspection, fence: u64) -> bool {
    said.holder.as_ref().is_none_or(|owner| said.ballot > fence && !Operation::is_shared(owner))
}

/// Some owners in a sentence; nothing where there are none.
fn all_of(owners: &[String]) -> Option<String> {
    (!owners.is_empty()).then(|| owners.join(" and "))
}

fn refused(name: &Name) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{name:?} was not taken away on a quorum of nodes"))
}
