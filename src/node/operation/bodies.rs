//! The arguments of each verb. Nodes get all durations in whole milliseconds, rounded down
//! ([`Waiter::again`] is 1 ms at least).

use std::sync::Arc;
use std::time::Duration;

use super::kind::Kind;
use super::name::Name;
use super::waiter::Waiter;

/// Takes all the names, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The names to take.
    pub names: Arc<[Name]>,
    /// The hash of the client's list, which must be in force. If empty, the node checks no list.
    pub list: Arc<str>,
    /// The owner that claims: one acquisition. All asks of an acquisition have the same owner.
    pub owner: Arc<str>,
    /// The kind of the hold.
    pub kind: Kind,
    /// How long to hold the names.
    pub ttl: Duration,
    /// The ballot, below 2^53.
    pub ballot: u64,
    /// The lock that this claim takes over; `None` for other claims.
    pub follows: Option<Predecessor>,
    /// For permits of a semaphore: its gate, the name for which callers queue. The node refuses the
    /// claim if an owner holds the gate or waits for the gate.
    pub gate: Option<Name>,
    /// The place that the owner takes or renews if the claim is refused because of another owner;
    /// `None` if the claim does not wait. Only a claim of one name can wait.
    pub waiter: Option<Waiter>,
    /// The ballot of a hand-over. If the name is free but a waiter comes before this claim, the
    /// node hands the name over with this ballot, which must be above `ballot`. If `next` is 0, the
    /// claim overtakes all waiters.
    pub next: u64,
}

/// A lock that another owner takes over: a writer that becomes a reader, or a lock that was handed
/// to another process. A node grants the claim only if this owner still holds the name, and the
/// lock was not released or revoked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Predecessor {
    /// The owner that holds the name.
    pub owner: Arc<str>,
    /// The token of its lock.
    pub token: u64,
}

impl Claim {
    /// The place in the queue that the owner takes if the claim is refused because of another
    /// owner.
    #[must_use]
    pub fn place(&self) -> Option<Waiter> {
        self.waiter.filter(|_| self.names.len() == 1)
    }
}

/// Holds the names for another ttl. Takes a name again if the name is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renew {
    /// The names to hold.
    pub names: Arc<[Name]>,
    /// The owner that holds the names.
    pub owner: Arc<str>,
    /// The kind of the hold.
    pub kind: Kind,
    /// How long to hold the names from now on.
    pub ttl: Duration,
    /// The token: the ballot with which the names were won. If locks with this token are over, the
    /// node refuses the renewal.
    pub token: u64,
    /// The token, or the common ballot of a set. The hold's ballot becomes at least this number.
    pub ballot: u64,
    /// The number of guards of this lock.
    pub count: u32,
    /// The holder's note, if the kind allows one. The lock does not depend on the note.
    pub note: Option<Note>,
}

impl Renew {
    /// Renews the names that were granted to `claim`, for a lock with `count` guards.
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
    /// How many notes the owner had set before this one. A note never replaces one with a higher
    /// number.
    pub number: u32,
    /// How long ago the names were acquired.
    pub age: Duration,
    /// The text, without NUL characters.
    pub says: Arc<str>,
}

/// As a release: gives the names up, because the owner has ended. The owner leaves the queues, and
/// its locks with tokens up to `token` are over.
///
/// As a withdrawal: takes back the owner's grants with ballots up to `ballot`. The owner goes on,
/// and keeps its places in queues. If the node ends a hold of the owner, the owner takes `place`
/// again.
///
/// After either operation, the node refuses the owner's claims with ballots up to `ballot`. (While
/// other readers hold the name, the node may grant a late claim of a reader.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The names to free.
    pub names: Arc<[Name]>,
    /// The owner that may hold the names.
    pub owner: Arc<str>,
    /// For how long the holds can last. After this time, the client does not repeat the release.
    /// Nodes do not get this field.
    pub ttl: Duration,
    /// The owner's token; 0 if the owner had none, or withdraws.
    pub token: u64,
    /// The highest ballot that the owner has sent in an ask or received in a push, even if the push
    /// was no vote.
    pub ballot: u64,
    /// The ballot with which the node hands a freed name to a waiter; 0 for no hand-over.
    pub next: u64,
    /// For a withdrawal: the owner's place in the queue, and the kind of hold that the owner waits
    /// for. If the withdrawal ends the owner's hold, the owner takes this place again, if any.
    pub place: Option<(Kind, Waiter)>,
}

impl Release {
    /// The release or withdrawal of the names of `claim`, without a hand-over.
    #[must_use]
    pub fn of(claim: &Claim) -> Self {
        let Claim { ttl, ballot, .. } = *claim;
        let (names, owner) = (claim.names.clone(), claim.owner.clone());
        Self { names, owner, ttl, token: 0, ballot, next: 0, place: None }
    }
}

/// From now on, the node renews no lock with a token up to `ballot`, and grants only higher
/// ballots. A revocation frees nothing: each hold ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoke {
    /// The names whose locks are revoked.
    pub names: Arc<[Name]>,
    /// Locks with tokens up to this ballot are revoked. The ballot is above every fence that an
    /// inspection returned to the client.
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
        let waiter = Waiter { arrival: 1, lasts: Duration::from_secs(3), again: Duration::from_secs(1) };
        let claim = Claim { waiter: Some(waiter), ..Claim::sample("a", "me", 7) };
        assert_eq!(claim.place(), Some(waiter));
        let names = [claim.names[0].clone(), claim.names[0].clone()].into();
        assert_eq!(Claim { names, ..claim }.place(), None);
    }

    #[test]
    fn release_of_a_claim_has_its_ballot_and_no_hand_over() {
        let claim = Claim::sample("a", "me", 7);
        let release = Release::of(&claim);
        assert_eq!((release.token, release.next, release.ttl, release.ballot), (0, 0, claim.ttl, 7));
    }
}
