//! Renewals: when they are sent, and what the answers mean.

use std::time::Duration;

use super::lost_reason::LostReason;
use super::node_set::NodeSet;
use super::tally::Size;
use super::tick::Tick;
use super::validity::Validity;

/// What one node answered to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RenewVote {
    /// The node held the name for this owner, and now holds it for another ttl. Only this answer is
    /// a vote for the lock.
    Extended,
    /// The name was free on the node, and now the node holds it for this owner. This helps the
    /// *next* renewal. But the node had *not* held the name for the owner until now. (The reply
    /// `forgot` counts as `Healed`, although a node without a record stored nothing.)
    Healed,
    /// The node holds the name for another owner.
    Lost,
    /// The lock was revoked or released: this node no longer renews a lock with this token.
    Revoked,
    /// The node did not answer, gave no usable answer, or its `extended` does not count now: see
    /// [`RestartGuard::settled`](super::RestartGuard::settled).
    Unknown,
    /// The node certainly carried nothing out.
    Unsent,
}

/// What the votes of a renewal decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Renewal {
    /// A quorum extended: the deadline moves.
    Extended,
    /// So many votes count against the lock that no quorum can have extended it: the lock is lost
    /// at once.
    Lost,
    /// The votes show neither: try again until the deadline.
    Unclear,
}

/// The votes of one renewal.
///
/// Three kinds of votes count *against* the lock: `RenewVote::Healed` and `RenewVote::Lost` (the
/// node did not hold the name for this owner), and `RenewVote::Revoked`. If all other nodes
/// together are fewer than a quorum, the lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RenewalTally {
    size: Size,
    /// For a set of names: nodes in `extended` extended all names, nodes in `backers` at least one.
    extended: NodeSet,
    backers: NodeSet,
    absent: NodeSet,
    revoked: NodeSet,
    unknown: NodeSet,
    unsent: NodeSet,
}

impl RenewalTally {
    /// An empty tally.
    #[must_use]
    pub fn new(size: Size) -> Self {
        let none = NodeSet::default();
        Self { size, extended: none, backers: none, absent: none, revoked: none, unknown: none, unsent: none }
    }

    /// Counts a node's vote. Each node must be counted once.
    pub const fn count(&mut self, node: usize, vote: RenewVote) {
        match vote {
            RenewVote::Extended => {
                self.extended.insert(node);
                self.backers.insert(node);
            }
            RenewVote::Healed | RenewVote::Lost => self.absent.insert(node),
            RenewVote::Revoked => {
                self.absent.insert(node);
                self.revoked.insert(node);
            }
            RenewVote::Unknown => self.unknown.insert(node),
            RenewVote::Unsent => self.unsent.insert(node),
        }
    }

    /// The nodes that extended. For a set: the nodes that extended all its names. These may be
    /// fewer than a quorum, because each name has a quorum of its own.
    #[must_use]
    pub const fn extended(&self) -> NodeSet {
        self.extended
    }

    /// The nodes that extended. For a set: the nodes that extended at least one of its names.
    #[must_use]
    pub const fn backers(&self) -> NodeSet {
        self.backers
    }

    /// The nodes whose votes count against the lock. For a set: against at least one of its names.
    #[must_use]
    pub const fn absent(&self) -> NodeSet {
        self.absent
    }

    /// Merges the tally of another name of the set. A node is in `extended` if it extended both
    /// names.
    #[must_use]
    pub const fn with(mut self, other: Self) -> Self {
        self.extended = self.extended.and(other.extended);
        self.backers = self.backers.or(other.backers);
        self.absent = self.absent.or(other.absent);
        self.revoked = self.revoked.or(other.revoked);
        self.unknown = self.unknown.or(other.unknown);
        self.unsent = self.unsent.and(other.unsent);
        self
    }

    /// Why the names are lost, if the verdict is `Lost`. If any node reports a revocation, the
    /// reason is `Revoked`: other nodes may have forgotten the revocation together with the lock.
    #[must_use]
    pub const fn why_lost(&self) -> LostReason {
        if self.revoked.is_empty() { LostReason::Forgotten } else { LostReason::Revoked }
    }

    /// The nodes that may have received the renewal of at least one name.
    #[must_use]
    pub const fn sent(&self) -> NodeSet {
        NodeSet::first(self.size.nodes()).without(self.unsent)
    }

    /// The verdict; `None` while votes that have not come yet can still change it.
    #[must_use]
    pub const fn verdict(&self) -> Option<Renewal> {
        let answered = self.extended.or(self.absent).or(self.unknown).or(self.unsent);
        if self.extended.len() >= self.size.quorum() {
            Some(Renewal::Extended)
        } else if self.absent.len() >= self.size.blocking() {
            Some(Renewal::Lost)
        } else if answered.len() == self.size.nodes() {
            Some(Renewal::Unclear)
        } else {
            None
        }
    }
}

impl Renewal {
    /// Merges the result for another name of the set: extended if both names were extended, lost if
    /// one name is lost.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Lost, _) | (_, Self::Lost) => Self::Lost,
            (Self::Extended, Self::Extended) => Self::Extended,
            (Self::Unclear, _) | (_, Self::Unclear) => Self::Unclear,
        }
    }
}

/// When to renew a lease: a third of its validity after `t0`, which leaves time for two more tries.
#[must_use]
pub fn due(t0: Tick, validity: Validity) -> Tick {
    t0 + validity.length() / 3
}

/// Spreads renewals in time. Leases that began together are renewed at several moments. Leases that
/// are renewed at the same moment share calls.
///
/// A renewal is sent earlier than it is due: a random time is subtracted, and the result is rounded
/// down to a moment on a grid. All leases of this process with about the same ttl share the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// A random number, evenly distributed.
    pub random: u64,
    /// The offset of this process's grid: processes on one host should not all renew at one moment.
    pub phase: u64,
}

impl Spread {
    /// When to send the first renewal of a lease that began at `t0`, and must be renewed by `due`.
    /// The result is a random moment in about the last three quarters of the time from `t0` to
    /// `due`.
    #[must_use]
    pub fn first(self, t0: Tick, due: Tick) -> Tick {
        self.sooner(t0, due, due.since(t0) / 4 * 3)
    }

    /// Like [`first`](Self::first), for a later renewal: in about the last eighth of the time.
    #[must_use]
    pub fn next(self, t0: Tick, due: Tick) -> Tick {
        self.sooner(t0, due, due.since(t0) / 8)
    }

    fn sooner(self, t0: Tick, due: Tick, within: Duration) -> Tick {
        let sooner = within.mul_f64(self.random as f64 / u64::MAX as f64);
        self.gathered(due.minus(sooner), due.since(t0) / 64)
    }

    /// Rounds `at` down to a moment on a grid. The grid's step is `width` in ns, rounded down to a
    /// power of two.
    fn gathered(self, at: Tick, width: Duration) -> Tick {
        let width = width.as_nanos().checked_ilog2().map_or(1, |bits| 1_u128 << bits);
        let past = (at.since_origin().as_nanos() + u128::from(self.phase)) % width;
        at.minus(Duration::from_nanos(past as u64))
    }
}

/// Whether a lease acquired at `since` may be renewed at `now`: only until `max_hold` has passed.
#[must_use]
pub fn within(max_hold: Option<Duration>, since: Tick, now: Tick) -> bool {
    max_hold.is_none_or(|max| now < since + max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::validity::Drift;
    use proptest::prelude::*;

    fn verdict(nodes: u32, votes: &[RenewVote]) -> Option<Renewal> {
        let mut tally = RenewalTally::new(Size::of(nodes));
        votes.iter().enumerate().for_each(|(node, &vote)| tally.count(node, vote));
        tally.verdict()
    }

    #[test]
    fn healed_nodes_do_not_renew_a_lock() {
        use RenewVote::{Extended, Healed, Unknown};
        assert_eq!(verdict(5, &[Extended, Extended, Healed, Unknown, Unknown]), Some(Renewal::Unclear));
        assert_eq!(verdict(5, &[Extended, Extended, Extended]), Some(Renewal::Extended));
    }

    #[test]
    fn lock_missing_from_a_majority_is_lost_even_if_not_taken() {
        use RenewVote::{Extended, Healed, Lost};
        assert_eq!(verdict(5, &[Healed, Healed, Healed]), Some(Renewal::Lost));
        assert_eq!(verdict(5, &[Extended, Extended, Healed, Lost, Lost]), Some(Renewal::Lost));
        assert_eq!(verdict(5, &[Healed, Healed, Extended, Extended, Extended]), Some(Renewal::Extended));
    }

    #[test]
    fn a_lost_lock_was_revoked_if_any_node_says_so() {
        use RenewVote::{Healed, Lost, Revoked};
        let why = |votes: &[RenewVote]| {
            let mut tally = RenewalTally::new(Size::of(3));
            votes.iter().enumerate().for_each(|(node, &vote)| tally.count(node, vote));
            (tally.verdict(), tally.why_lost())
        };
        assert_eq!(why(&[Revoked, Healed]), (Some(Renewal::Lost), LostReason::Revoked));
        assert_eq!(why(&[Lost, Healed]), (Some(Renewal::Lost), LostReason::Forgotten));
    }

    #[test]
    fn silence_is_neither_renewal_nor_loss() {
        assert_eq!(verdict(3, &[RenewVote::Unknown; 3]), Some(Renewal::Unclear));
    }

    #[test]
    fn a_renewal_is_due_after_a_third_of_the_validity() {
        let validity = Validity::new(Duration::from_millis(3_000), Drift { factor: 0.0, constant: Duration::ZERO });
        assert_eq!(due(Tick::new(Duration::from_secs(5)), validity), Tick::new(Duration::from_secs(6)));
    }

    fn third() -> (Tick, Tick) {
        (Tick::new(Duration::from_secs(100)), Tick::new(Duration::from_secs(110)))
    }

    #[test]
    fn leases_that_began_together_come_apart_at_once() {
        let (t0, due) = third();
        let first = |random| Spread { random, phase: 0 }.first(t0, due).since(t0);
        assert!(due.since(t0) - first(0) < Duration::from_millis(157), "{:?}", first(0));
        let soonest = first(u64::MAX);
        assert!((Duration::from_millis(2_343)..=Duration::from_millis(2_500)).contains(&soonest), "{soonest:?}");
    }

    #[test]
    fn renewals_due_close_together_share_one_moment() {
        let (t0, due) = third();
        let at = |ms| Spread { random: 0, phase: 77 }.next(t0, due + Duration::from_millis(ms));
        let moments: std::collections::BTreeSet<_> = (0..1_000).map(at).collect();
        assert!((6..=9).contains(&moments.len()), "{} moments in a second", moments.len());
    }

    #[test]
    fn processes_on_one_host_are_not_in_step() {
        let (t0, due) = third();
        let at = |phase| Spread { random: 0, phase }.next(t0, due);
        assert_ne!(at(0), at(50_000_000));
    }

    #[test]
    fn renewal_stops_at_the_longest_hold() {
        let start = Tick::new(Duration::from_secs(1));
        assert!(within(None, start, Tick::NEVER));
        assert!(within(Some(Duration::from_secs(2)), start, Tick::new(Duration::from_millis(2_999))));
        assert!(!within(Some(Duration::from_secs(2)), start, Tick::new(Duration::from_secs(3))));
    }

    proptest! {
        #[test]
        fn renewal_is_never_late_and_early_by_a_bounded_share(
            random in any::<u64>(), phase in any::<u64>(), t0 in 0..1_u64 << 50, third in 1_000..1_u64 << 42
        ) {
            let (t0, third) = (Tick::new(Duration::from_nanos(t0)), Duration::from_nanos(third));
            let spread = Spread { random, phase };
            for (at, part) in [(spread.first(t0, t0 + third), 5), (spread.next(t0, t0 + third), 2)] {
                prop_assert!(at <= t0 + third && (t0 + third).since(at) <= third / 6 * part, "{at:?}");
            }
        }

        #[test]
        fn extended_means_a_majority_extended(votes in proptest::collection::vec(0..4u8, 1..10)) {
            let of = |code: u8| match code {
                0 => RenewVote::Extended,
                1 => RenewVote::Healed,
                2 => RenewVote::Lost,
                _ => RenewVote::Unknown,
            };
            let votes: Vec<_> = votes.into_iter().map(of).collect();
            let extended = votes.iter().filter(|&&vote| vote == RenewVote::Extended).count();
            let verdict = verdict(votes.len() as u32, &votes);
            prop_assert!(verdict.is_some());
            prop_assert_eq!(verdict == Some(Renewal::Extended), 2 * extended > votes.len());
        }
    }
}
