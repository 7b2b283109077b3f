//! A round that was not won, and the conclusions from its replies.

use std::sync::Arc;
use std::time::Duration;

use super::blocker::in_the_way;
use super::queue::HeadStatus;
use super::round::Round;
use super::voters::Voters;
use crate::error::NodeReport;
use crate::node::{Outcome, Reply};
use crate::rules::ClaimTally;
use crate::rules::tally::Cause;

pub(super) struct FailedRound {
    pub(super) round: Arc<Round<ClaimTally>>,
    /// The previous round. It supplies the nodes' replies, the holder and the error's source if
    /// `round` lacks these. If `round` was cut short, the previous round also decides the cause.
    pub(super) before: Option<Arc<Round<ClaimTally>>>,
    pub(super) how: How,
}

/// How a round failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Nodes refused, or did not reply.
    Refused,
    /// A quorum granted the name or handed it over, but too late, or with votes that do not count.
    Late,
    /// The caller's deadline came before the replies decided the round.
    CutShort,
}

fn names_one(round: &Round<ClaimTally>, voters: &Voters) -> bool {
    round.replies(|replies| in_the_way(replies, voters.size.quorum())) == Some(true)
}

impl FailedRound {
    pub(super) fn cause(&self) -> Cause {
        let before = || self.before.as_ref().map(|before| before.look(ClaimTally::cause));
        match self.round.look(ClaimTally::cause) {
            _ if self.how == How::Late => Cause::Unavailable,
            // The caller's deadline ended this round before a decision, so the replies to the
            // previous round count.
            Cause::Undecided if self.how == How::CutShort => before().unwrap_or(Cause::Undecided),
            cause => cause,
        }
    }

    /// Whether votes were split: nodes refused the round, but no quorum names the same holder.
    pub(super) fn is_split(&self, voters: &Voters) -> bool {
        self.cause() == Cause::Contended && !names_one(&self.round, voters)
    }

    /// Whether a quorum names the same holder, in this round or, if this round was cut short, in
    /// the previous one.
    pub(super) fn names_one(&self, voters: &Voters) -> bool {
        let before = self.before.as_ref().filter(|_| self.how == How::CutShort);
        names_one(&self.round, voters) || before.is_some_and(|before| names_one(before, voters))
    }

    pub(super) fn reports(&self, voters: &Voters) -> Vec<NodeReport> {
        self.round.reports(voters, self.before.as_deref())
    }

    pub(super) fn head(&self, voters: &Voters) -> HeadStatus {
        match self.cause() {
            Cause::Contended => HeadStatus::Contended(self.holder()),
            Cause::Unavailable => HeadStatus::Unavailable(self.reports(voters)),
            Cause::Undecided => HeadStatus::Undecided,
        }
    }

    /// The shortest remaining time of a hold that nodes returned, plus 1 ms, because nodes count
    /// whole milliseconds.
    pub(super) fn changes_in(&self) -> Option<Duration> {
        let left = |reply: &Option<Reply>| match reply {
            Some(Ok(Outcome::Held { remaining, .. })) => *remaining,
            _ => None,
        };
        let first = self.round.replies(|replies| replies.iter().filter_map(left).min());
        first.map(|left| left + Duration::from_millis(1))
    }

    /// The id of a holder that nodes name and that may have a note.
    pub(super) fn holder(&self) -> Option<Arc<str>> {
        let holder = |reply: &Option<Reply>| match reply {
            Some(Ok(Outcome::Held { holder, kind, .. })) if kind.may_have_note() => Some(holder.as_str().into()),
            _ => None,
        };
        let rounds = [Some(&self.round), self.before.as_ref()];
        rounds.into_iter().flatten().find_map(|round| round.replies(|replies| replies.iter().find_map(holder)))
    }

    /// Whether nodes name a holder, and all of them name an owner of this client.
    pub(super) fn is_held_by(&self, client: &str) -> bool {
        let is = |holder: &str| holder.strip_prefix(client).is_some_and(|rest| rest.starts_with('/'));
        let holds = |reply: &Option<Reply>| match reply {
            Some(Ok(Outcome::Held { holder, .. })) => Some(is(holder)),
            _ => None,
        };
        let said: Vec<_> = self.round.replies(|replies| replies.iter().filter_map(holds).collect());
        !said.is_empty() && said.into_iter().all(|is| is)
    }

    /// The error behind the first fault in this round, or else in the previous round.
    pub(super) fn source(&self) -> Option<Arc<dyn std::error::Error + Send + Sync>> {
        let cause = |reply: &Option<Reply>| reply.as_ref()?.as_ref().err()?.cause();
        let rounds = [Some(&self.round), self.before.as_ref()];
        rounds.into_iter().flatten().find_map(|round| round.replies(|replies| replies.iter().find_map(cause)))
    }
}
