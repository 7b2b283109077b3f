//! The arguments of each verb. Nodes count all times in whole milliseconds.

use std::sync::Arc;
use std::time::Duration;

use super::kind::Kind;
use super::name::Name;
use super::waiter::Waiter;

/// Takes the names: all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The names to take.
    pub names: Arc<[Name]>,
    /// The hash of the client's list, which must be in force. If empty, no list is checked.
    pub list: Arc<str>,
    /// The claimant: one call of `acquire`. All asks of the call have the same owner.
    pub owner: Arc<str>,
    /// The kind of the hold.
    pub kind: Kind,
    /// How long to hold the names.
    pub ttl: Duration,
    /// The ballot, below 2^53.
    pub ballot: u64,
    /// For a reader that was the writer: the token of the writer's lock. Otherwise 0.
    pub follows: u64,
    /// For permits of a semaphore: the gate, which no other owner may hold or wait for.
    pub gate: Option<Name>,
    /// The place that the claim takes or renews if it must wait. Only a claim of one name can wait.
    pub waiter: Option<Waiter>,
    /// The ballot with which the node hands a free name to a waiter that comes first. It is above
    /// the claim's own ballot. With 0 the claim overtakes all waiters.
    pub next: u64,
}

impl Claim {
    /// The place in the queue that the claim asks for.
    #[must_use]
    pub fn place(&self) -> Option<Waiter> {
        self.waiter.filter(|_| self.names.len() == 1)
    }
}

/// Holds the names for another ttl. Takes a name again if it is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renew {
    /// The names to hold.
    pub names: Arc<[Name]>,
    /// The owner that holds them.
    pub owner: Arc<str>,
    /// The kind of the hold.
    pub kind: Kind,
    /// How long to hold the names from now on.
    pub ttl: Duration,
    /// The token: the ballot with which the names were won. If locks with this token are over, the
    /// node refuses the renewal.
    pub token: u64,
    /// The minimum ballot of the hold from now on: the token, or the common ballot of a set.
    pub ballot: u64,
    /// The hold count from now on.
    pub count: u32,
    /// The holder's note, if the kind allows one. The lock does not depend on the note.
    pub note: Option<Note>,
}

impl Renew {
    /// Renews the names that `claim` was granted, with the hold count `count`.
    #[must_use]
    pub fn of(claim: &Claim, count: u32) -> Self {
        let Claim { kind, ttl, ballot, .. } = *claim;
        let (names, owner) = (claim.names.clone(), claim.owner.clone());
        Self { names, owner, kind, ttl, token: ballot, ballot, count, note: None }
    }
}

/// A note of the holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// The order of an owner's notes: a lower number does not replace a higher one.
    pub number: u32,
    /// How long ago the names were acquired.
    pub age: Duration,
    /// The text, without NUL characters.
    pub says: Arc<str>,
}

/// Gives the names up, since the owner has ended. Its locks with tokens up to `token` are over,
/// late claims with ballots up to `ballot` are refused, and the owner leaves the queues.
///
/// As a withdrawal: takes back the grants of an owner's asks with ballots up to `ballot`, including
/// asks that arrive later. The owner goes on, and keeps its places in queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The names to free.
    pub names: Arc<[Name]>,
    /// The owner that may hold them.
    pub owner: Arc<str>,
    /// The longest time that the holds can last. After that time the client does not repeat the
    /// release. Nodes do not read this field.
    pub ttl: Duration,
    /// The owner's token; 0 if it had none, or withdraws.
    pub token: u64,
    /// The highest ballot of the owner's asks, and of the hand-overs that nodes pushed to the
    /// owner, whether or not these counted.
    pub ballot: u64,
    /// The ballot with which the node hands a freed name to a waiter; 0 for no hand-over.
    pub next: u64,
}

impl Release {
    /// Releases or withdraws what `claim` was or may have been granted. Hands nothing over.
    #[must_use]
    pub fn of(claim: &Claim) -> Self {
        let Claim { ttl, ballot, .. } = *claim;
        let (names, owner) = (claim.names.clone(), claim.owner.clone());
        Self { names, owner, ttl, token: 0, ballot, next: 0 }
    }
}

/// Stops the renewal of all locks with tokens up to `ballot`. Only higher ballots are granted from
/// now on. Frees nothing: each hold ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoke {
    /// The names whose locks end.
    pub names: Arc<[Name]>,
    /// The highest token to revoke: above every bar that nodes have returned.
    pub ballot: u64,
}

/// Reads a page of the names that the node knows, held or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The cursor: [`Scan::FIRST`], or the cursor that the previous page returned.
    pub from: Arc<str>,
    /// About how many keys the node examines.
    pub keys: u32,
}

impl Scan {
    /// The cursor of the first page. A page that returns this cursor is the last page.
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
