//! What a node's reply is worth as a vote. Granted, refused, stale; all else is unknown or was never
//! sent.

use super::reply::{Outcome, Reply};
use crate::quorum::ballot::LIMIT;
use crate::quorum::{RenewVote, Vote};

/// The vote of a reply to a claim.
#[must_use]
pub fn claimed(reply: &Reply) -> Vote {
    match reply {
        Ok(Outcome::Granted | Outcome::Passed { .. }) => Vote::Granted,
        Ok(Outcome::Held { .. } | Outcome::Reserved { .. }) => Vote::Refused,
        Ok(Outcome::Stale { fence }) if can_be_lifted(*fence) => Vote::Stale,
        Err(fault) if fault.nothing_ran() => Vote::Unsent,
        _ => Vote::Unknown,
    }
}

/// The vote of a reply to a renewal. Only `extended` is a vote for us.
#[must_use]
pub fn renewed(reply: &Reply) -> RenewVote {
    match reply {
        Ok(Outcome::Extended) => RenewVote::Extended,
        Ok(Outcome::Healed) => RenewVote::Healed,
        Ok(Outcome::Lost { .. }) => RenewVote::Lost,
        Err(fault) if fault.nothing_ran() => RenewVote::Unsent,
        _ => RenewVote::Unknown,
    }
}

/// The fence that a reply to a claim told, if a ballot above it exists.
#[must_use]
pub fn told(reply: &Reply) -> Option<u64> {
    match reply {
        Ok(Outcome::Held { fence, .. } | Outcome::Stale { fence } | Outcome::Reserved { fence, .. }) => {
            Some(*fence).filter(|&fence| can_be_lifted(fence))
        }
        _ => None,
    }
}

/// A corrupt fence of 2^53 - 1 leaves no ballot above it: its node cannot vote on that name.
const fn can_be_lifted(fence: u64) -> bool {
    fence < LIMIT - 1
}
