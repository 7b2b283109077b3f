//! The decisions of one lease: until when it may be relied on, when to renew it, and how it ends.
//!
//! This is a pure state machine, like [`Acquisition`](super::Acquisition): the caller passes in the
//! time and the events, and sets the timers that the methods return. A lost lease stays lost.

use std::time::Duration;

use super::combination::Won;
use super::lost_reason::LostReason;
use super::node_set::NodeSet;
use super::pace::{Due, EARLY, Pace};
use super::renewal::{Renewal, RenewalTally, due, within};
use super::tally::Size;
use super::tick::Tick;
use super::validity::Validity;

/// A lock that was handed over is renewed after this time, unless it has been released by then. A
/// hand-over lasts for about 3 s, so most of it is left at the renewal. Shorter work ends before
/// this renewal, which saves one request to each node.
pub const SHORT_SECTION: Duration = Duration::from_millis(100);

/// The state of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The lease is held, if its deadline has not passed.
    Held,
    /// The holder released the lease.
    Released,
    /// The lease is lost.
    Lost(LostReason),
}

/// What a renewal changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// A quorum extended the lease.
    Extended {
        /// How much time was left until the old deadline.
        margin: Duration,
        /// How far ahead the old deadline was when it was set.
        of: Duration,
    },
    /// The lease has ended.
    Lost(LostReason),
    /// The answers decide nothing, so the deadline stays.
    Unclear {
        /// How many renewals in a row had had no result just before this one.
        failures: u32,
    },
    /// The lease had already ended, or another lease is about to replace it.
    Over,
}

impl Renewed {
    /// The result's name in traces.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Extended { .. } => "extended",
            Self::Lost(_) => "lost",
            Self::Unclear { .. } => "unclear",
            Self::Over => "over",
        }
    }
}

/// The answers to a renewal.
#[derive(Clone, Copy, Debug)]
pub struct Heard<'a> {
    /// When the renewal began.
    pub t0: Tick,
    /// What the votes decide.
    pub renewal: Renewal,
    /// The votes.
    pub votes: &'a RenewalTally,
    /// The nodes that came into doubt after the renewal began. They may have voted before their
    /// doubt.
    pub doubted: NodeSet,
}

/// The result when the deadline's timer fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The lease was released, or it was lost and its deadline has passed.
    Over,
    /// The deadline has been moved: set the timer to this moment.
    Later(Tick),
    /// The lease has ended now.
    Lost(LostReason),
}

/// One lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseState {
    size: Size,
    validity: Validity,
    max_hold: Option<Duration>,
    since: Tick,
    phase: Phase,
    deadline: Tick,
    /// How far ahead the deadline was when it was set.
    whole: Duration,
    /// The nodes whose votes set the deadline, without the nodes that came into doubt after that.
    /// For a set of names: nodes in `granted` voted for all names, nodes in `backers` for at least
    /// one name.
    granted: NodeSet,
    backers: NodeSet,
    may_hold: NodeSet,
    failures: u32,
    /// Whether another lease is about to replace this one. If so, this lease sends no renewal, and
    /// the result of a renewal that is under way does not count.
    still: bool,
}

impl LeaseState {
    /// The lease of a round that was won; the lease begins at `now`.
    #[must_use]
    pub const fn new(size: Size, validity: Validity, max_hold: Option<Duration>, won: Won, now: Tick) -> Self {
        let Won { t0, deadline, handed_over, granted, backers, may_hold, .. } = won;
        let phase = Phase::Held;
        // A hand-over may answer an old claim, so `whole` is counted from `now`.
        let whole = deadline.since(if handed_over { now } else { t0 });
        let (since, failures, still) = (now, 0, false);
        Self { size, validity, max_hold, since, phase, deadline, whole, granted, backers, may_hold, failures, still }
    }

    /// The state. After the deadline, the state stays `Held` until `deadline_reached`, `renewed` or
    /// `lose` runs.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// When the lease was acquired.
    #[must_use]
    pub const fn since(&self) -> Tick {
        self.since
    }

    /// Until when the lease may be relied on.
    #[must_use]
    pub const fn deadline(&self) -> Tick {
        self.deadline
    }

    /// The nodes that may hold the name for this lease.
    #[must_use]
    pub const fn may_hold(&self) -> NodeSet {
        self.may_hold
    }

    /// How much validity is left; zero after a release or a loss.
    #[must_use]
    pub const fn remaining(&self, now: Tick) -> Duration {
        match self.phase {
            Phase::Held => self.deadline.since(now),
            Phase::Released | Phase::Lost(_) => Duration::ZERO,
        }
    }

    /// Whether the lease is held at `now`.
    #[must_use]
    pub fn is_held(&self, now: Tick) -> bool {
        self.phase == Phase::Held && now < self.deadline
    }

    /// Whether the lease is lost, but its last deadline has not passed at `now`. Work under the
    /// lock may still run, so nodes keep other owners out until the deadline, unless the holder
    /// releases.
    #[must_use]
    pub fn lingers(&self, now: Tick) -> bool {
        matches!(self.phase, Phase::Lost(_)) && now < self.deadline
    }

    /// Why the lease is lost at `now`, even if no timer has fired yet; `None` if it is not lost.
    #[must_use]
    pub fn lost(&self, now: Tick) -> Option<LostReason> {
        match self.phase {
            Phase::Lost(reason) => Some(reason),
            Phase::Held if now >= self.deadline => Some(self.expired(now)),
            Phase::Held | Phase::Released => None,
        }
    }

    /// Whether the lease may be renewed at `now`.
    #[must_use]
    pub fn may_renew(&self, now: Tick) -> bool {
        self.is_held(now) && !self.still && within(self.max_hold, self.since, now)
    }

    /// When the deadline's timer must fire: a little before the deadline, so that the loss is
    /// reported in time. If the lease is lost, the timer must fire at the deadline itself.
    #[must_use]
    pub const fn expires(&self) -> Tick {
        match self.phase {
            Phase::Held => self.deadline.minus(EARLY),
            Phase::Released | Phase::Lost(_) => self.deadline,
        }
    }

    /// When to renew the lease for the first time; `None` if it is never renewed. `won` is the
    /// round that won the lease.
    ///
    /// After a hand-over, the first renewal is sent even without `auto_renew`, to get the whole
    /// ttl.
    #[must_use]
    pub fn first_renewal(&self, won: &Won, pace: Pace<impl FnOnce() -> u64>) -> Option<Due> {
        self.soon(won, pace.round_trip).or_else(|| pace.first(won.t0, self.first_due()))
    }

    /// Like [`first_renewal`](Self::first_renewal), for a lease that joins a session. Unless the
    /// lock was handed over, its first renewal is timed like a later one: the renewals of sessions
    /// are spread already.
    #[must_use]
    pub fn joins(&self, won: &Won, pace: Pace<impl FnOnce() -> u64>) -> Option<Due> {
        self.soon(won, pace.round_trip).or_else(|| pace.next(won.t0, self.first_due()))
    }

    fn first_due(&self) -> Tick {
        due(self.deadline.minus(self.validity.length()), self.validity)
    }

    /// When to renew a lock that was handed over; `None` for other locks. The renewal is sent after
    /// [`SHORT_SECTION`], or after `round_trip` if that is longer, so that short work needs no
    /// renewal. At the latest, the renewal is sent after a quarter of the time until the deadline.
    fn soon(&self, won: &Won, round_trip: Duration) -> Option<Due> {
        let after = round_trip.max(SHORT_SECTION).min(self.deadline.since(self.since) / 4);
        won.handed_over.then(|| Due::Alone(self.since + after))
    }

    /// Notes that a renewal for the owner was sent to the nodes `sent`. From now on, these nodes
    /// may hold the name.
    pub const fn sent(&mut self, sent: NodeSet) {
        self.may_hold = self.may_hold.or(sent);
    }

    /// Until when to wait for the answers to a renewal that began at `t0`.
    #[must_use]
    pub fn waits(&self, t0: Tick, timeout: Duration) -> Tick {
        self.deadline.min(t0 + timeout)
    }

    /// Counts the answers to a renewal. Returns what they changed, and when to send the next
    /// renewal, if any.
    pub fn renewed(&mut self, heard: Heard<'_>, pace: Pace<impl FnOnce() -> u64>, now: Tick) -> (Renewed, Option<Due>) {
        let (auto_renew, from) = (pace.auto_renew, pace.from);
        let renewed = self.heard(heard, now);
        let due = match renewed {
            Renewed::Extended { .. } => {
                let next = pace.next(heard.t0, due(heard.t0, self.validity));
                // The lease may depend on nodes that came into doubt after they answered.
                self.doubted(heard.doubted, auto_renew, from).or(next)
            }
            Renewed::Unclear { failures } => Some(pace.again(failures, self.deadline)),
            Renewed::Lost(_) | Renewed::Over => None,
        };
        (renewed, due)
    }

    fn heard(&mut self, heard: Heard<'_>, now: Tick) -> Renewed {
        if self.phase != Phase::Held || self.still {
            return Renewed::Over;
        }
        if now >= self.deadline {
            return self.end(self.expired(now));
        }
        match heard.renewal {
            Renewal::Extended => self.extended(heard.t0, heard.votes, now),
            Renewal::Lost => self.end(heard.votes.why_lost()),
            Renewal::Unclear => {
                let failures = self.failures;
                self.failures = failures.saturating_add(1);
                Renewed::Unclear { failures }
            }
        }
    }

    fn extended(&mut self, t0: Tick, votes: &RenewalTally, now: Tick) -> Renewed {
        let (margin, of) = (self.deadline.since(now), self.whole);
        // A renewal that began before the last success does not move the deadline back.
        let deadline = self.validity.deadline(t0);
        if deadline >= self.deadline {
            (self.deadline, self.whole) = (deadline, self.validity.length());
            (self.granted, self.backers) = (votes.extended(), votes.backers());
        }
        self.failures = 0;
        Renewed::Extended { margin, of }
    }

    const fn end(&mut self, reason: LostReason) -> Renewed {
        self.phase = Phase::Lost(reason);
        Renewed::Lost(reason)
    }

    /// Notes that these nodes are in doubt. If one of them voted for the lease, and the other
    /// voters are no quorum, the lease must be renewed at once. In this case, returns `Some` if
    /// `auto_renew` is on. (For a set, only nodes that voted for all names count as other voters.)
    pub fn doubted(&mut self, nodes: NodeSet, auto_renew: bool, now: Tick) -> Option<Due> {
        let stood = !self.backers.and(nodes).is_empty();
        (self.granted, self.backers) = (self.granted.without(nodes), self.backers.without(nodes));
        let rests = self.phase != Phase::Held || self.granted.len() >= self.size.quorum();
        (stood && !rests && auto_renew).then_some(Due::Alone(now))
    }

    /// Notes that another lease will replace this lease soon. From now on, this lease is not
    /// renewed, and ends at its deadline.
    pub const fn hold_still(&mut self) {
        self.still = true;
    }

    /// Decides what to do when the deadline's timer fires.
    pub fn deadline_reached(&mut self, now: Tick) -> Expiry {
        if self.phase != Phase::Released && now < self.expires() {
            return Expiry::Later(self.expires());
        }
        if self.phase != Phase::Held {
            return Expiry::Over;
        }
        let reason = self.expired(now);
        self.phase = Phase::Lost(reason);
        Expiry::Lost(reason)
    }

    /// Ends the lease as lost, if it is held. Returns whether it was held.
    pub fn lose(&mut self, reason: LostReason) -> bool {
        let held = self.phase == Phase::Held;
        if held {
            self.phase = Phase::Lost(reason);
        }
        held
    }

    /// Ends the lease as released, if it is held at `now`. Returns whether it was held.
    pub fn release(&mut self, now: Tick) -> bool {
        let held = self.is_held(now);
        if held {
            self.phase = Phase::Released;
        }
        held
    }

    /// Why a lease ends at its deadline.
    #[must_use]
    pub fn expired(&self, now: Tick) -> LostReason {
        if within(self.max_hold, self.since, now) { LostReason::Expired } else { LostReason::MaxHold }
    }
}

#[cfg(test)]
mod tests;
