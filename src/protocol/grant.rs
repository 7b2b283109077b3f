//! What a quorum granted: how it is renewed and counted, and how it is given back.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::listening::Listening;
use super::places::Places;
use super::release::{Cleanup, Undoing, Whom};
use super::renew::Renewing;
use super::voters::Voters;
use crate::node::{Claim, Name, Note, Release, Seat};
use crate::rules::{NodeSet, Tick, Won};
use crate::spans::Spanned;
use crate::words::listed;

/// A round that was won. Whoever has it sees to it that it is given back.
#[derive(Debug)]
pub(crate) struct Grant {
    voters: Arc<Voters>,
    claim: Claim,
    won: Won,
    line: Mutex<Option<Line>>,
    /// Until when nodes hold it, whatever becomes of its lease, unless it is given back.
    kept: Option<Tick>,
    /// Whether its spans have its names.
    named: bool,
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
    pub(crate) cleanup: Arc<Cleanup>,
    _places: Option<Places>,
}

/// The places in the process's queue of what was left to the nodes. As with what is returned.
#[derive(Debug)]
pub(crate) struct Left(#[allow(dead_code, reason = "it is there to be dropped")] Line);

impl Grant {
    pub(super) fn new(voters: &Arc<Voters>, claim: Claim, won: Won, line: Line, kept: Option<Tick>) -> Self {
        Self { voters: voters.clone(), claim, won, line: Mutex::new(Some(line)), kept, named: false }
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

    /// How the round was won.
    pub(crate) const fn won(&self) -> &Won {
        &self.won
    }

    pub(crate) fn names(&self) -> &[Name] {
        &self.claim.names
    }

    /// How much of a call an operation on it takes, in operations on a name: calls are full with 128
    /// operations, or with 256 names.
    pub(crate) fn weight(&self) -> usize {
        self.names().len().div_ceil(2)
    }

    /// Whose it is.
    pub(crate) fn owner(&self) -> &str {
        &self.claim.owner
    }

    /// The fencing token.
    pub(crate) const fn token(&self) -> u64 {
        self.won.ballot
    }

    /// Takes those names out of it that `leave`, of which there is one at least, and of the others
    /// too. Both are of the same owner and have the same token; each is given back by itself.
    ///
    /// What asks for all names is not sent from then on.
    pub(crate) fn split_off(&mut self, leave: impl Fn(&Name) -> bool) -> Self {
        let (left, kept): (Vec<_>, Vec<_>) = self.claim.names.iter().cloned().partition(leave);
        let texts: HashSet<&str> = left.iter().map(AsRef::as_ref).collect();
        let line = self.line.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut();
        let line = line.and_then(|line| line.split_off(|text| texts.contains(text)));
        let claim = Claim { count: self.seat_of(&left), names: left.into(), ..self.claim.clone() };
        (self.claim.count, self.claim.names) = (self.seat_of(&kept), kept.into());
        let (voters, won, kept, named) = (self.voters.clone(), self.won, self.kept, self.named);
        Self { voters, claim, won, line: Mutex::new(line), kept, named }
    }

    /// What is told of a part in place of its hold count: one of a semaphore's gate and permits has
    /// the gate, or it has not.
    fn seat_of(&self, part: &[Name]) -> u32 {
        let seat = Seat::of(self.claim.count).filter(|_| part.first() != self.claim.names.first());
        seat.map_or(self.claim.count, |seat| seat.without_gate().count())
    }

    /// Sends a renewal of each, held once, in as few calls as they fit into.
    pub(crate) fn renew_all<'a>(voters: &Arc<Voters>, grants: impl Iterator<Item = &'a Self>) -> Vec<Renewing> {
        let grants: Vec<_> = grants.collect();
        let renewals = Renewing::start_all(voters, grants.iter().map(|grant| &grant.claim));
        grants.iter().zip(&renewals).for_each(|(grant, renewing)| grant.describe(&renewing.span));
        renewals
    }

    /// Sends a renewal, with the hold count and what the holder says of itself. It ends no earlier
    /// than what it is kept for.
    pub(crate) fn renew(&self, holds: u32, note: Option<Note>) -> Renewing {
        let ttl = self.claim.ttl.max(self.kept_for().unwrap_or_default());
        let renewing = Renewing::start(&self.voters, &self.claim, holds, ttl, note);
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
            Renewing::start(&self.voters, &self.claim, 1, left, None);
        }
        self.line.lock().unwrap_or_else(PoisonError::into_inner).take().map(Left)
    }

    /// Releases it on every node, and insists where it may be held.
    pub(crate) fn give_back(&self, may_hold: NodeSet) -> Returned {
        let whom = Whom { ask: self.voters.everyone(), insist: may_hold, unheard: NodeSet::default() };
        // Sent before the places are given up: the next in this process asks behind this release, on
        // the same connections.
        self.returned(Cleanup::start(&self.voters, self.release(), whom))
    }

    /// The same for several, in as few calls as they fit into.
    pub(crate) fn give_back_all(voters: &Arc<Voters>, grants: &[(Self, NodeSet)]) -> Vec<Returned> {
        let releases = grants.iter().map(|(grant, may_hold)| (grant.release(), *may_hold));
        let cleanups = Cleanup::start_all(voters, releases);
        grants.iter().zip(cleanups).map(|((grant, _), cleanup)| grant.returned(cleanup)).collect()
    }

    fn release(&self) -> Undoing {
        let Self { voters, claim, won, .. } = self;
        // The highest ballot that its owner asked with hides all of them.
        let ballot = won.highest;
        let next = voters.next_ballot(ballot);
        // What it does not reach is held for longer than a ttl where it is kept.
        let ttl = claim.ttl.max(self.kept_for().unwrap_or_default());
        let release = Release { token: self.token(), ballot, next, ttl, ..Release::of(claim) };
        let undoing = Undoing { lease: claim.ttl, held: true, ..release.into() };
        self.describe(&undoing.span);
        undoing
    }

    /// Its release was sent.
    fn returned(&self, cleanup: Arc<Cleanup>) -> Returned {
        let line = self.line.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (places, listening) = line.map(|line| (line.places, line.listening)).unzip();
        listening.flatten().into_iter().for_each(|listening| cleanup.ends(listening));
        Returned { cleanup, _places: places }
    }
}

impl Line {
    /// The places in those lines that `leave`. The others stay.
    fn split_off(&mut self, leave: impl Fn(&str) -> bool) -> Option<Self> {
        let places = self.places.split_off(leave)?;
        Some(Self { places, listening: None })
    }
}
