//! What each verb is asked with. Nodes count all times in whole milliseconds.

use std::sync::Arc;
use std::time::Duration;

use super::Operation;
use super::name::Name;
use super::seat::{MOST_HOLDS, Seat};
use super::stance::Stance;

/// Takes the names, all or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What to hold.
    pub names: Arc<[Name]>,
    /// Who asks: an acquisition and the number of its round.
    pub owner: Arc<str>,
    /// For how long to hold the names.
    pub ttl: Duration,
    /// The ballot, below 2^53.
    pub ballot: u64,
    /// The hold count to begin with, or what it is [of a semaphore](Seat).
    pub count: u32,
    /// How it stands to those who wait.
    pub stance: Stance,
    /// How long a turn lasts that it gives to somebody else; and where it waits for turns, how long
    /// its own must last.
    pub grace: Duration,
    /// Of a claim of one name that waits: how long a hand-over to it lasts; zero if it wants none.
    pub handover: Duration,
}

impl Claim {
    /// Whether a node that refuses it may hand the name over to it later.
    #[must_use]
    pub fn registers(&self) -> bool {
        let waits = matches!(self.stance, Stance::Wait { .. });
        waits
            && self.names.len() == 1
            && self.handover >= Duration::from_millis(1)
            && !Operation::is_shared(&self.owner)
    }

    /// The same without a place in line.
    #[must_use]
    pub fn once(&self) -> Self {
        Self { stance: Stance::Once, handover: Duration::ZERO, ..self.clone() }
    }
}

/// Holds the names for another ttl, and takes them again where the node has forgotten that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renew {
    /// What to hold on to.
    pub names: Arc<[Name]>,
    /// Who holds them.
    pub owner: Arc<str>,
    /// For how long to hold the names from now on.
    pub ttl: Duration,
    /// The ballot to take them with.
    pub ballot: u64,
    /// The hold count from now on, or what they are [of a semaphore](Seat).
    pub count: u32,
    /// What the holder says of itself, if it may have a note. Nothing rests on whether it is stored.
    pub note: Option<Note>,
}

impl Renew {
    /// Of what was granted to `claim` and is held `count` times.
    #[must_use]
    pub fn of(claim: &Claim, count: u32) -> Self {
        let count = Seat::of(claim.count).map_or(count.min(MOST_HOLDS), Seat::count);
        let (names, owner) = (claim.names.clone(), claim.owner.clone());
        Self { names, owner, ttl: claim.ttl, ballot: claim.ballot, count, note: None }
    }
}

/// What the holder of names says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// A lower number of the same owner does not replace a higher one.
    pub number: u32,
    /// How long ago the names were acquired.
    pub age: Duration,
    /// The text: no NUL character.
    pub says: Arc<str>,
}

/// Gives the names up, and raises their fence so that late claims of the same round are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// What to free.
    pub names: Arc<[Name]>,
    /// Who may hold them.
    pub owner: Arc<str>,
    /// For how long the names may be held still: after that nobody asks again. Nodes do not read
    /// it.
    pub ttl: Duration,
    /// The highest ballot of the owner.
    pub ballot: u64,
    /// Whether its acquisition stays in the line.
    pub stance: Stance,
    /// How long a turn lasts that it gives.
    pub grace: Duration,
    /// The ballot of whom it hands the names over to; 0 if to nobody.
    pub next: u64,
}

impl Release {
    /// Of what `claim` may have been granted. It leaves the line, and hands over to nobody.
    #[must_use]
    pub fn of(claim: &Claim) -> Self {
        let Claim { ttl, ballot, grace, .. } = *claim;
        let (names, owner) = (claim.names.clone(), claim.owner.clone());
        Self { names, owner, ttl, ballot, stance: Stance::Once, grace, next: 0 }
    }
}

/// Raises the node's floor to the highest ballot that others know of: it may have forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Teach {
    /// The highest ballot that others know of.
    pub high: u64,
    /// The number of the node's lesson.
    pub lesson: u32,
    /// Whether it was dealt by another list, or too few nodes know it: then the node does not
    /// become one that was taught.
    pub by_hand: bool,
}

/// Lets the owner's hold of the names end: it is not renewed any more. Frees nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoke {
    /// What to take away.
    pub names: Arc<[Name]>,
    /// From whom.
    pub owner: Arc<str>,
    /// What the fences of the names are raised to.
    pub ballot: u64,
}

/// Asks for a page of the names that the node knows, held or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Where it begins: [`Scan::FIRST`], or what the page before said.
    pub from: Arc<str>,
    /// About how many keys the node looks at.
    pub keys: u32,
}

impl Scan {
    /// Where the first page begins; a page after which this one would come is the last.
    pub const FIRST: &'static str = "0";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_claim_waits_for_nothing() {
        let stance = Stance::Wait { ticket: 1, patience: Duration::from_secs(1) };
        let (grace, handover) = (Duration::from_secs(2), Duration::from_secs(3));
        let claim = Claim { stance, grace, handover, ..Claim::sample("a", "me", 7) };
        assert!(claim.registers());
        assert!(!claim.once().registers());
        assert_eq!(claim.once().stance, Stance::Once);
        let release = Release::of(&claim);
        assert_eq!((release.stance, release.next), (Stance::Once, 0));
        assert_eq!((release.ttl, release.ballot, release.grace), (claim.ttl, 7, claim.grace));
    }
}
