//! What a quorum granted: how it is renewed and counted, and how it is given back.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::freeing::Freeing;
use super::listening::Listening;
use super::places::Places;
use super::release::{Cleanup, Undoing, Whom};
use super::renew::Renewing;
use super::voters::Voters;
use crate::node::{Claim, Name, Note, Release};
use crate::rules::{NodeSet, Tick, Won};
use crate::spans::Spanned;
use crate::words::listed;

/// What was won: by one round, or a set that was gathered part by part. Whoever has it sees to it
/// that it is given back.
#[derive(Debug)]
pub(crate) struct Grant {
    voters: Arc<Voters>,
    /// With the ballot that its next renewal asks nodes to have it with.
    claim: Claim,
    won: Won,
    /// The ballot by which its names were won, whatever it is raised to.
    own: u64,
    line: Mutex<Option<Line>>,
    /// Until when nodes hold it, whatever becomes of its lease, unless it is given back.
    kept: Option<Tick>,
    /// Whether its spans have its names.
    named: bool,
    /// Of a set that was gathered, what was won beside this: each is of an owner of its own, and all
    /// have one token.
    others: Vec<Self>,
    /// All names, in their order.
    names: Arc<[Name]>,
}

/// What is kept of the lines that it waited in, for as long as it lasts.
#[derive(Debug)]
pub(super) struct Line {
    /// The places in the process's queue.
    pub(super) places: Places,
    /// The ear for what nodes hand over late.
    pub(super) listening: Option<Listening>,
}

/// A release that was sent. The places in the process's queue are free when this is dropped, which
/// wakes others: not under a lock.
#[derive(Debug)]
pub(crate) struct Returned {
    pub(crate) freeing: Freeing,
    _places: (Option<Places>, Vec<Places>),
}

/// The places in the process's queue of what was left to the nodes. As with what is returned.
#[derive(Debug)]
pub(crate) struct Left(#[allow(dead_code, reason = "it is there to be dropped")] Line);

impl Grant {
    pub(super) fn new(voters: &Arc<Voters>, claim: Claim, won: Won, line: Line, kept: Option<Tick>) -> Self {
        let (voters, line, named) = (voters.clone(), Mutex::new(Some(line)), false);
        let (others, names) = (Vec::new(), claim.names.clone());
        Self { voters, claim, won, own: won.ballot, line, kept, named, others, names }
    }

    /// The same with its names in its spans, or without.
    pub(super) fn named(self, named: bool) -> Self {
        Self { named, ..self }
    }

    /// Sets whose span it is.
    fn describe(&self, span: &Spanned) {
        if span.is_on() {
            span.record("token", self.token());
            if self.named {
                span.record("name", listed(self.names()));
            }
        }
    }

    /// How it was won.
    pub(crate) const fn won(&self) -> &Won {
        &self.won
    }

    pub(crate) fn names(&self) -> &[Name] {
        &self.names
    }

    /// This and the others that it has.
    fn parts(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    /// What a renewal of it renews: the claims, and the ballots by which each was won.
    fn claims(&self) -> impl Iterator<Item = (&Claim, u64)> {
        self.parts().map(|part| (&part.claim, part.own))
    }

    /// How many operations a renewal of it is: one for each name.
    pub(crate) fn weight(&self) -> usize {
        self.names().len()
    }

    /// Whose it is, or of a set that was gathered its first name.
    pub(crate) fn owner(&self) -> &str {
        &self.claim.owner
    }

    /// Whose one of its names is.
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

    /// From its next renewal on, nodes have it with this ballot, which is as high as its token, or
    /// higher.
    ///
    /// Locks are over by the ballot that they were won by, and never by this one. No node may have
    /// heard of this one, so another lock may have come since, by a token in between: a release of
    /// this must not end that. And a revocation in between must end this.
    pub(crate) fn raise(&mut self, ballot: u64) {
        self.claim.ballot = ballot;
        self.won.highest = self.won.highest.max(ballot);
    }

    /// One of several that a quorum has extended with one token, each, and that were `won` by that.
    /// `None` of none.
    pub(crate) fn united(mut parts: Vec<Self>, won: Won) -> Option<Self> {
        parts.iter_mut().for_each(|part| part.raise(won.ballot));
        let highest = parts.iter().map(|part| part.won.highest).max()?;
        let others = parts.split_off(1);
        let mut united = Self { won: Won { highest, ..won }, others, ..parts.pop()? };
        united.names = united.parts().flat_map(|part| part.claim.names.iter().cloned()).collect();
        Some(united)
    }

    /// Takes it apart: the names that `leave`, of which there is one at least, and the others, of
    /// which there is one too. Both have the same token; each is given back by itself.
    ///
    /// What asks for all names is not sent from then on.
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

    /// Sends a renewal of each, held once, in as few calls as they fit into.
    pub(crate) fn renew_all<'a>(voters: &Arc<Voters>, grants: impl Iterator<Item = &'a Self>) -> Vec<Renewing> {
        let grants: Vec<_> = grants.collect();
        let renewals = Renewing::start_all(voters, grants.iter().map(|grant| (grant.claims(), grant.claim.ttl)));
        grants.iter().zip(&renewals).for_each(|(grant, renewing)| grant.describe(&renewing.span));
        renewals
    }

    /// Sends a renewal, with the hold count and what the holder says of itself. It ends no earlier
    /// than what it is kept for.
    pub(crate) fn renew(&self, holds: u32, note: Option<Note>) -> Renewing {
        let ttl = self.claim.ttl.max(self.kept_for().unwrap_or_default());
        let renewing = Renewing::start(&self.voters, self.claims(), (holds, ttl), note);
        self.describe(&renewing.span);
        renewing
    }

    /// For how long nodes hold it from now on, whatever becomes of its lease; `None` where it is not
    /// kept, or not any more.
    pub(crate) fn kept_for(&self) -> Option<Duration> {
        let left = self.kept?.since(self.voters.host.now());
        (!left.is_zero()).then_some(left)
    }

    /// Leaves it to the nodes, which hold it for so long from now on.
    pub(crate) fn leave(&self, left: Duration) -> Option<Left> {
        // Its last renewals may last longer.
        if left < self.claim.ttl {
            Renewing::start(&self.voters, self.claims(), (1, left), None);
        }
        self.take_line().map(Left)
    }

    fn take_line(&self) -> Option<Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Releases it on every node, and insists where it may be held.
    pub(crate) fn give_back(&self, may_hold: NodeSet) -> Returned {
        let whom = Whom { ask: self.voters.everyone(), insist: may_hold, unheard: NodeSet::default() };
        // Sent before the places are given up: the next in this process asks behind this release, on
        // the same connections.
        match self.others.is_empty() {
            true => self.returned([Cleanup::start(&self.voters, self.release(), whom)]),
            false => self.returned(Cleanup::start_all(&self.voters, self.releases(may_hold))),
        }
    }

    /// The same for several, in as few calls as they fit into.
    pub(crate) fn give_back_all(voters: &Arc<Voters>, grants: &[(Self, NodeSet)]) -> Vec<Returned> {
        let releases = grants.iter().flat_map(|(grant, may_hold)| grant.releases(*may_hold));
        let mut cleanups = Cleanup::start_all(voters, releases).into_iter();
        grants.iter().map(|(grant, _)| grant.returned(cleanups.by_ref().take(1 + grant.others.len()))).collect()
    }

    fn releases(&self, may_hold: NodeSet) -> impl Iterator<Item = (Undoing, NodeSet)> {
        self.parts().map(move |part| (part.release(), may_hold))
    }

    fn release(&self) -> Undoing {
        let Self { voters, claim, won, .. } = self;
        // The highest ballot that its owner asked with hides all of them.
        let ballot = won.highest;
        let next = voters.next_ballot(ballot);
        // What it does not reach is held for longer than a ttl where it is kept.
        let ttl = claim.ttl.max(self.kept_for().unwrap_or_default());
        let release = Release { token: self.own, ballot, next, ttl, ..Release::of(claim) };
        let undoing = Undoing { lease: claim.ttl, held: true, ..release.into() };
        self.describe(&undoing.span);
        undoing
    }

    /// The releases of its parts were sent.
    fn returned(&self, cleanups: impl IntoIterator<Item = Arc<Cleanup>>) -> Returned {
        let freeing: Freeing = cleanups.into_iter().collect();
        let mut places = self.parts().zip(freeing.all()).map(|(part, cleanup)| {
            let (places, listening) = part.take_line().map(|line| (line.places, line.listening)).unzip();
            listening.flatten().into_iter().for_each(|listening| cleanup.ends(listening));
            places
        });
        let places = (places.next().flatten(), places.flatten().collect());
        Returned { freeing, _places: places }
    }
}

impl Line {
    /// The places in those lines that `leave`. The others stay.
    fn split_off(&mut self, leave: impl Fn(&str) -> bool) -> Option<Self> {
        let places = self.places.split_off(leave)?;
        Some(Self { places, listening: None })
    }
}
