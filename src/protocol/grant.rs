//! The names that a quorum granted, and how they are renewed and released.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;

use super::listening::Listening;
use super::queue_entries::QueueEntries;
use super::release::{ReleaseRequest, ReleaseTargets, ReleaseTask};
use super::release_set::ReleaseSet;
use super::renew::Renewing;
use super::voters::Voters;
use crate::config::Rules;
use crate::host::sleep_until;
use crate::node::{Claim, Name, Note, Release};
use crate::rules::{NodeSet, Tick, Won};
use crate::spans::Spanned;
use crate::words::listed;

/// The names that an acquisition won, in one round or (for a set) part by part. Call
/// [`give_back`](Self::give_back) or [`leave`](Self::leave) before you drop a grant: dropping it
/// sends nothing.
#[derive(Debug)]
pub(crate) struct Grant {
    voters: Arc<Voters>,
    /// The claim, with the ballot that the next renewal carries.
    claim: Claim,
    won: Won,
    /// The ballot that won the names of this part. [`raise`](Self::raise) does not change this
    /// ballot.
    own: u64,
    line: Mutex<Option<Line>>,
    /// For a job that runs once in a period: the end of this period. Until then, nodes hold the
    /// names even if the lease ends.
    kept: Option<Tick>,
    /// Whether spans show the names.
    named: bool,
    /// The other parts, if a set was won part by part. They have one token, but different owners.
    others: Vec<Self>,
    /// All names of all parts, in the order of the parts.
    names: Arc<[Name]>,
}

/// What a grant keeps from the time when its owner waited: the places in this process's queues, and
/// the receiver of pushes. Drop this outside of all mutexes, because the drop wakes other callers.
#[derive(Debug)]
pub(crate) struct Line {
    pub(super) places: QueueEntries,
    /// Receives hand-overs that come after the lock was won.
    pub(super) listening: Option<Listening>,
}

/// A release that was sent. Drop this outside of all mutexes: the drop frees the places in this
/// process's queue, and so wakes other callers.
#[derive(Debug)]
pub(crate) struct Returned {
    pub(crate) freeing: ReleaseSet,
    _places: (Option<QueueEntries>, Vec<QueueEntries>),
}

impl Grant {
    pub(super) fn new(voters: &Arc<Voters>, claim: Claim, won: Won, line: Line, rules: &Rules) -> Self {
        let (voters, line, named) = (voters.clone(), Mutex::new(Some(line)), rules.trace_name);
        let (others, names) = (Vec::new(), claim.names.clone());
        let kept = rules.period.map(|period| won.t0 + period);
        Self { voters, claim, won, own: won.ballot, line, kept, named, others, names }
    }

    /// Writes the token into the span, and the names too if spans show names.
    fn describe(&self, span: &Spanned, names: &[Name]) {
        if span.is_on() {
            span.record("token", self.token());
            if self.named {
                span.record("name", listed(names));
            }
        }
    }

    pub(crate) const fn won(&self) -> &Won {
        &self.won
    }

    pub(crate) fn names(&self) -> &[Name] {
        &self.names
    }

    /// All parts, this one first.
    fn parts(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    /// The claims that a renewal renews, each with the ballot that won it.
    fn claims(&self) -> impl Iterator<Item = (&Claim, u64)> {
        self.parts().map(|part| (&part.claim, part.own))
    }

    /// How many operations one renewal sends: one for each name.
    pub(crate) fn weight(&self) -> usize {
        self.names().len()
    }

    /// The owner. For a set with several parts, this is the owner of the first part.
    pub(crate) fn owner(&self) -> &str {
        &self.claim.owner
    }

    /// The owner of one name.
    #[cfg(feature = "unstable")]
    pub(crate) fn owner_of(&self, name: &str) -> &str {
        self.parts()
            .find(|part| part.claim.names.iter().any(|of| &**of.text() == name))
            .map_or(self.owner(), |part| part.owner())
    }

    /// The fencing token.
    pub(crate) const fn token(&self) -> u64 {
        self.won.ballot
    }

    /// From now on, renewals carry `ballot`, which is at least the token.
    ///
    /// Releases and revocations still use the ballot that won the names. Until a quorum has the new
    /// ballot, this grant may expire unnoticed. Another owner may then get a token between the two
    /// ballots. A release of this grant must not end that owner's lock. A revocation with a ballot
    /// between the two must end this grant.
    pub(crate) fn raise(&mut self, ballot: u64) {
        self.claim.ballot = ballot;
        self.won.highest = self.won.highest.max(ballot);
    }

    /// Joins several parts to one grant. Call this after a quorum has extended each part with the
    /// token of `won`. `None` if there are no parts.
    pub(crate) fn united(mut parts: Vec<Self>, won: Won) -> Option<Self> {
        parts.iter_mut().for_each(|part| part.raise(won.ballot));
        let highest = parts.iter().map(|part| part.won.highest).max()?;
        let others = parts.split_off(1);
        let mut united = Self { won: Won { highest, ..won }, others, ..parts.pop()? };
        united.names = united.parts().flat_map(|part| part.claim.names.iter().cloned()).collect();
        Some(united)
    }

    /// Splits off the names for which `leave` is true. There must be at least one name to split
    /// off, and one that stays. Returns the grant of the names that were split off, then the grant
    /// of the others, both with the same token. After a split, renew and release each grant on its
    /// own.
    pub(crate) fn split(mut self, leave: impl Fn(&Name) -> bool) -> Option<(Self, Self)> {
        let won = self.won;
        if self.others.is_empty() {
            return Some(self.split_claim(leave));
        }
        let others = std::mem::take(&mut self.others);
        let (mut left, mut kept) = (Vec::new(), Vec::new());
        for part in std::iter::once(self).chain(others) {
            match part.claim.names.iter().filter(|name| leave(name)).count() {
                0 => kept.push(part),
                all if all == part.claim.names.len() => left.push(part),
                _ => {
                    let (leaving, staying) = part.split_claim(&leave);
                    left.push(leaving);
                    kept.push(staying);
                }
            }
        }
        Some((Self::united(left, won)?, Self::united(kept, won)?))
    }

    fn split_claim(mut self, leave: impl Fn(&Name) -> bool) -> (Self, Self) {
        let (left, kept): (Vec<_>, Vec<_>) = self.claim.names.iter().cloned().partition(leave);
        let texts: HashSet<&str> = left.iter().map(AsRef::as_ref).collect();
        let line = self.line.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut();
        let line = line.and_then(|line| line.split_off(|text| texts.contains(text)));
        let claim = Claim { names: left.into(), ..self.claim.clone() };
        let (others, names) = (Vec::new(), claim.names.clone());
        let (voters, line) = (self.voters.clone(), Mutex::new(line));
        let left = Self { voters, claim, line, others, names, ..self };
        self.claim.names = kept.into();
        self.names = self.claim.names.clone();
        (left, self)
    }

    /// Sends a renewal of each grant, with a guard count of 1, in as few calls as possible.
    pub(crate) fn renew_all<'a>(voters: &Arc<Voters>, grants: impl Iterator<Item = &'a Self>) -> Vec<Renewing> {
        let grants: Vec<_> = grants.collect();
        let renewals = Renewing::start_all(voters, grants.iter().map(|grant| (grant.claims(), grant.claim.ttl)));
        grants.iter().zip(&renewals).for_each(|(grant, renewing)| grant.describe(&renewing.span, grant.names()));
        renewals
    }

    /// Sends a renewal with the number of guards and the note. Nodes hold the names at least until
    /// `kept`.
    pub(crate) fn renew(&self, holds: u32, note: Option<Note>) -> Renewing {
        let ttl = self.claim.ttl.max(self.kept_for().unwrap_or_default());
        let renewing = Renewing::start(&self.voters, self.claims(), (holds, ttl), note);
        self.describe(&renewing.span, self.names());
        renewing
    }

    /// The time that is left of the period. Nodes hold the names for this time even if the lease
    /// ends. `None` if there is no period, or if the period is over.
    pub(crate) fn kept_for(&self) -> Option<Duration> {
        let left = self.kept?.since(self.voters.host.now());
        (!left.is_zero()).then_some(left)
    }

    /// Ends the grant without a release: nodes hold the names for `left` from now on.
    pub(crate) fn leave(&self, left: Duration) -> Option<Line> {
        // The last claim or renewal was for the ttl at least, so this renewal shortens the holds.
        if left < self.claim.ttl {
            Renewing::start(&self.voters, self.claims(), (1, left), None);
        }
        self.take_line()
    }

    /// Ends the grant without a release, and receives pushes until `until`: a push that comes late
    /// must not end the hold.
    pub(crate) fn hand_on(&self, until: Tick) {
        let Some(Line { places, listening }) = self.take_line() else { return };
        drop(places);
        let Some(listening) = listening else { return };
        let host = self.voters.host.clone();
        let rests = async move {
            sleep_until(&host, until).await;
            drop(listening);
        };
        self.voters.host.spawn(rests.boxed());
    }

    fn take_line(&self) -> Option<Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Sends a release to every node, and repeats it on nodes in `may_hold` until they confirm it.
    pub(crate) fn give_back(&self, may_hold: NodeSet) -> Returned {
        let targets = ReleaseTargets { ask: self.voters.everyone(), insist: may_hold, unheard: NodeSet::default() };
        // Send the release before the places are freed. Then the claim of the next caller in this
        // process follows the release on the same connections.
        match self.names.len() {
            1 => self.returned([ReleaseTask::start(&self.voters, self.release(self.names.clone()), targets)]),
            _ => self.returned(ReleaseTask::start_all(&self.voters, self.releases(may_hold))),
        }
    }

    /// Like [`give_back`](Self::give_back), for several grants, in as few calls as possible.
    pub(crate) fn give_back_all(voters: &Arc<Voters>, grants: &[(Self, NodeSet)]) -> Vec<Returned> {
        let releases = grants.iter().flat_map(|(grant, may_hold)| grant.releases(*may_hold));
        let mut tasks = ReleaseTask::start_all(voters, releases).into_iter();
        grants.iter().map(|(grant, _)| grant.returned(tasks.by_ref().take(grant.weight()))).collect()
    }

    /// One release for each name: a quorum must show for each name whether the name was held.
    fn releases(&self, may_hold: NodeSet) -> impl Iterator<Item = (ReleaseRequest, NodeSet)> {
        let of = |part: &Self, name: &Name| part.release([name.clone()].into());
        self.parts().flat_map(move |part| part.claim.names.iter().map(move |name| (of(part, name), may_hold)))
    }

    fn release(&self, names: Arc<[Name]>) -> ReleaseRequest {
        let Self { voters, claim, won, .. } = self;
        // The highest ballot of this owner's asks and pushes, so that the release covers all of
        // them.
        let ballot = won.highest;
        let next = voters.next_ballot(ballot);
        // A node that does not get the release may hold a name until the period ends.
        let ttl = claim.ttl.max(self.kept_for().unwrap_or_default());
        let release = Release { token: self.own, ballot, next, ttl, names, ..Release::of(claim) };
        let request = ReleaseRequest { lease: claim.ttl, held: true, ..ReleaseRequest::release(release) };
        self.describe(&request.span, request.operation.names());
        request
    }

    /// Collects the releases of all names, and the places that they free.
    fn returned(&self, tasks: impl IntoIterator<Item = Arc<ReleaseTask>>) -> Returned {
        let freeing: ReleaseSet = tasks.into_iter().collect();
        let mut tasks = freeing.all();
        let mut places = self.parts().map(|part| {
            let mut own = tasks.by_ref().take(part.claim.names.len());
            let (places, listening) = part.take_line().map(|line| (line.places, line.listening)).unzip();
            // Only an owner that claimed a single name has a receiver. So if there is a receiver,
            // its release is the only one of this part.
            let ended = own.next().zip(listening.flatten());
            ended.into_iter().for_each(|(task, listening)| task.ends(listening));
            own.for_each(drop);
            places
        });
        let places = (places.next().flatten(), places.flatten().collect());
        drop(tasks);
        Returned { freeing, _places: places }
    }
}

impl Line {
    /// Takes out the places of the names for which `leave` is true.
    fn split_off(&mut self, leave: impl Fn(&str) -> bool) -> Option<Self> {
        let places = self.places.split_off(leave)?;
        Some(Self { places, listening: None })
    }
}
