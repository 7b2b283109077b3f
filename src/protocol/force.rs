//! Taking a name away from whoever holds it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;

use super::inspect::{Survey, kept_out};
use super::inspected::Inspected;
use super::release::{Cleanup, Whom};
use super::revoke::{Revocation, revoke};
use super::voters::Voters;
use crate::error::{Error, ErrorKind, NodeCause, NodeReport, Result};
use crate::host::before;
use crate::node::{Fault, Inspection, Name, Operation, Release, Revoke, Stance};
use crate::rules::NodeSet;
use crate::rules::ballot::LIMIT;
use crate::rules::tally::Freed;

/// The owner of a revocation where no node names one: the fence is raised all the same.
const NOBODY: &str = "-";
/// How often a name is asked for that passes from one to the next meanwhile.
const TRIES: u32 = 20;
/// How often readers are freed that were revoked: a node names one at a time. What is left ends by
/// itself.
const READERS: u32 = 1_000;

/// What was taken away, and from whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Taken {
    /// From whom: the owners of the rounds that nodes granted the name, in their order; of
    /// [`force_release`](crate::Quorum::force_release) whomever nodes named. One that was granted
    /// it by too few nodes, and never held it, may be among them. Empty if no node named one.
    pub from: Vec<String>,
    /// For how long it may be held still, by the nodes' clocks; zero where it was freed at once,
    /// and `None` if nobody held it.
    pub left: Option<Duration>,
    /// Tokens that were dealt before it was asked for are below this, and those that are dealt
    /// from now on are above. What was dealt in between may be either.
    pub fence: u64,
}

/// Takes a name away from whoever holds it, and lets the hold end by itself.
pub(crate) async fn take_away(voters: &Arc<Voters>, name: &Name, patience: Duration) -> Result<Taken> {
    let (mut longest, mut from) = (None, BTreeSet::new());
    // Where nothing was enrolled yet, or too long ago, what nodes confirm would not count.
    let _ = before(&voters.host, voters.host.now() + patience, voters.enrolled(Duration::ZERO)).await;
    for _ in 0..TRIES {
        let taking = Taking::look(voters, name, patience).await?;
        let (taken, losers) = taking.revoke().await?;
        longest = longest.max(taken.left);
        if !taken.counts {
            return Err(uncounted(voters, name, &losers).with_nodes(taken.reports));
        }
        from.extend(losers);
        if !taken.alone && taken.unheard {
            return Err(unheard(name, &from).with_nodes(taken.reports));
        }
        // Of those that are named and hold it no more, the next one may have it. Where the node
        // that named them does not say whether they do, it will name them again: then a quorum that
        // knows of nobody is enough.
        let free = taken.silent && taken.nobody;
        let passed_on = taken.left.is_none() && !taking.owners.is_empty() && !free;
        let known = || !passed_on && taken.others.iter().all(|other| taking.owners.contains(other));
        if taken.alone || known() {
            let all = Taken { from: from.into_iter().collect(), left: longest, fence: taking.ballot };
            return taking.complete(taken, &all.from).map(|()| all);
        }
    }
    let left = longest.map_or_else(String::new, |left| format!(", for {left:?} at most"));
    Err(changed_hands(name, &from, &left))
}

/// Frees a name on every node at once.
pub(crate) async fn free(voters: &Arc<Voters>, name: &Name, patience: Duration) -> Result<Taken> {
    let mut taking = Taking::look(voters, name, patience).await?;
    let known = taking.conclusive(&taking.owners);
    let mut from = BTreeSet::new();
    for _ in 0..TRIES {
        if taking.owners.iter().any(|owner| Operation::is_shared(owner)) {
            return free_readers(voters, name, patience, from).await;
        }
        taking.free().await?;
        from.extend(taking.owners.iter().cloned());
        let after = Taking::look(voters, name, patience).await?;
        if !after.somebody_came_before(&taking) {
            let (left, from) = ((!from.is_empty()).then_some(Duration::ZERO), Vec::from_iter(from));
            taking.conclusive(&from).and(known)?;
            return Ok(Taken { from, left, fence: taking.ballot });
        }
        taking = after;
    }
    Err(changed_hands(name, &from, ""))
}

/// Frees a name that readers hold. They are revoked first: so none that came before goes on, of
/// however many.
async fn free_readers(
    voters: &Arc<Voters>,
    name: &Name,
    patience: Duration,
    mut from: BTreeSet<String>,
) -> Result<Taken> {
    let end = voters.host.now() + patience;
    let Taken { from: revoked, mut left, fence } = take_away(voters, name, patience).await?;
    from.extend(revoked);
    for _ in 0..READERS {
        let mut taking = Taking::look(voters, name, patience).await?;
        if taking.owners.is_empty() {
            left = left.map(|_| Duration::ZERO);
        }
        taking
            .owners
            .retain(|owner| taking.survey.heard().any(|said| said.revoked && said.holder.as_ref() == Some(owner)));
        if taking.owners.is_empty() || voters.host.now() >= end {
            break;
        }
        taking.free().await?;
        from.extend(taking.owners);
    }
    Ok(Taken { from: Vec::from_iter(from), left, fence })
}

/// Who is to lose a name, and a ballot above all that the nodes know, so above all tokens that were
/// dealt before they were asked.
struct Taking<'a> {
    voters: &'a Arc<Voters>,
    name: &'a Name,
    survey: Survey,
    owners: Vec<String>,
    ballot: u64,
    patience: Duration,
}

impl<'a> Taking<'a> {
    /// Asks the nodes who holds it.
    async fn look(voters: &'a Arc<Voters>, name: &'a Name, patience: Duration) -> Result<Self> {
        let survey = Survey::of(voters, name, patience).await;
        let heard = || survey.heard();
        if heard().count() < voters.size.quorum() as usize {
            return Err(unavailable(voters, name, &survey));
        }
        heard().for_each(|said| voters.seen(said.fence));
        let told = heard().map(|said| said.fence).filter(|&fence| fence < LIMIT - 1).max().unwrap_or(0);
        let (owners, ballot) = (owners(heard()), voters.ballot(told)?);
        Ok(Self { voters, name, survey, owners, ballot, patience })
    }

    /// Whether somebody holds it who was not named when `other` looked, by a ballot that is lower
    /// than its. (It is not seen where someone else's release has raised the fence. Whom a release
    /// lets in is left alone.)
    fn somebody_came_before(&self, other: &Self) -> bool {
        let mut old =
            self.survey.heard().filter(|said| said.fence <= other.ballot).filter_map(|said| said.holder.as_ref());
        old.any(|holder| !other.owners.contains(holder))
    }

    async fn free(&self) -> Result<()> {
        let until = self.voters.host.now() + self.patience;
        for owner in self.targets() {
            let cleanup = Cleanup::start(self.voters, self.release(owner), Whom::all(self.voters.everyone()));
            match before(&self.voters.host, until, cleanup.freed()).await {
                Some(Freed::Held | Freed::Gone) => {}
                Some(Freed::Unknown) | None => return Err(self.unavailable()),
            }
        }
        Ok(())
    }

    /// It was taken away `from` whom nodes named, and whoever else held it would have been.
    fn complete(&self, taken: Revocation, from: &[String]) -> Result<()> {
        if taken.alone {
            return Ok(());
        }
        self.conclusive(from)?;
        if taken.truthful || taken.held {
            return Ok(());
        }
        Err(self.unknown("too few of the nodes that vote have answered", from).with_nodes(taken.reports))
    }

    /// It was taken away `from` whom nodes named. Where too few vote, nobody can tell whether those
    /// are all.
    fn conclusive(&self, from: &[String]) -> Result<()> {
        if Inspected::new(self.voters, &self.survey.still(self.voters)).is_conclusive() {
            return Ok(());
        }
        let why = kept_out(self.voters).map_or_else(String::new, |why| format!(": {why}"));
        Err(self.unknown(&format!("no quorum of nodes votes{why}"), from).with_nodes(self.states()))
    }

    fn unknown(&self, why: &str, from: &[String]) -> Error {
        let done = all_of(from).map_or("the nodes name no holder".to_owned(), |owners| taken_from(&owners));
        let message = format!("nobody can tell who holds {:?}, since {why}; {done}", self.name);
        Error::new(ErrorKind::Unavailable, message)
    }

    fn states(&self) -> Vec<NodeReport> {
        self.voters.nodes.iter().map(|node| NodeReport::of_status(&node.status())).collect()
    }

    /// Lets each hold end by itself. For how long it may last still, and who else holds it; and from
    /// whom it was taken.
    async fn revoke(&self) -> Result<(Revocation, Vec<String>)> {
        let until = self.voters.host.now() + self.patience;
        let asked = self.targets().map(|owner| async move {
            let revocation = self.revocation(owner);
            (owner, revoke(self.voters, revocation, self.naming(owner), until).await)
        });
        let (mut all, mut losers) = (Vec::new(), Vec::new());
        for (owner, taken) in join_all(asked).await {
            let taken = taken.map_err(|reports| refused(self.name).with_nodes(reports))?;
            losers.extend(taken.left.map(|_| owner.to_owned()));
            all.push(taken);
        }
        // Where nodes name nobody, that is asked for too.
        Ok((all.into_iter().reduce(Revocation::and).unwrap_or_default(), losers))
    }

    /// A name that is free has its fence raised all the same: a claim that is on its way may rest
    /// on an old ballot.
    fn targets(&self) -> impl Iterator<Item = &str> {
        let nobody = self.owners.is_empty().then_some(NOBODY);
        self.owners.iter().map(String::as_str).chain(nobody)
    }

    /// The nodes that name `owner`.
    fn naming(&self, owner: &str) -> NodeSet {
        let names =
            |said: &Result<Inspection, Fault>| said.as_ref().is_ok_and(|it| it.holder.as_deref() == Some(owner));
        let said = self.survey.said.iter().enumerate();
        said.filter(|(_, said)| names(said)).map(|(node, _)| node).collect()
    }

    fn release(&self, owner: &str) -> Release {
        let names = [self.name.clone()].into();
        // Tried again for that long.
        let ttl = Duration::from_secs(60);
        let (stance, grace) = (Stance::Once, self.voters.grace());
        Release { names, owner: owner.into(), ttl, ballot: self.ballot, stance, grace, next: 0 }
    }

    fn revocation(&self, owner: &str) -> Revoke {
        Revoke { names: [self.name.clone()].into(), owner: owner.into(), ballot: self.ballot }
    }

    fn unavailable(&self) -> Error {
        unavailable(self.voters, self.name, &self.survey)
    }
}

fn owners<'a>(heard: impl Iterator<Item = &'a Inspection>) -> Vec<String> {
    let mut owners: Vec<_> = heard.filter_map(|said| said.holder.clone()).collect();
    owners.sort_unstable();
    owners.dedup();
    owners
}

fn unavailable(voters: &Voters, name: &Name, survey: &Survey) -> Error {
    let report = |(node, said): (usize, &Result<Inspection, Fault>)| {
        let node = voters.nodes[node].label();
        match said {
            Ok(_) => NodeReport::new(node, NodeCause::Agreed, "answered"),
            Err(fault) => NodeReport::of_fault(node, fault),
        }
    };
    refused(name).with_nodes(survey.said.iter().enumerate().map(report).collect())
}

/// Some people's names in a sentence; nothing where there are none.
fn all_of<'a>(owners: impl IntoIterator<Item = &'a String>) -> Option<String> {
    let owners: Vec<_> = owners.into_iter().map(String::as_str).collect();
    (!owners.is_empty()).then(|| owners.join(" and "))
}

fn taken_from(owners: &str) -> String {
    format!("it was taken away from {owners}")
}

fn changed_hands(name: &Name, from: &BTreeSet<String>, left: &str) -> Error {
    let done = all_of(from).map_or_else(String::new, |owners| format!("; {}{left}", taken_from(&owners)));
    let message = format!("{name:?} changed hands each of the {TRIES} times that it was asked for{done}; ask again");
    Error::new(ErrorKind::Unavailable, message)
}

/// Some nodes took it away from these, and others of their clients' nodes may renew it.
fn uncounted(voters: &Voters, name: &Name, from: &[String]) -> Error {
    let why = kept_out(voters).map_or_else(String::new, |why| format!(": {why}"));
    let who = all_of(from).map_or_else(String::new, |owners| format!("; {owners} may go on"));
    let message = format!("{name:?} was not taken away on a quorum of nodes whose votes clients count{why}{who}");
    Error::new(ErrorKind::Unavailable, message)
}

/// Who was named may hold it still, where only those nodes know of it that do not answer.
fn unheard(name: &Name, from: &BTreeSet<String>) -> Error {
    let done = all_of(from).map_or_else(String::new, |owners| format!("; {}", taken_from(&owners)));
    let message = format!("a node that named a holder of {name:?} did not confirm that it was taken away{done}");
    Error::new(ErrorKind::Unavailable, message)
}

fn refused(name: &Name) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{name:?} was not taken away on a quorum of nodes"))
}
