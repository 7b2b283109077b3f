//! Takes a name away from its holder.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::inspect::Survey;
use super::release::{ReleaseRequest, ReleaseTargets, ReleaseTask};
use super::revoke::{Revocation, revoke};
use super::voters::Voters;
use crate::error::{Error, ErrorKind, NodeCause, NodeReport, Result};
use crate::host::before;
use crate::node::{Fault, Inspection, Name, Operation, Release, Revoke};
use crate::rules::ballot::LIMIT;

/// The most inspections that look for holders after a revocation. One inspection may find too few:
/// a node names only one of its readers.
const TRIES: u32 = 1_000;

/// A withdrawal that a node does not confirm is repeated for at least this time.
const AGAIN: Duration = Duration::from_secs(60);

/// The result of `revoke` or `force_release`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taken {
    /// The owners that nodes named as holders with a ballot up to [`fence`](Self::fence), sorted.
    /// Some of them may never have had the lock, because too few nodes granted the name. Readers
    /// may be missing, because a node names only one of its readers. Empty if no node named such an
    /// owner.
    pub from: Vec<String>,
    /// For how long the name may still be held, by the nodes' clocks. Zero if the name was freed at
    /// once, and `None` if no node named a holder. Readers that came after the revocation count
    /// too, so the revoked readers may hold the name for a shorter time.
    pub left: Option<Duration>,
    /// Tokens granted before the call of `revoke` or `force_release` are below this, and tokens
    /// granted after the call are above. Tokens granted during the call may be below or above.
    pub fence: u64,
}

/// Takes a name away from its holder, and lets the hold end by itself.
pub(crate) async fn take_away(voters: &Arc<Voters>, name: &Name, patience: Duration) -> Result<Taken> {
    let taking = Taking::look(voters, name, patience).await?;
    let (taken, known) = taking.revoke().await?;
    known?;
    Ok(taken)
}

/// Frees a name on every node at once.
pub(crate) async fn free(voters: &Arc<Voters>, name: &Name, patience: Duration) -> Result<Taken> {
    let taking = Taking::look(voters, name, patience).await?;
    // Revoke first: then no revoked holder can renew, even if the nodes do not name all holders.
    let (Taken { from, mut left, fence }, known) = taking.revoke().await?;
    let mut freed = BTreeSet::new();
    for _ in 0..TRIES {
        let survey = Survey::of(voters, name, patience).await;
        // The survey also shows holders on nodes that the revocation has not reached.
        let revoked = survey.heard().filter(|said| said.ballot <= fence).filter_map(|said| said.holder.clone());
        // A withdrawal is repeated by itself until confirmed, so each owner needs only one.
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

/// Takes away all locks on a name with tokens up to `ballot`. `ballot` is above all bars that the
/// nodes returned. So it is above all tokens that were granted before the nodes were asked.
struct Taking<'a> {
    voters: &'a Arc<Voters>,
    name: &'a Name,
    ballot: u64,
    patience: Duration,
}

impl<'a> Taking<'a> {
    /// Asks the nodes for their bars (a node grants only above its bar), and picks a higher ballot.
    async fn look(voters: &'a Arc<Voters>, name: &'a Name, patience: Duration) -> Result<Self> {
        let survey = Survey::of(voters, name, patience).await;
        let mut taking = Self { voters, name, ballot: 0, patience };
        taking.is_told(&survey)?;
        survey.heard().for_each(|said| voters.seen(said.fence));
        let told = survey.heard().map(|said| said.fence).filter(|&fence| fence < LIMIT - 1).max().unwrap_or(0);
        taking.ballot = voters.ballot(told)?;
        Ok(taking)
    }

    /// Fails if fewer than a quorum of nodes have replied without an error.
    fn is_told(&self, survey: &Survey) -> Result<()> {
        if survey.heard().count() < self.voters.size.quorum() as usize {
            return Err(refused(self.name).with_nodes(reports(self.voters, survey)));
        }
        Ok(())
    }

    /// Revokes the locks, and lets each hold end by itself. The inner error means that there may be
    /// holders that no node named.
    async fn revoke(&self) -> Result<(Taken, Result<()>)> {
        let until = self.voters.host.now() + self.patience;
        let revocation = Revoke { names: [self.name.clone()].into(), ballot: self.ballot };
        let revocation = revoke(self.voters, revocation, until).await;
        let taken = revocation.map_err(|reports| refused(self.name).with_nodes(reports))?;
        let known = if taken.truthful { Ok(()) } else { Err(self.unknown(&taken)) };
        let Revocation { from, left, .. } = taken;
        Ok((Taken { from, left, fence: self.ballot }, known))
    }

    /// Withdraws these owners' holds, which may last for `left`. A hold with a ballot above the
    /// revocation's stays.
    async fn free(&self, owners: &BTreeSet<String>, left: Duration) -> Result<()> {
        let until = self.voters.host.now() + self.patience;
        let start = |owner: &String| {
            ReleaseTask::start(self.voters, self.withdrawal(owner, left), ReleaseTargets::all(self.voters.everyone()))
        };
        let tasks: Vec<_> = owners.iter().map(start).collect();
        for task in tasks {
            if before(&self.voters.host, until, task.confirmed()).await != Some(true) {
                return Err(unfreed(self.name));
            }
        }
        Ok(())
    }

    fn withdrawal(&self, owner: &str, left: Duration) -> ReleaseRequest {
        let (names, owner, ballot) = ([self.name.clone()].into(), owner.into(), self.ballot);
        // The ttl is at least `AGAIN`: a node that did not reply may hold the name for longer than
        // `left`.
        let (ttl, lease) = (left.max(AGAIN), AGAIN);
        let next = self.voters.next_ballot(ballot);
        let release = Release { names, owner, ttl, token: 0, ballot, next, place: None };
        ReleaseRequest { lease, ..ReleaseRequest::withdrawal(release) }
    }

    /// The error if too few voting nodes have revoked: other nodes may know another holder.
    fn unknown(&self, taken: &Revocation) -> Error {
        let done = all_of(&taken.from).map_or_else(
            || "the nodes name no holder".to_owned(),
            |owners| format!("the name was taken away from {owners}"),
        );
        let message = match self.voters.other_list() {
            // Put the text about the other list first: it says what to do.
            Some(other) => format!("{other}; until then nobody can tell who holds {:?}; {done}", self.name),
            None => {
                format!(
                    "nobody can tell who holds {:?}, since too few nodes with a vote have answered; {done}",
                    self.name
                )
            }
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

/// Whether this reply shows that no revoked owner holds the name on the node. This is so if the
/// name is free there, or if a writer holds it with a ballot above `fence`. A reader with a ballot
/// above `fence` shows nothing: the node names only one of its readers, preferably one that was not
/// revoked.
fn is_free(said: &Inspection, fence: u64) -> bool {
    said.holder.as_ref().is_none_or(|owner| said.ballot > fence && !Operation::is_shared(owner))
}

/// The owners joined in one text; `None` if there are none.
fn all_of(owners: &[String]) -> Option<String> {
    (!owners.is_empty()).then(|| owners.join(" and "))
}

fn unfreed(name: &Name) -> Error {
    let message = format!("{name:?} was revoked, but no quorum of nodes confirmed that it is free");
    Error::new(ErrorKind::Unavailable, message)
}

fn refused(name: &Name) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{name:?} was not taken away: no quorum of nodes confirmed it"))
}
