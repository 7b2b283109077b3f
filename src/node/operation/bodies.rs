//! What each verb is asked with. Nodes count all times in whole milliseconds.

use std::sync::Arc;
use std::time::Duration;

use super::kind::Kind;
use super::name::Name;
use super::waiter::Waiter;

/// Takes the names, all or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What to hold.
    pub names: Arc<[Name]>,
    /// The hash of the client's list, which must be in force. Empty: that is not checked.
    pub list: Arc<str>,
    /// Who asks: one call of `acquire`, however often it asks.
    pub owner: Arc<str>,
    /// What the hold is to be.
    pub kind: Kind,
    /// For how long to hold the names.
    pub ttl: Duration,
    /// The ballot, below 2^53.
    pub ballot: u64,
    /// Of a reader that was the writer: the token by which it was; else 0.
    pub follows: u64,
    /// Of permits of a semaphore: its gate, which nobody may hold or wait for.
    pub gate: Option<Name>,
    /// What it says as a waiter. It joins the queue where it must wait, if it is of one name.
    pub waiter: Option<Waiter>,
    /// The ballot of a waiter that it hands a free name over to, above its own. With 0 it overtakes
    /// all waiters.
    pub next: u64,
}

impl Claim {
    /// The place in line that it asks for.
    #[must_use]
    pub fn place(&self) -> Option<Waiter> {
        self.waiter.filter(|_| self.names.len() == 1)
    }
}

/// Holds the names for another ttl, and takes them again where the node has forgotten that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renew {
    /// What to hold on to.
    pub names: Arc<[Name]>,
    /// Who holds them.
    pub owner: Arc<str>,
    /// What the hold is.
    pub kind: Kind,
    /// For how long to hold the names from now on.
    pub ttl: Duration,
    /// The ballot by which the names were won. Nodes compare it with that up to which locks are over.
    pub token: u64,
    /// The ballot of the hold from now on, at least: the token, or a higher one that a set has for all
    /// of its names.
    pub ballot: u64,
    /// The hold count from now on.
    pub count: u32,
    /// What the holder says of itself, if it may have a note. Nothing rests on whether it is stored.
    pub note: Option<Note>,
}

impl Renew {
    /// Of what was granted to `claim` and is held `count` times.
    #[must_use]
    pub fn of(claim: &Claim, count: u32) -> Self {
        let Claim { kind, ttl, ballot, .. } = *claim;
        let (names, owner) = (claim.names.clone(), claim.owner.clone());
        Self { names, owner, kind, ttl, token: ballot, ballot, count, note: None }
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

/// Gives the names up: the owner has ended. Its locks with tokens up to `token` are over, late
/// claims with ballots up to `ballot` are refused, and it leaves the queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// What to free.
    pub names: Arc<[Name]>,
    /// The owner that may hold them.
    pub owner: Arc<str>,
    /// For how long the names may be held still: after that nobody asks again. Nodes do not read
    /// it.
    pub ttl: Duration,
    /// The token that the owner had; 0 if it had none.
    pub token: u64,
    /// The highest ballot that the owner asked with or was pushed, counted or not.
    pub ballot: u64,
    /// The ballot of a waiter that it hands a name over to; 0 if it hands nothing over.
    pub next: u64,
}

impl Release {
    /// Of what `claim` was granted, or may have been. It hands over to nobody.
    #[must_use]
    pub fn of(claim: &Claim) -> Self {
        let Claim { ttl, ballot, .. } = *claim;
        let (names, owner) = (claim.names.clone(), claim.owner.clone());
        Self { names, owner, ttl, token: 0, ballot, next: 0 }
    }
}

/// Takes back what the asks of an owner with ballots up to `ballot` were granted, or will be if
/// they come later. The owner goes on, and its places in queues stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withdraw {
    /// What to free.
    pub names: Arc<[Name]>,
    /// The owner that may hold them.
    pub owner: Arc<str>,
    /// As of a [`Release`].
    pub ttl: Duration,
    /// The highest ballot that the owner asked with or was pushed, counted or not.
    pub ballot: u64,
    /// The ballot of a waiter that it hands a name over to; 0 if it hands nothing over.
    pub next: u64,
}

impl Withdraw {
    /// Of what the owner of `claim` was granted with ballots up to `ballot`, or may have been.
    #[must_use]
    pub fn of(claim: &Claim, ballot: u64, next: u64) -> Self {
        let (names, owner) = (claim.names.clone(), claim.owner.clone());
        Self { names, owner, ttl: claim.ttl, ballot, next }
    }
}

/// Lets all holds with tokens up to a number end: they are not renewed any more, and no ballot up to
/// it is granted from now on. Frees nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoke {
    /// What to take away.
    pub names: Arc<[Name]>,
    /// The highest token that is revoked: above every bar that nodes have returned.
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
    fn claim_of_several_names_asks_for_no_place() {
        let waiter = Waiter { ticket: 1, lasts: Duration::from_secs(3), again: Duration::from_secs(1) };
        let claim = Claim { waiter: Some(waiter), ..Claim::sample("a", "me", 7) };
        assert_eq!(claim.place(), Some(waiter));
        let names = [claim.names[0].clone(), claim.names[0].clone()].into();
        assert_eq!(Claim { names, ..claim }.place(), None);
    }

    #[test]
    fn release_of_a_claim_is_up_to_its_ballot_and_hands_nothing_over() {
        let claim = Claim::sample("a", "me", 7);
        let release = Release::of(&claim);
        assert_eq!((release.token, release.next, release.ttl, release.ballot), (0, 0, claim.ttl, 7));
    }
}
