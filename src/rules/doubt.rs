//! The restart guard and the clock guard: which node may vote on claims, and from when.
//!
//! A node that lost its memory may grant a name twice. A node whose clock was stepped may have
//! ended a hold early. Neither may vote on a claim until every hold that it may have forgotten has
//! ended. So a node votes when its record is `max_ttl` old and the node was not doubted for as
//! long. This one rule covers a restart, FLUSHALL, an old file and a failover.
//!
//! Renewals need less time: a node that replies `extended` holds the name for its owner now. But
//! `extended` must not count at once, because another client's round may still count a grant that
//! the node has forgotten. No vote for a claim counts for longer than [`MAX_ROUND`]. So no such
//! round is left after `1.02 * MAX_ROUND`, if clocks run apart by 1 %. `docs/protocol.md`, "Doubted
//! nodes", has an example and the proof.

mod granted;
mod offset;
#[cfg(test)]
mod tests;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use self::granted::Granted;
use self::offset::Offset;
use self::wait::Wait;
use super::list::{Record, is_same_process};
use super::tick::Tick;
use super::validity::MAX_ROUND;

/// Why a node's votes on claims do not count at present.
///
/// # What cannot be seen
///
/// A client judges a node by its record, its process and its clock. It does not notice:
///
/// - A lock that is removed while the record stays: a `DEL` by hand, eviction, an old snapshot.
/// - An event before this client first saw the node, if the record shows no trace of it.
/// - A step of the clock that is undone before the next reply, or that drift could explain: up to
///   1 % of the time since the last reply, and one round trip.
///
/// After any of these, keep clients away from the node for `max_ttl`: stop the node, or close its
/// port. By then, no lock that the node forgot is held. Storage that checks fencing tokens is safe
/// in all these cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Doubt {
    /// The server is new, was restarted, or was replaced by another server.
    Restarted,
    /// The node forgot what it had granted: its keys were deleted, or an old state was loaded.
    Forgot,
    /// The node's clock was stepped.
    ClockStepped,
    /// The node forgot locks, all of which have ended since. It cannot vote until it is synced:
    /// until its fences are raised to the ballots that other nodes have granted.
    Unsynced,
}

impl Doubt {
    /// The causes of a doubt. [`Unsynced`](Self::Unsynced) is no cause: it follows from one of
    /// these.
    pub const CAUSES: [Self; 3] = [Self::Restarted, Self::Forgot, Self::ClockStepped];

    /// The doubt's name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Restarted => "restarted",
            Self::Forgot => "forgot",
            Self::ClockStepped => "clock_stepped",
            Self::Unsynced => "unsynced",
        }
    }
}

/// Which replies of a node count at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Trust {
    /// Whether grants are votes.
    pub grants: bool,
    /// Whether `extended` is a vote.
    pub extensions: bool,
}

/// How long after its quarantine a node is synced anyway, if too few other nodes can sync it.
pub(super) const LATE: Duration = Duration::from_secs(2);
/// The least time that is reported as left for an unsynced node: only a hello can sync the node.
const SOON: Duration = Duration::from_secs(1);

/// What a client knows of a node's memory and clock, across all connections to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RestartGuard {
    max_ttl: Duration,
    /// How fast two clocks may run apart, in parts per million.
    rate: u32,
    offset: Option<Offset>,
    /// The process that INFO showed last.
    process: Option<Arc<str>>,
    /// Whether the process has changed since the last record, or the server was seen as a replica.
    replaced: bool,
    /// The last record that was received.
    record: Option<Record>,
    /// Whether the node had a record at its last hello.
    present: bool,
    /// The wait that follows from the record's age.
    young: Wait,
    doubted: Option<(Doubt, Wait)>,
    granted: Granted,
    news: bool,
}

impl RestartGuard {
    /// A guard for locks of up to `max_ttl`; zero switches the guard off. `rate` is the share by
    /// which two clocks may run apart.
    #[must_use]
    pub fn new(max_ttl: Duration, rate: f64) -> Self {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share, from 0 to 1")]
        let rate = (rate * 1e6) as u32;
        Self {
            max_ttl,
            rate,
            offset: None,
            process: None,
            replaced: false,
            record: None,
            present: false,
            young: Wait::default(),
            doubted: None,
            granted: Granted::default(),
            news: false,
        }
    }

    /// INFO showed that the server is this process. A record of another process does not count
    /// until a hello has written the present process into it. If one connection shows the process
    /// and the record, call this before [`hello`](Self::hello).
    pub fn meets_process(&mut self, process: &str) {
        self.replaced |= self.process.as_deref().is_some_and(|known| !is_same_process(known, process));
        self.process = Some(process.into());
    }

    /// The node was seen as a replica. As a master again, it has the memory of another server.
    pub const fn demoted(&mut self) {
        self.replaced = true;
    }

    /// A hello, sent at `sent` and answered at `received`, returned the record, if there is one.
    pub fn hello(&mut self, record: Option<&Record>, sent: Tick, received: Tick) {
        let Some(record) = record else {
            if std::mem::take(&mut self.present) {
                self.doubt(Doubt::Forgot, Duration::ZERO, received);
            }
            return;
        };
        self.compare(record, sent, received);
        self.young = self.wait(received, record.age);
        self.granted.heard();
        self.record = Some(record.clone());
        self.present = true;
    }

    /// Raises a doubt if this record shows that the node may have forgotten something.
    fn compare(&mut self, record: &Record, sent: Tick, received: Tick) {
        let replaced = self.replaced && self.process.as_deref().is_none_or(|process| record.is_of(process));
        self.replaced &= !replaced;
        let other = self.record.as_ref().filter(|known| known.id != record.id);
        if let Some(known) = other {
            let restarted = replaced || known.process != record.process;
            // All clients count the doubt from the record's age, so it ends for all at the same
            // time. A record that was old at once has no true age.
            let age = if record.word.is_none() { record.age } else { Duration::ZERO };
            self.doubt(if restarted { Doubt::Restarted } else { Doubt::Forgot }, age, received);
            self.granted = Granted::default();
        } else if replaced {
            self.doubt(Doubt::Restarted, Duration::ZERO, received);
        } else if record.high < self.granted.least(sent) {
            self.doubt(Doubt::Forgot, Duration::ZERO, received);
            self.granted = Granted::default();
        }
    }

    /// A grant of this ballot was counted at `now`. A later record with a lower `high` has lost
    /// that grant.
    pub fn granted(&mut self, ballot: u64, now: Tick) {
        let time = self.offset.map(Offset::time);
        self.granted.count(ballot, time, now);
    }

    /// A reply, received at `now`, showed this record id, or no record. Returns false if the known
    /// record has another id: then the reply counts as `forgot`.
    pub fn showed(&mut self, id: Option<&str>, now: Tick) -> bool {
        let same = self.record.is_none() || self.record().map(|known| &*known.id) == id;
        if !same {
            self.doubt(Doubt::Forgot, Duration::ZERO, now);
        }
        same
    }

    /// The node's record; `None` if it had none at its last hello, or no hello was answered.
    #[must_use]
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref().filter(|_| self.present)
    }

    /// The id of the last record that was received, even if the node has lost that record since.
    #[must_use]
    pub fn id(&self) -> Option<&Arc<str>> {
        self.record.as_ref().map(|record| &record.id)
    }

    /// A reply carried the node's `time`. Its request was sent at `sent`, and the reply was
    /// received at `received`. Returns whether the clock was stepped since the last reply. If so,
    /// the votes of this reply do not count either.
    pub fn observe(&mut self, time: Duration, sent: Tick, received: Tick) -> bool {
        let seen = Offset::new(time, sent, received);
        let Some(last) = self.offset else {
            self.offset = Some(seen);
            return false;
        };
        let expected = last.widened(received, self.rate);
        let stepped = !expected.meets(seen);
        self.offset = Some(if stepped { seen } else { expected.intersected(seen) });
        if stepped {
            self.doubt(Doubt::ClockStepped, Duration::ZERO, received);
        }
        stepped && !self.max_ttl.is_zero()
    }

    /// A push carried the node's `time`, and was received at `received`. Nobody knows when the push
    /// was sent, so the push is only a lower bound of how far the clock is ahead. Returns whether
    /// the clock was stepped, as [`observe`](Self::observe) does.
    pub fn observe_push(&mut self, time: Duration, received: Tick) -> bool {
        let Some(last) = self.offset else { return false };
        let expected = last.widened(received, self.rate);
        // After a step, the next reply shows the new offset.
        self.offset = expected.at_least(time, received);
        let stepped = self.offset.is_none();
        if stepped {
            self.doubt(Doubt::ClockStepped, Duration::ZERO, received);
        }
        stepped && !self.max_ttl.is_zero()
    }

    /// How far the node's clock is ahead of ours, in microseconds: the middle of the bounds; `None`
    /// before the first reply.
    #[must_use]
    pub fn clock_ahead(&self) -> Option<i128> {
        self.offset.map(|offset| offset.low.midpoint(offset.high))
    }

    /// How much longer at least the node may not vote on claims, and why; `None` if it may vote.
    #[must_use]
    pub fn quarantined(&self, now: Tick) -> Option<(Duration, Doubt)> {
        if self.max_ttl.is_zero() {
            return None;
        }
        let Some(record) = self.current() else {
            let forgot = self.record.is_some() && !self.present && !self.replaced;
            let why = if forgot { Doubt::Forgot } else { Doubt::Restarted };
            return Some((self.wait(now, Duration::ZERO).until.since(now), why));
        };
        let free_at = self.free_at();
        if now < free_at {
            let doubted = self.doubted.filter(|(_, wait)| now < wait.until);
            return Some((free_at.since(now), doubted.map_or(Doubt::Restarted, |(why, _)| why)));
        }
        (!record.synced).then(|| ((free_at + LATE).since(now).max(SOON), Doubt::Unsynced))
    }

    /// The node's record, if it belongs to the present process.
    fn current(&self) -> Option<&Record> {
        let record = self.record().filter(|_| !self.replaced)?;
        self.process.as_deref().is_none_or(|process| record.is_of(process)).then_some(record)
    }

    /// When the node may vote again, if it is synced by then.
    #[must_use]
    pub fn free_at(&self) -> Tick {
        self.waits().until
    }

    /// From when on `extended` counts, and the node can be synced.
    #[must_use]
    pub fn settles_at(&self) -> Tick {
        self.waits().settled
    }

    /// Whether `extended` counts at `now`.
    #[must_use]
    pub fn settled(&self, now: Tick) -> bool {
        self.max_ttl.is_zero() || self.current().is_some() && now >= self.settles_at()
    }

    /// Which replies of the node count at `now`.
    #[must_use]
    pub fn trust(&self, now: Tick) -> Trust {
        Trust { grants: self.quarantined(now).is_none(), extensions: self.settled(now) }
    }

    /// Whether a doubt was raised since the last call: then renew the locks that rest on this node.
    pub const fn take_news(&mut self) -> bool {
        std::mem::replace(&mut self.news, false)
    }

    fn waits(&self) -> Wait {
        self.doubted.map_or(self.young, |(_, wait)| wait.longer(self.young))
    }

    /// Records a doubt that had lasted for `age` at `now`.
    fn doubt(&mut self, why: Doubt, age: Duration, now: Tick) {
        if self.max_ttl.is_zero() {
            return;
        }
        let wait = self.wait(now, age);
        self.news |= !wait.is_over(now);
        let Some((known, last)) = self.doubted else {
            self.doubted = Some((why, wait));
            return;
        };
        // A restart replaces the reason: another server has another clock, and another memory.
        let renames = known != Doubt::Unsynced && why == Doubt::Restarted;
        let why = if last.until > wait.until && !renames { known } else { why };
        self.doubted = Some((why, last.longer(wait)));
    }

    /// The wait that follows from a doubt that has lasted for `age` at `at`.
    fn wait(&self, at: Tick, age: Duration) -> Wait {
        let ends = |length: Duration| match length.checked_sub(age) {
            Some(left) => at + left,
            None => at.minus(age.saturating_sub(length)),
        };
        let apart = |time: Duration| time.saturating_mul(self.rate) / 1_000_000;
        // A forgotten grant counts for nobody once its ttl is over, so `max_ttl` is enough.
        let settle = (MAX_ROUND + apart(MAX_ROUND) * 2).min(self.max_ttl);
        Wait { until: ends(self.max_ttl.saturating_add(apart(self.max_ttl))), settled: ends(settle) }
    }
}
