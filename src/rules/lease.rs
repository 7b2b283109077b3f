//! One lease's decisions: until when it may be relied on, when it is renewed, and how it ends.
//!
//! A pure state machine, like [`Acquisition`](super::Acquisition): the caller tells it the time and
//! what happened, and sets the timers that it answers with. Lost is final.

use std::time::Duration;

use super::acquisition::Won;
use super::lost::LostReason;
use super::node_set::NodeSet;
use super::pace::{Due, EARLY, Pace};
use super::renewal::{Renewal, RenewalTally, due, within};
use super::tally::Size;
use super::tick::Tick;
use super::validity::Validity;

/// How long a section of what was handed over may take without a renewal of its own. Such a lock
/// lasts for some 3 s: what is done sooner than this leaves most of that, and costs its nodes a
/// third less.
pub const SHORT_SECTION: Duration = Duration::from_millis(100);

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
    /// The deadline moved; `margin` was left of the old one.
    Extended {
        /// What was left.
        margin: Duration,
        /// Of how much: how long the lease was relied on when it was last extended or won.
        of: Duration,
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

/// What was heard of a renewal.
#[derive(Clone, Copy, Debug)]
pub struct Heard<'a> {
    /// When it began.
    pub t0: Tick,
    /// What it came to.
    pub renewal: Renewal,
    /// By these votes.
    pub votes: &'a RenewalTally,
    /// The nodes that came into doubt since it began: their votes may have come before that.
    pub doubted: NodeSet,
}

/// What the deadline's timer finds when it fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The lease had ended before: nothing of it lingers any more.
    Over,
    /// The deadline is later: the timer is to be set to this moment.
    Later(Tick),
    /// The lease has ended now.
    Lost(LostReason),
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
    /// The nodes that stand behind the deadline, without those in doubt since: of several names behind
    /// all of them, and behind any.
    voters: NodeSet,
    backers: NodeSet,
    may_hold: NodeSet,
    failures: u32,
    /// Whether it is about to become something else: renewed no more, nor ended by a renewal.
    still: bool,
}

impl Tenure {
    /// Begins at `now`, with a round that was won.
    #[must_use]
    pub const fn new(size: Size, validity: Validity, max_hold: Option<Duration>, won: Won, now: Tick) -> Self {
        let Won { t0, deadline, handed_over, voters, backers, may_hold, .. } = won;
        let phase = Phase::Held;
        // What was handed over was asked for long ago, and lasts for a while from now.
        let whole = deadline.since(if handed_over { now } else { t0 });
        let (since, failures, still) = (now, 0, false);
        Self { size, validity, max_hold, since, phase, deadline, whole, voters, backers, may_hold, failures, still }
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

    /// Whether it is lost, and its old deadline has not come at `now`: nodes keep others out until
    /// then, unless its holder lets go before. The work under it may be ending still.
    #[must_use]
    pub fn lingers(&self, now: Tick) -> bool {
        matches!(self.phase, Phase::Lost(_)) && now < self.deadline
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
        self.is_held(now) && !self.still && within(self.max_hold, self.since, now)
    }

    /// When the timer of its deadline is to fire: a little before it, to tell of the loss in time; at
    /// the deadline itself once it is lost.
    #[must_use]
    pub const fn expires(&self) -> Tick {
        match self.phase {
            Phase::Held => self.deadline.minus(EARLY),
            Phase::Released | Phase::Lost(_) => self.deadline,
        }
    }

    /// When it is renewed first, if ever, as it begins with `won`.
    ///
    /// One that was handed over has little of its time, and the rest by a renewal only, whether or
    /// not it is renewed from then on.
    #[must_use]
    pub fn first_renewal<R: FnOnce() -> u64>(&self, won: &Won, pace: Pace<R>) -> Option<Due> {
        self.first(won, pace, Pace::first)
    }

    /// The same where it joins others that are renewed together: these are spread in time already,
    /// and all go when the first is due.
    #[must_use]
    pub fn joins<R: FnOnce() -> u64>(&self, won: &Won, pace: Pace<R>) -> Option<Due> {
        self.first(won, pace, Pace::next)
    }

    fn first<R>(
        &self,
        won: &Won,
        pace: Pace<R>,
        spread: impl FnOnce(Pace<R>, Tick, Tick) -> Option<Due>,
    ) -> Option<Due> {
        match won.handed_over {
            true => Some(Due::Alone(self.soon(pace.round_trip))),
            false => spread(pace, won.t0, due(self.deadline.minus(self.validity.length()), self.validity)),
        }
    }

    /// When one that was handed over is renewed: after the time in which a short section ends
    /// without, a `round_trip` and at least [`SHORT_SECTION`].
    fn soon(&self, round_trip: Duration) -> Tick {
        self.since + round_trip.max(SHORT_SECTION).min(self.deadline.since(self.since) / 4)
    }

    /// Something was sent for its owner: the nodes `sent` may hold the name from now on.
    pub const fn sent(&mut self, sent: NodeSet) {
        self.may_hold = self.may_hold.or(sent);
    }

    /// Until when to wait for a renewal that began at `t0` and may take so long.
    #[must_use]
    pub fn waits(&self, t0: Tick, timeout: Duration) -> Tick {
        self.deadline.min(t0 + timeout)
    }

    /// What a renewal changed, and when the next is sent, if that is to be set anew.
    pub fn renewed(&mut self, heard: Heard<'_>, pace: Pace<impl FnOnce() -> u64>, now: Tick) -> (Renewed, Option<Due>) {
        let (auto_renew, from) = (pace.auto_renew, pace.from);
        let renewed = self.heard(heard, now);
        let due = match renewed {
            Renewed::Extended { .. } => {
                let next = pace.next(heard.t0, due(heard.t0, self.validity));
                // It may rest on nodes that came into doubt since they answered.
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
        // A renewal that was overtaken by a later one moves nothing.
        let deadline = self.validity.deadline(t0);
        if deadline >= self.deadline {
            (self.deadline, self.whole) = (deadline, self.validity.length());
            (self.voters, self.backers) = (votes.extended(), votes.backers());
        }
        self.failures = 0;
        Renewed::Extended { margin, of }
    }

    const fn end(&mut self, reason: LostReason) -> Renewed {
        self.phase = Phase::Lost(reason);
        Renewed::Lost(reason)
    }

    /// These nodes are in doubt. When the lease is renewed for that, if it is: one of them stood
    /// behind its deadline, and without them no quorum does. (Names that no quorum extended together
    /// may have it still, each of its own.)
    pub fn doubted(&mut self, nodes: NodeSet, auto_renew: bool, now: Tick) -> Option<Due> {
        let stood = !self.backers.and(nodes).is_empty();
        (self.voters, self.backers) = (self.voters.without(nodes), self.backers.without(nodes));
        let rests = self.phase != Phase::Held || self.voters.len() >= self.size.quorum();
        (stood && !rests && auto_renew).then_some(Due::Alone(now))
    }

    /// From now on it is renewed no more, and no renewal ends it: at its deadline it does.
    pub const fn hold_still(&mut self) {
        self.still = true;
    }

    /// The timer of its deadline fired.
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
mod tests;
