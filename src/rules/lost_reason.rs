//! Why locks are lost, for metrics and for people.

use std::fmt;

/// Why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The validity ended, and no quorum had renewed the lock by then.
    Expired,
    /// The lock was revoked: [`revoke`](crate::Quorum::revoke),
    /// [`force_release`](crate::Quorum::force_release), or `quorumlock release --force`.
    Revoked,
    /// Fewer nodes than a quorum hold the lock. The other nodes forgot the lock, ended it early
    /// because their clocks were set forward, or hold the name for another owner.
    Forgotten,
    /// The lock was held for as long as [`max_hold`](crate::LockOptions::max_hold) allows.
    MaxHold,
    /// The quorum was shut down.
    Closed,
    /// Another list, with the name of this client's list, is in force on a node. If the lock were
    /// kept, a client of the other list could hold the same name.
    OtherList,
}

impl LostReason {
    pub(crate) const ALL: [Self; 6] =
        [Self::Expired, Self::Revoked, Self::Forgotten, Self::MaxHold, Self::Closed, Self::OtherList];

    /// The reason's name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Forgotten => "forgotten",
            Self::MaxHold => "max_hold",
            Self::Closed => "closed",
            Self::OtherList => "other_list",
        }
    }

    pub(crate) const fn explanation(self) -> &'static str {
        match self {
            Self::Expired => "its validity ended before a quorum renewed it",
            Self::Revoked => "somebody revoked it",
            Self::Forgotten => {
                "no quorum of nodes holds it for this client any more: they forgot it, its keys were deleted, or their \
                 clocks were set forward"
            }
            Self::MaxHold => "it was held for as long as max_hold allows",
            Self::Closed => "the quorum was shut down",
            Self::OtherList => {
                "another list of nodes, with the name of this client's list, is in force on a node; see `quorumlock members`"
            }
        }
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.explanation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_reasons_have_metric_names_and_explanations() {
        let all = LostReason::ALL;
        assert_eq!(
            all.map(LostReason::as_str),
            ["expired", "revoked", "forgotten", "max_hold", "closed", "other_list"]
        );
        let words = ["validity ended", "revoked it", "forgot it", "max_hold", "shut down", "another list"];
        assert!(all.iter().zip(words).all(|(reason, word)| reason.to_string().contains(word)));
    }
}
