//! One lease's decisions: until when it may be relied on, when it is renewed, and how it ends.
//!
//! A pure state machine, like [`Acquisition`](super::Acquisition). Lost is final.

use std::fmt;
use std::time::Duration;

use super::acquisition::Won;
use super::node_set::NodeSet;
use super::renewal::{Renewal, RenewalTally, due, within};
use super::tally::Size;
use super::tick::Tick;
use super::validity::Validity;

/// How long a section of what was handed over may take without a renewal of its own. Such a lock
/// lasts for some 3 s: what is done sooner than this leaves most of that, and costs its nodes a
/// third less.
pub const SHORT_SECTION: Duration = Duration::from_millis(100);

/// Why a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// Its validity ended before a quorum renewed it.
    Expired,
    /// So many nodes hold it for others, or for nobody, that no quorum can hold it for us.
    Refused,
    /// It was held for as long as [`max_hold`](crate::LockOptions::max_hold) allows.
    MaxHold,
    /// The quorum was shut down.
    Closed,
}

impl LostReason {
    pub(crate) const ALL: [Self; 4] = [Self::Expired, Self::Refused, Self::MaxHold, Self::Closed];

    /// The reason's name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Refused => "refused",
            Self::MaxHold => "max_hold",
            Self::Closed => "closed",
        }
    }

    pub(crate) const fn explanation(self) -> &'static str {
        match self {
            Self::Expired => "its validity ended before a quorum renewed it",
            Self::Refused => {
                "no quorum of nodes holds it for this client any more: it was taken away, or they forgot it"
            }
            Self::MaxHold => "it was held for as long as max_hold allows",
            Self::Closed => "the quorum was shut down",
        }
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.explanation())
    }
}

/// How a lease is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It is held, if its deadline has not passed.
    Held,
    /// Its holder gave it up.
    Released,
    /// It is lost.
    Lost(LostReason),
}

/// What a renewal changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The deadline moved; `margin` was left of the old one. The next renewal is due at `next`.
    Extended {
        /// What was left.
        margin: Duration,
        /// Of how much: how long the lease was relied on when it was last extended or won.
        of: Duration,
        /// When to renew again.
        next: Tick,
    },
    /// The lease has ended.
    Lost(LostReason),
    /// Neither; how many renewals in a row have come to nothing before this one.
    Unclear {
        /// How many.
        failures: u32,
    },
    /// The lease had ended before.
    Over,
}

impl Renewed {
    /// What it came to, as traces call it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Extended { .. } => "extended",
            Self::Lost(_) => "lost",
            Self::Unclear { .. } => "unclear",
            Self::Over => "over",
        }
    }
}

/// One lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tenure {
    size: Size,
    validity: Validity,
    max_hold: Option<Duration>,
    since: Tick,
    phase: Phase,
    deadline: Tick,
    /// How far off the deadline was when it was set.
    whole: Duration,
    /// The nodes that stand behind the deadline, without those in doubt since.
    voters: NodeSet,
    may_hold: NodeSet,
    failures: u32,
}

impl Tenure {
    /// Begins at `now`, with a round that was won.
    #[must_use]
    pub const fn new(size: Size, validity: Validity, max_hold: Option<Duration>, won: Won, now: Tick) -> Self {
        let Won { t0, deadline, handed_over, voters, may_hold, .. } = won;
        let phase = Phase::Held;
        // What was handed over was asked for long ago, and lasts for a while from now.
        let whole = deadline.since(if handed_over { now } else { t0 });
        Self { size, validity, max_hold, since: now, phase, deadline, whole, voters, may_hold, failures: 0 }
    }

    /// How it is. A lease whose deadline has passed and that nobody has ended is still `Held`.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// When it was acquired.
    #[must_use]
    pub const fn since(&self) -> Tick {
        self.since
    }

    /// Until when it may be relied on.
    #[must_use]
    pub const fn deadline(&self) -> Tick {
        self.deadline
    }

    /// The nodes that may hold the name for it.
    #[must_use]
    pub const fn may_hold(&self) -> NodeSet {
        self.may_hold
    }

    /// What is left of the validity; zero once it is over, released or lost.
    #[must_use]
    pub const fn remaining(&self, now: Tick) -> Duration {
        match self.phase {
            Phase::Held => self.deadline.since(now),
            Phase::Released | Phase::Lost(_) => Duration::ZERO,
        }
    }

    /// Whether it is held at `now`.
    #[must_use]
    pub fn is_held(&self, now: Tick) -> bool {
        self.phase == Phase::Held && now < self.deadline
    }

    /// Why it is lost at `now`: also where its time is over and no timer has noticed. `None` where
    /// it is held or was released.
    #[must_use]
    pub fn lost(&self, now: Tick) -> Option<LostReason> {
        match self.phase {
            Phase::Lost(reason) => Some(reason),
            Phase::Held if now >= self.deadline => Some(self.expired(now)),
            Phase::Held | Phase::Released => None,
        }
    }

    /// Whether it may be renewed at `now`.
    #[must_use]
    pub fn may_renew(&self, now: Tick) -> bool {
        self.is_held(now) && within(self.max_hold, self.since, now)
    }

    /// When it is due for its first renewal, as it is now. One that was handed over has little of
    /// its time: it is due soon, but for the time in which a short section ends without: a
    /// `round_trip`, and at least [`SHORT_SECTION`].
    #[must_use]
    pub fn first_renewal(&self, handed_over: bool, round_trip: Duration) -> Tick {
        let by_validity = due(self.deadline.minus(self.validity.length()), self.validity);
        let soon = self.since + round_trip.max(SHORT_SECTION).min(self.deadline.since(self.since) / 4);
        if handed_over { soon } else { by_validity }
    }

    /// Something was sent for its owner: the nodes `sent` may hold the name from now on.
    pub const fn sent(&mut self, sent: NodeSet) {
        self.may_hold = self.may_hold.or(sent);
    }

    /// The renewal that began at `t0` came to `renewal` with these votes.
    pub fn renewed(&mut self, t0: Tick, renewal: Renewal, votes: &RenewalTally, now: Tick) -> Renewed {
        if self.phase != Phase::Held {
            return Renewed::Over;
        }
        if now >= self.deadline {
            return self.end(self.expired(now));
        }
        match renewal {
            Renewal::Extended => self.extended(t0, votes.extended(), now),
            Renewal::Lost => self.end(LostReason::Refused),
            Renewal::Unclear => {
                let failures = self.failures;
                self.failures = failures.saturating_add(1);
                Renewed::Unclear { failures }
            }
        }
    }

    fn extended(&mut self, t0: Tick, voters: NodeSet, now: Tick) -> Renewed {
        let (margin, of) = (self.deadline.since(now), self.whole);
        // A renewal that was overtaken by a later one moves nothing.
        let deadline = self.validity.deadline(t0);
        if deadline >= self.deadline {
            (self.deadline, self.whole, self.voters) = (deadline, self.validity.length(), voters);
        }
        self.failures = 0;
        Renewed::Extended { margin, of, next: due(t0, self.validity) }
    }

    fn end(&mut self, reason: LostReason) -> Renewed {
        self.phase = Phase::Lost(reason);
        Renewed::Lost(reason)
    }

    /// A node is in doubt. Returns whether the lease is to be renewed at once: the node stands
    /// behind its deadline, and without it no quorum does.
    pub const fn doubted(&mut self, node: usize) -> bool {
        let stood = self.voters.contains(node);
        self.voters.remove(node);
        stood && matches!(self.phase, Phase::Held) && self.voters.len() < self.size.quorum()
    }

    /// Ends it as lost, if it is held. Returns whether it was.
    pub fn lose(&mut self, reason: LostReason) -> bool {
        let held = self.phase == Phase::Held;
        if held {
            self.phase = Phase::Lost(reason);
        }
        held
    }

    /// Its holder gives it up, in time. Returns whether it was held.
    pub fn release(&mut self, now: Tick) -> bool {
        let held = self.is_held(now);
        if held {
            self.phase = Phase::Released;
        }
        held
    }

    /// Why a lease ends whose time is over.
    #[must_use]
    pub fn expired(&self, now: Tick) -> LostReason {
        if within(self.max_hold, self.since, now) { LostReason::Expired } else { LostReason::MaxHold }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Drift, RenewVote};

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(since: u64) -> Tick {
        Tick::new(ms(since))
    }

    fn tenure(max_hold: Option<Duration>) -> Tenure {
        let validity = Validity::new(ms(1_000), Drift::default());
        let mut voters = NodeSet::of(0);
        voters.insert(1);
        let deadline = validity.deadline(at(0));
        let (least, may_hold) = (Duration::ZERO, voters);
        let won = Won { t0: at(0), ballot: 7, highest: 7, handed_over: false, deadline, least, voters, may_hold };
        Tenure::new(Size::of(3), validity, max_hold, won, at(10))
    }

    fn votes(votes: &[(usize, RenewVote)]) -> RenewalTally {
        let mut tally = RenewalTally::new(Size::of(3));
        votes.iter().for_each(|&(node, vote)| tally.count(node, vote));
        tally
    }

    /// What was handed over lasts for less than a whole validity, and is not nearly over for that.
    #[test]
    fn a_margin_is_part_of_what_the_lease_was_extended_or_won_for() {
        let mut tenure = tenure(None);
        let extended = votes(&[(0, RenewVote::Extended), (1, RenewVote::Extended)]);
        let of = |renewed| match renewed {
            Renewed::Extended { margin, of, .. } => (margin, of),
            other => panic!("{other:?}"),
        };
        assert_eq!(of(tenure.renewed(at(330), Renewal::Extended, &extended, at(340))), (ms(648), ms(988)));
        let (validity, voters) = (tenure.validity, tenure.voters);
        let won = Won {
            t0: at(0),
            ballot: 7,
            highest: 7,
            handed_over: true,
            deadline: at(500),
            least: Duration::ZERO,
            voters,
            may_hold: voters,
        };
        let mut tenure = Tenure::new(Size::of(3), validity, None, won, at(300));
        assert_eq!(of(tenure.renewed(at(350), Renewal::Extended, &extended, at(360))), (ms(140), ms(200)));
        assert_eq!(of(tenure.renewed(at(700), Renewal::Extended, &extended, at(738))), (ms(600), ms(988)));
    }

    #[test]
    fn each_reason_has_a_name_for_metrics_and_an_explanation_for_people() {
        let all = LostReason::ALL;
        assert_eq!(all.map(LostReason::as_str), ["expired", "refused", "max_hold", "closed"]);
        let words = ["validity ended", "taken away", "max_hold", "shut down"];
        assert!(all.iter().zip(words).all(|(reason, word)| reason.to_string().contains(word)));
    }

    #[test]
    fn it_is_held_until_its_deadline_and_lost_from_then_on_whatever_timers_do() {
        let tenure = tenure(None);
        assert!(tenure.is_held(at(987)) && tenure.lost(at(987)).is_none());
        assert_eq!((tenure.is_held(at(988)), tenure.lost(at(988))), (false, Some(LostReason::Expired)));
        assert_eq!((tenure.remaining(at(900)), tenure.first_renewal(false, ms(5))), (ms(88), at(0) + ms(988) / 3));
    }

    #[test]
    fn what_was_handed_over_is_renewed_after_a_short_section_or_a_round_trip_and_in_time() {
        let tenure = tenure(None);
        assert_eq!((tenure.first_renewal(true, ms(5)), tenure.first_renewal(true, ms(150))), (at(110), at(160)));
        assert_eq!(tenure.first_renewal(true, ms(900)), at(10) + ms(978) / 4);
    }

    #[test]
    fn it_began_when_it_was_won_and_may_be_held_by_whoever_was_asked_since() {
        let mut tenure = tenure(None);
        assert_eq!((tenure.since(), tenure.may_hold()), (at(10), NodeSet::first(2)));
        tenure.sent(NodeSet::of(2));
        assert_eq!(tenure.may_hold(), NodeSet::first(3));
    }

    #[test]
    fn a_renewal_moves_the_deadline_from_its_own_beginning() {
        let mut tenure = tenure(None);
        let extended = votes(&[(1, RenewVote::Extended), (2, RenewVote::Extended)]);
        let renewed = tenure.renewed(at(300), Renewal::Extended, &extended, at(320));
        assert_eq!(renewed, Renewed::Extended { margin: ms(668), of: ms(988), next: at(300) + ms(988) / 3 });
        assert_eq!(tenure.deadline(), at(1_288));
        tenure.renewed(at(200), Renewal::Extended, &extended, at(330));
        assert_eq!(tenure.deadline(), at(1_288), "one that was overtaken moves nothing back");
    }

    #[test]
    fn a_renewal_that_comes_after_the_deadline_renews_nothing() {
        let mut tenure = tenure(None);
        let extended = votes(&[(0, RenewVote::Extended), (1, RenewVote::Extended)]);
        let renewed = tenure.renewed(at(300), Renewal::Extended, &extended, at(988));
        assert_eq!((renewed, tenure.phase()), (Renewed::Lost(LostReason::Expired), Phase::Lost(LostReason::Expired)));
        assert_eq!(tenure.renewed(at(300), Renewal::Extended, &extended, at(500)), Renewed::Over, "lost is final");
    }

    #[test]
    fn it_is_renewed_at_once_when_a_doubt_leaves_no_quorum_behind_its_deadline() {
        let mut tenure = tenure(None);
        assert!(!tenure.doubted(2), "that node did not vote");
        assert!(tenure.doubted(0));
        assert!(!tenure.doubted(0), "once");
        let all = votes(&[(0, RenewVote::Extended), (1, RenewVote::Extended), (2, RenewVote::Extended)]);
        tenure.renewed(at(300), Renewal::Extended, &all, at(320));
        assert!(!tenure.doubted(0), "two are a quorum still");
        assert!(tenure.doubted(1));
        tenure.release(at(400));
        assert!(!tenure.doubted(2), "it is over");
    }

    #[test]
    fn a_lease_past_its_longest_hold_is_not_renewed_and_ends_by_that_reason() {
        let tenure = tenure(Some(ms(400)));
        assert!(tenure.may_renew(at(409)) && !tenure.may_renew(at(410)));
        assert_eq!(tenure.lost(at(988)), Some(LostReason::MaxHold));
    }

    #[test]
    fn only_what_is_held_can_be_released_or_lost() {
        let (mut late, mut early) = (tenure(None), tenure(None));
        assert!(!late.release(at(988)) && late.lose(LostReason::Closed) && !late.lose(LostReason::Expired));
        assert!(early.release(at(987)) && !early.lose(LostReason::Closed));
        assert_eq!((late.phase(), early.phase()), (Phase::Lost(LostReason::Closed), Phase::Released));
    }

    #[test]
    fn renewals_that_come_to_nothing_are_counted_until_one_succeeds() {
        let mut tenure = tenure(None);
        let none = votes(&[]);
        for failures in 0..3 {
            let renewed = tenure.renewed(at(300), Renewal::Unclear, &none, at(320));
            assert_eq!(renewed, Renewed::Unclear { failures });
        }
        let all = votes(&[(0, RenewVote::Extended), (1, RenewVote::Extended)]);
        tenure.renewed(at(330), Renewal::Extended, &all, at(340));
        assert_eq!(tenure.renewed(at(350), Renewal::Unclear, &none, at(360)), Renewed::Unclear { failures: 0 });
    }
}
