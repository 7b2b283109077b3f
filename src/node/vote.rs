//! How a node's reply to a claim or a renewal counts as a vote.

use super::reply::{Outcome, Reply};
use crate::rules::ballot::LIMIT;
use crate::rules::{RenewVote, Vote};

/// The vote of a reply to a claim with `ballot`.
#[must_use]
pub fn claimed(reply: &Reply, ballot: u64) -> Vote {
    match reply {
        Ok(Outcome::Granted { fence }) if *fence == ballot => Vote::Granted,
        Ok(Outcome::Held { .. } | Outcome::Lost { .. } | Outcome::Misused { .. }) => Vote::Refused,
        Ok(Outcome::Stale { fence }) if can_be_lifted(*fence) => Vote::Stale,
        Ok(Outcome::Forgot | Outcome::NoList | Outcome::OtherList { .. }) => Vote::Unsent,
        Err(fault) if fault.nothing_ran() => Vote::Unsent,
        _ => Vote::Unknown,
    }
}

/// The vote of a reply to a renewal. Only `extended` is a vote for the owner. `forgot` counts like
/// `healed`: both show that the node had not kept the hold.
#[must_use]
pub fn renewed(reply: &Reply) -> RenewVote {
    match reply {
        Ok(Outcome::Extended) => RenewVote::Extended,
        Ok(Outcome::Healed | Outcome::Forgot) => RenewVote::Healed,
        Ok(Outcome::Lost { holder }) if holder.is_empty() => RenewVote::Revoked,
        Ok(Outcome::Lost { .. }) => RenewVote::Lost,
        Err(fault) if fault.nothing_ran() => RenewVote::Unsent,
        _ => RenewVote::Unknown,
    }
}

/// The fence in a reply to a claim. `None` if the reply has no fence, or if no ballot can be above
/// the fence.
#[must_use]
pub fn told(reply: &Reply) -> Option<u64> {
    match reply {
        Ok(Outcome::Granted { fence } | Outcome::Held { fence, .. } | Outcome::Stale { fence }) => {
            Some(*fence).filter(|&fence| can_be_lifted(fence))
        }
        _ => None,
    }
}

/// Whether a ballot can be above this fence. No ballot can be above 2^53 - 1. So a node with a
/// corrupt fence, of 2^53 - 1 or higher, cannot vote on the name.
const fn can_be_lifted(fence: u64) -> bool {
    fence < LIMIT - 1
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::node::Kind;
    use crate::node::inspection::Inspection;
    use crate::node::reply::{Fault, FaultKind};

    const LAST: u64 = LIMIT - 2;
    const BALLOT: u64 = 7;

    fn held(fence: u64) -> Reply {
        Ok(Outcome::Held { holder: "other".to_owned(), kind: Kind::Lock, remaining: None, fence, queued: None })
    }

    fn unanswered(kind: FaultKind) -> Reply {
        Err(Fault::new(kind, "no answer"))
    }

    #[test]
    fn a_claim_is_granted_refused_stale_unsent_or_unknown() {
        for (reply, vote) in [
            (Ok(Outcome::Granted { fence: BALLOT }), Vote::Granted),
            (Ok(Outcome::Granted { fence: BALLOT + 1 }), Vote::Unknown),
            (Ok(Outcome::Lost { holder: String::new() }), Vote::Refused),
            (Ok(Outcome::Misused { name: 0 }), Vote::Refused),
            (held(7), Vote::Refused),
            (Ok(Outcome::Stale { fence: LAST }), Vote::Stale),
            (Ok(Outcome::Forgot), Vote::Unsent),
            (Ok(Outcome::NoList), Vote::Unsent),
            (Ok(Outcome::OtherList { says: String::new(), left: Duration::ZERO }), Vote::Unsent),
            (unanswered(FaultKind::Down), Vote::Unsent),
            (unanswered(FaultKind::Timeout), Vote::Unknown),
            (Ok(Outcome::Extended), Vote::Unknown),
        ] {
            assert_eq!(claimed(&reply, BALLOT), vote, "{reply:?}");
        }
    }

    #[test]
    fn fence_at_the_limit_is_no_vote_and_raises_nothing() {
        let stale = |fence| Ok(Outcome::Stale { fence });
        for last in [Ok(Outcome::Granted { fence: LAST }), held(LAST), stale(LAST)] {
            assert_eq!(told(&last), Some(LAST), "{last:?}");
        }
        for used_up in [LIMIT - 1, LIMIT] {
            assert_eq!(claimed(&stale(used_up), BALLOT), Vote::Unknown);
            for reply in [held(used_up), stale(used_up)] {
                assert_eq!(told(&reply), None, "{reply:?}");
            }
        }
        for silent in [Ok(Outcome::Extended), unanswered(FaultKind::Timeout)] {
            assert_eq!(told(&silent), None, "{silent:?}");
        }
    }

    #[test]
    fn a_renewal_is_extended_healed_lost_unsent_or_unknown() {
        for (reply, vote) in [
            (Ok(Outcome::Extended), RenewVote::Extended),
            (Ok(Outcome::Healed), RenewVote::Healed),
            (Ok(Outcome::Forgot), RenewVote::Healed),
            (Ok(Outcome::Lost { holder: "other".to_owned() }), RenewVote::Lost),
            (Ok(Outcome::Lost { holder: String::new() }), RenewVote::Revoked),
            (unanswered(FaultKind::Overloaded), RenewVote::Unsent),
            (unanswered(FaultKind::Doubted), RenewVote::Unknown),
            (Ok(Outcome::Inspected(vec![Inspection::free(0)])), RenewVote::Unknown),
        ] {
            assert_eq!(renewed(&reply), vote, "{reply:?}");
        }
    }
}
