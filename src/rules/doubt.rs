//! The restart guard and the clock guard: which node may vote on claims, and from when.
//!
//! A node that lost its memory can grant what it had already granted, and a node whose clock was
//! stepped may have ended a hold early. Neither may vote on a claim until every hold it could have
//! forgotten has ended by itself. So a node votes when its record is `max_ttl` old and nothing else
//! has come up for as long: a restart, FLUSHALL, an old file and a failover are one rule.
//!
//! Renewals are different: a node that holds the name for its owner now has it from that owner, so
//! after a while its `extended` counts again. It must not count at once: another client's round may
//! still count a grant which the node has forgotten. No vote for a claim counts for longer than
//! [`MAX_ROUND`], so `1.02 * MAX_ROUND` later (two clocks that run apart by 1 %, with room) there
//! is no such round any more. `docs/protocol.md`, "Doubted nodes", has an example and the proof.

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
/// - A lock that goes while the record stays: a `DEL` by hand, eviction, an old snapshot.
/// - What happened before this client first saw the node, if that left no trace in its record.
/// - A step of the clock that is undone before the next answer, or that is smaller than what drift
///   could have done since the last one: 1 % of that time, and one round trip.
///
/// After any of these, keep the node away from clients (stop it, or close its port) for `max_ttl`;
/// then nothing that it forgot is held any more. Storage that checks fencing tokens is safe from
/// all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Doubt {
    /// Its server is new, has restarted, or is another one than before.
    Restarted,
    /// It forgot what it had granted: its keys were deleted, or an old state was loaded.
    Forgot,
    /// Its clock was stepped.
    ClockStepped,
    /// It forgot, nothing that it forgot is held any more, and it waits to be told which ballots
    /// other nodes have granted.
    Unsynced,
}

impl Doubt {
    /// Those that come up; the last one follows from them.
    pub const CAUSES: [Self; 3] = [Self::Restarted, Self::Forgot, Self::ClockStepped];

    /// Its name in metrics.
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
    /// Whether its grants are votes.
    pub grants: bool,
    /// Whether its `extended` are votes.
    pub extensions: bool,
}

/// How long after its quarantine a node that too few others can sync is synced all the same.
pub(super) const LATE: Duration = Duration::from_secs(2);
/// For how long at least a node that is not synced is taken to stay so: a hello changes it.
const SOON: Duration = Duration::from_secs(1);

/// What is known of one node's memory and clock, across all connections to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RestartGuard {
    max_ttl: Duration,
    /// Parts per million.
    rate: u32,
    offset: Option<Offset>,
    /// The process that INFO showed last.
    process: Option<Arc<str>>,
    /// Whether it is another process than before, or was a replica, since its record was heard last.
    replaced: bool,
    /// The record that was heard last.
    record: Option<Record>,
    /// Whether the node still has a record, as far as its last hello goes.
    present: bool,
    /// What follows from the age of the record.
    young: Wait,
    doubted: Option<(Doubt, Wait)>,
    granted: Granted,
    news: bool,
}

impl RestartGuard {
    /// A guard against locks of up to `max_ttl`; zero switches it off. `rate` is the share by which
    /// two clocks may run apart.
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

    /// INFO showed that the server is this process. A record of another one is of no use until a
    /// hello has written the present one into it. Call this before [`hello`](Self::hello) if one
    /// connection has shown both.
    pub fn meets_process(&mut self, process: &str) {
        self.replaced |= self.process.as_deref().is_some_and(|known| !is_same_process(known, process));
        self.process = Some(process.into());
    }

    /// The node was seen as a replica: when it is a master again, it has another's memory.
    pub const fn demoted(&mut self) {
        self.replaced = true;
    }

    /// A hello that was sent at `sent` and answered at `received` returned the node's record, or
    /// that it has none.
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

    /// What this record shows that is not as it was.
    fn compare(&mut self, record: &Record, sent: Tick, received: Tick) {
        let replaced = self.replaced && self.process.as_deref().is_none_or(|process| record.is_of(process));
        self.replaced &= !replaced;
        let other = self.record.as_ref().filter(|known| known.id != record.id);
        if let Some(known) = other {
            let restarted = replaced || known.process != record.process;
            // So that all clients agree when it ends. A record that was old at once has no age.
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

    /// A grant of this ballot was counted at `now`: a later record with a lower `high` has lost it.
    pub fn granted(&mut self, ballot: u64, now: Tick) {
        let time = self.offset.map(Offset::time);
        self.granted.count(ballot, time, now);
    }

    /// A reply that was received at `now` showed this record's id, or none. False if that is not the
    /// record that is known: then the reply counts as `forgot`.
    pub fn showed(&mut self, id: Option<&str>, now: Tick) -> bool {
        let same = self.record.is_none() || self.record().map(|known| &*known.id) == id;
        if !same {
            self.doubt(Doubt::Forgot, Duration::ZERO, now);
        }
        same
    }

    /// The node's record; `None` if it has none as far as its last hello goes, or none was heard.
    #[must_use]
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref().filter(|_| self.present)
    }

    /// The id of the record that was heard last, also if that has gone since.
    #[must_use]
    pub fn id(&self) -> Option<&Arc<str>> {
        self.record.as_ref().map(|record| &record.id)
    }

    /// A reply carried the node's `time`; its request was sent at `sent` and the reply received at
    /// `received`. Returns whether the node's clock was stepped since the last reply: then votes of
    /// this very reply cannot be trusted either.
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

    /// A push carried the node's `time`, and was received at `received`: when it was sent is not
    /// known, so it shows only how far the clock is ahead at least. Returns whether the clock was
    /// stepped, as [`observe`](Self::observe) does.
    pub fn observe_push(&mut self, time: Duration, received: Tick) -> bool {
        let Some(last) = self.offset else { return false };
        let expected = last.widened(received, self.rate);
        // What it is now if it was stepped, the next reply shows.
        self.offset = expected.at_least(time, received);
        let stepped = self.offset.is_none();
        if stepped {
            self.doubt(Doubt::ClockStepped, Duration::ZERO, received);
        }
        stepped && !self.max_ttl.is_zero()
    }

    /// How far the node's clock is ahead of ours, in microseconds: the middle of what its answers
    /// allow. `None` before its first answer.
    #[must_use]
    pub fn clock_ahead(&self) -> Option<i128> {
        self.offset.map(|offset| offset.low.midpoint(offset.high))
    }

    /// For how much longer at least this node votes on no claim at `now`, and why; `None` when it
    /// may vote.
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

    /// The node's record, if that is of its present process.
    fn current(&self) -> Option<&Record> {
        let record = self.record().filter(|_| !self.replaced)?;
        self.process.as_deref().is_none_or(|process| record.is_of(process)).then_some(record)
    }

    /// When the node has a vote again, unless it is still to be synced.
    #[must_use]
    pub fn free_at(&self) -> Tick {
        self.waits().until
    }

    /// From when on its `extended` counts, and it can be synced.
    #[must_use]
    pub fn settles_at(&self) -> Tick {
        self.waits().settled
    }

    /// Whether this node's `extended` counts at `now`.
    #[must_use]
    pub fn settled(&self, now: Tick) -> bool {
        self.max_ttl.is_zero() || self.current().is_some() && now >= self.settles_at()
    }

    /// Which of its replies count at `now`.
    #[must_use]
    pub fn trust(&self, now: Tick) -> Trust {
        Trust { grants: self.quarantined(now).is_none(), extensions: self.settled(now) }
    }

    /// Whether a doubt has come up since this was asked last: what is held there should be renewed.
    pub const fn take_news(&mut self) -> bool {
        std::mem::replace(&mut self.news, false)
    }

    fn waits(&self) -> Wait {
        self.doubted.map_or(self.young, |(_, wait)| wait.longer(self.young))
    }

    /// Takes note of a doubt that had lasted for `age` at `now`.
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
        // Another server has another clock, and another memory.
        let renames = known != Doubt::Unsynced && why == Doubt::Restarted;
        let why = if last.until > wait.until && !renames { known } else { why };
        self.doubted = Some((why, last.longer(wait)));
    }

    /// What follows from a doubt that has lasted for `age` at `at`.
    fn wait(&self, at: Tick, age: Duration) -> Wait {
        let ends = |length: Duration| match length.checked_sub(age) {
            Some(left) => at + left,
            None => at.minus(age.saturating_sub(length)),
        };
        let apart = |time: Duration| time.saturating_mul(self.rate) / 1_000_000;
        // A grant that was forgotten counts for nobody once its ttl is over: no need to wait for
        // longer.
        let settle = (MAX_ROUND + apart(MAX_ROUND) * 2).min(self.max_ttl);
        Wait { until: ends(self.max_ttl.saturating_add(apart(self.max_ttl))), settled: ends(settle) }
    }
}
