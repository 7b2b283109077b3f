//! What a quorum granted: how it is renewed and counted, and how it is given back.

use std::sync::{Arc, Mutex, PoisonError};

use super::holding::Holding;
use super::listening::Listening;
use super::places::Places;
use super::release::{Cleanup, Whom};
use super::renew::Renewing;
use super::telling::{Telling, Words};
use super::voters::Voters;
use crate::node::{Claim, Mode, Name, Release};
use crate::rules::{NodeSet, Won};

/// A round that was won. Whoever has it sees to it that it is given back.
#[derive(Debug)]
pub(crate) struct Grant {
    voters: Arc<Voters>,
    claim: Claim,
    won: Won,
    line: Mutex<Option<Line>>,
}

/// What is kept of the lines that it waited in, for as long as it lasts.
#[derive(Debug)]
pub(super) struct Line {
    /// The places in the process's queue.
    pub(super) places: Places,
    /// The ear for nodes that offer a turn after all.
    pub(super) listening: Option<Listening>,
}

/// A release that was sent. The places in the process's queue are free when this is dropped, which
/// wakes others: not under a lock.
#[derive(Debug)]
pub(crate) struct Returned {
    pub(crate) cleanup: Arc<Cleanup>,
    _places: Option<Places>,
}

impl Grant {
    pub(super) fn new(voters: &Arc<Voters>, claim: Claim, won: Won, line: Line) -> Self {
        Self { voters: voters.clone(), claim, won, line: Mutex::new(Some(line)) }
    }

    /// How the round was won.
    pub(crate) const fn won(&self) -> &Won {
        &self.won
    }

    pub(crate) fn names(&self) -> &[Name] {
        &self.claim.names
    }

    fn mode(&self) -> Mode {
        Mode::of(&self.claim.owner)
    }

    /// Whose it is: an acquisition and the number of its round.
    pub(super) fn owner(&self) -> &str {
        &self.claim.owner
    }

    /// The fencing token.
    pub(crate) const fn token(&self) -> u64 {
        self.won.ballot
    }

    /// Sets the hold count on all nodes.
    pub(crate) fn count(&self, holds: u32) -> Holding {
        Holding::start(&self.voters, &self.claim, holds)
    }

    /// Sends a renewal, with the hold count.
    pub(crate) fn renew(&self, holds: u32) -> Renewing {
        Renewing::start(&self.voters, &self.claim, holds)
    }

    /// Tells these nodes what the holder says of itself.
    pub(crate) fn tell(&self, words: &Words, whom: NodeSet) -> Telling {
        Telling::start(&self.voters, &self.claim, self.token(), words, whom)
    }

    /// Releases it on every node, and insists where it may be held.
    pub(crate) fn give_back(&self, may_hold: NodeSet) -> Returned {
        let Self { voters, claim, won, line } = self;
        let whom = Whom { ask: voters.everyone(), insist: may_hold, unheard: NodeSet::default() };
        // The highest ballot that was asked with for its owner hides all of them. What a reader
        // gives up is handed over to nobody: others may read still.
        let ballot = won.highest;
        let next = if self.mode() == Mode::Shared { 0 } else { voters.next_ballot(ballot) };
        // Sent before the places are given up: the next in this process asks behind this release, on
        // the same connections.
        let cleanup = Cleanup::start(voters, Release { ballot, next, ..Release::of(claim) }, whom);
        let line = line.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (places, listening) = line.map(|line| (line.places, line.listening)).unzip();
        listening.flatten().into_iter().for_each(|listening| cleanup.ends(listening));
        Returned { cleanup, _places: places }
    }
}
