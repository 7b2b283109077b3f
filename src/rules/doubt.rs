//! The restart guard and the clock guard: which node may vote on claims, and from when.
//!
//! A node that lost its memory can grant what it had already granted, and a node whose clock was
//! stepped may have ended a hold early. Neither may vote on a claim until every hold it could have
//! forgotten has ended by itself: `max_ttl` later.
//!
//! Renewals are different: a node that holds the name for its owner now has it from that owner, so
//! after a while its `extended` counts again. It must not count at once: another client's round may
//! still count a grant which the node has forgotten. No vote for a claim counts for longer than
//! [`MAX_ROUND`], so `1.02 * MAX_ROUND` later (two clocks that run apart by 1 %, with room) there
//! is no such round any more. `docs/protocol.md`, "Doubted nodes", has an example and the proof.
//!
//! [`Doubt`] lists what a client cannot see.

mod offset;
#[cfg(test)]
mod tests;

use std::time::Duration;

use self::offset::Offset;
use super::tick::Tick;
use super::validity::MAX_ROUND;

/// Why a node's votes on claims do not count at present.
///
/// # What cannot be seen
///
/// A client judges a node by its answers. It does not notice:
///
/// - Memory that goes while the process stays, until the next connection: `FLUSHALL`, `FLUSHDB`.
///   And in part for ever: a `DEL` by hand, eviction under another policy than `noeviction`.
/// - A server that restarted **before** this client first saw it, and whose wall clock was then set
///   forward: it tells an uptime that is too long.
/// - A clock that was stepped **before** this client first saw it, or forth and back between two
///   answers to this client.
/// - A master that became a replica and a master again between two probes (5 s), if no write
///   reached it as a replica.
/// - A replica that was promoted **before** this client first saw it: it tells its own uptime.
///   Clients that knew the address before do see it.
/// - A machine that is restored, memory and all, from a snapshot of when it ran: its run id is the
///   old one. Only its clock can give it away, if that is still wrong when it first answers.
/// - A step of the clock that is smaller than what drift could have done since the last answer: 1 %
///   of that time, which a probe every 5 s keeps under 50 ms, and one round trip.
/// - A clock that is corrected without a step and faster than by 1 %, until the difference is one
///   that can be seen.
/// - An address that leads clients to different servers at the same time, after a failover that
///   left the old server running: one client holds on the old one, and another is granted by the
///   new one once `max_ttl` is over.
/// - A server that takes over behind open connections (a proxy) in the same round trip in which
///   another client connects to the old one and loads the script for it: it knows that script then,
///   and is seen at the next probe only.
/// - Before Redis 7 scripts are replicated and saved: there a replica, or a server restored from a
///   snapshot, that takes over **behind an open connection** is seen at the next probe only.
///
/// After any of these, keep the node away from clients (stop it, or close its port) for `max_ttl`;
/// then nothing that it forgot is held any more. Storage that checks fencing tokens is safe from
/// all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Doubt {
    /// It came up less than `max_ttl` ago, or is another process than the one before.
    Restarted,
    /// Its clock was stepped.
    ClockStepped,
    /// This client or one of the servers has just started, and clients of another list may come
    /// back to that server.
    Newcomer,
}

/// Which replies of a node count at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Trust {
    /// Whether its grants are votes.
    pub grants: bool,
    /// Whether its `extended` are votes.
    pub extensions: bool,
}

/// What follows from a doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Doubted {
    why: Doubt,
    /// When it was noticed, and how long it had lasted by then.
    at: Tick,
    age: Duration,
    /// Whether nodes have told of the longest locks since.
    told: bool,
    /// Until when it votes on no claim.
    until: Tick,
    /// From when on its `extended` counts.
    settled: Tick,
}

/// What a node that may have forgotten is to be told of ballots: see [`teaching`](super::teaching).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lesson {
    /// Which one: it has another number when the node's memory may have become another since.
    pub number: u32,
    /// From when on: no running round counts any more what it forgot.
    pub from: Tick,
    /// When it votes again, but for the lesson.
    pub ends: Tick,
}

/// Whether a node needs a lesson.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Schooling {
    Done,
    /// Its votes count all the same.
    Due,
    /// Its votes wait for it, until then.
    Awaited(Tick),
}

/// For how long votes of a node wait at most, past its quarantine, for what other nodes know.
const LESSON: Duration = Duration::from_secs(2);

/// What has come up about a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum News {
    /// Nothing.
    #[default]
    None,
    /// It was met for the first time: it may need a lesson.
    Met,
    /// It may have forgotten what it granted: whoever holds something there should renew it, and it
    /// may need a lesson.
    Doubted,
}

/// What is known of one node's memory and clock, across all connections to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RestartGuard {
    max_ttl: Duration,
    /// Parts per million.
    rate: u32,
    lineage: Option<String>,
    uptime: Option<(Duration, Tick)>,
    offset: Option<Offset>,
    doubted: Option<Doubted>,
    schooling: Schooling,
    /// How many lessons were due so far.
    lessons: u32,
    /// At which of them it was listed last.
    listed: Option<u32>,
    demoted: bool,
    news: News,
}

impl RestartGuard {
    /// A guard against locks of up to `max_ttl`; zero switches it off. `rate` is the share by which
    /// two clocks may run apart.
    #[must_use]
    pub const fn new(max_ttl: Duration, rate: f64) -> Self {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share, from 0 to 1")]
        let rate = (rate * 1e6) as u32;
        Self {
            max_ttl,
            rate,
            lineage: None,
            uptime: None,
            offset: None,
            doubted: None,
            schooling: Schooling::Done,
            lessons: 0,
            listed: None,
            demoted: false,
            news: News::None,
        }
    }

    /// The node told what it is, in a reply to a request sent at `sent` and received at `received`:
    /// of whose `lineage` it is, up for `uptime`, and its `time` where it tells that. Returns
    /// whether its clock was stepped.
    ///
    /// The clock is looked at last: what was known of another process's clock is forgotten, and
    /// from here on this one's is known.
    pub fn meet(
        &mut self,
        lineage: &str,
        uptime: Duration,
        time: Option<Duration>,
        sent: Tick,
        received: Tick,
    ) -> bool {
        self.admit(lineage, uptime, received);
        time.is_some_and(|time| self.observe(time, sent, received))
    }

    /// The node was reached at `now`: a master whose memory is that of `lineage` (its run id, and
    /// its replication id if it was a replica once), up for `uptime`.
    ///
    /// A node seen for the first time is believed about its uptime. A node that had another memory
    /// before is not: a promoted replica has been up for long and has forgotten all the same.
    pub fn admit(&mut self, lineage: &str, uptime: Duration, now: Tick) {
        let replaced = self.lineage.as_deref().is_some_and(|known| known != lineage);
        let rewound = self.uptime.is_some_and(|(before, at)| went_back(before, now.since(at), uptime));
        if std::mem::take(&mut self.demoted) || replaced || rewound {
            self.doubt(now, Duration::ZERO, Doubt::Restarted);
            self.offset = None;
        } else if self.lineage.is_none() {
            self.doubt(now, uptime.saturating_sub(UPTIME_ERROR), Doubt::Restarted);
        }
        self.lineage = Some(lineage.to_owned());
        self.uptime = Some((uptime, now));
    }

    /// The node that was admitted is the same still, and tells its lineage in other words from now
    /// on.
    pub fn rename(&mut self, lineage: &str) {
        if self.lineage.as_deref() != Some(lineage) {
            self.lineage = Some(lineage.to_owned());
            // In those words it was not taught.
            self.schooling = Schooling::Due;
            self.lessons = self.lessons.wrapping_add(1);
            self.news = self.news.max(News::Met);
        }
    }

    /// For how long the node's process has been up at least.
    #[must_use]
    pub fn age(&self, now: Tick) -> Duration {
        self.uptime.map_or(Duration::ZERO, |(uptime, at)| uptime.saturating_sub(UPTIME_ERROR) + now.since(at))
    }

    /// The node was seen as a replica: when it is a master again, it has another's memory.
    pub const fn demoted(&mut self) {
        self.demoted = true;
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
            self.doubt(received, Duration::ZERO, Doubt::ClockStepped);
        }
        stepped && !self.max_ttl.is_zero()
    }

    /// A push carried the node's `time`, and was received at `received`: when it was sent is not
    /// known, so it tells only how far the clock is ahead at least. Returns whether the clock was
    /// stepped, as [`observe`](Self::observe) does.
    pub fn observe_push(&mut self, time: Duration, received: Tick) -> bool {
        let Some(last) = self.offset else { return false };
        let expected = last.widened(received, self.rate);
        // What it is now where it was stepped, the next reply tells.
        self.offset = expected.at_least(time, received);
        let stepped = self.offset.is_none();
        if stepped {
            self.doubt(received, Duration::ZERO, Doubt::ClockStepped);
        }
        stepped && !self.max_ttl.is_zero()
    }

    /// Why and for how much longer this node votes on no claim at `now`; `None` when it may vote.
    #[must_use]
    pub fn quarantined(&self, now: Tick) -> Option<(Duration, Doubt)> {
        let Doubted { why, until, .. } = self.doubted?;
        let until = if now < until { until } else { self.waits_until()? };
        (now < until).then(|| (until.since(now), why))
    }

    /// Whether at `now` nothing but a lesson keeps this node from voting.
    #[must_use]
    pub fn only_waits_for_a_lesson(&self, now: Tick) -> bool {
        let over = self.doubted.is_some_and(|doubted| doubted.until <= now);
        over && self.waits_until().is_some_and(|until| now < until)
    }

    const fn waits_until(&self) -> Option<Tick> {
        if let Schooling::Awaited(until) = self.schooling { Some(until) } else { None }
    }

    /// The node told, before any vote of it counts, whether its present memory is known to have
    /// forgotten no ballot; or did not tell. If not, it may have restarted before this client first
    /// saw it.
    pub fn recorded(&mut self, taught: Option<bool>, now: Tick) {
        match (taught, self.schooling) {
            (Some(true), _) => self.schooling = Schooling::Done,
            // It was just met, and whoever teaches hears of that. Else nobody could teach it
            // before.
            (Some(false) | None, Schooling::Due) if self.news != News::None => {
                self.schooling = Schooling::Awaited(now + LESSON);
            }
            // It knew, and its process is the same: its memory went by itself (FLUSHALL).
            (Some(false), Schooling::Done) => self.doubt(now, Duration::ZERO, Doubt::Restarted),
            (Some(false) | None, _) => {}
        }
    }

    /// What the node is to be told of ballots, if anything: its memory may be another than before.
    #[must_use]
    pub fn lesson(&self) -> Option<Lesson> {
        let Doubted { until, settled, .. } = self.doubted.filter(|_| self.schooling != Schooling::Done)?;
        Some(Lesson { number: self.lessons, from: settled, ends: until })
    }

    /// A lesson was given at `now`: the node was `taught`, or nobody could teach it. It counts for
    /// nothing if the node has come into doubt again since. Where nobody could, its votes wait for
    /// that no longer, once its quarantine is over.
    pub fn lesson_given(&mut self, lesson: Lesson, taught: bool, now: Tick) {
        if self.lessons != lesson.number {
            return;
        }
        if taught {
            self.schooling = Schooling::Done;
        } else if self.only_waits_for_a_lesson(now) {
            self.schooling = Schooling::Due;
        }
    }

    /// Its votes count from `now` on, as far as rosters go. Before that only those were taught whose
    /// votes did: if it was not, they wait for one more try, once.
    pub fn listed(&mut self, now: Tick) {
        if self.listed.replace(self.lessons) == Some(self.lessons) {
            return;
        }
        match self.schooling {
            Schooling::Done => {}
            Schooling::Due => self.schooling = Schooling::Awaited(now + LESSON),
            Schooling::Awaited(until) => self.schooling = Schooling::Awaited(until.max(now + LESSON)),
        }
    }

    /// Which of its replies count at `now`.
    #[must_use]
    pub fn trust(&self, now: Tick) -> Trust {
        Trust { grants: self.quarantined(now).is_none(), extensions: self.settled(now) }
    }

    /// Whether this node's `extended` counts at `now`.
    #[must_use]
    pub fn settled(&self, now: Tick) -> bool {
        self.doubted.is_none_or(|doubted| now >= doubted.settled)
    }

    /// How far the node's clock is ahead of ours, in microseconds: the middle of what its answers
    /// allow. `None` before its first answer.
    #[must_use]
    pub fn clock_ahead(&self) -> Option<i128> {
        self.offset.map(|offset| offset.low.midpoint(offset.high))
    }

    /// What has come up since this was asked last.
    pub const fn take_news(&mut self) -> News {
        std::mem::replace(&mut self.news, News::None)
    }

    /// Takes note of a doubt that began `age` before `now`.
    fn doubt(&mut self, now: Tick, age: Duration, why: Doubt) {
        if self.max_ttl.is_zero() {
            return;
        }
        let (until, settled) = self.lasts(now, age);
        if now < until.max(settled) {
            self.news = News::Doubted;
        }
        if why == Doubt::Restarted {
            self.schooling = if now < until { Schooling::Awaited(until + LESSON) } else { Schooling::Due };
            self.lessons = self.lessons.wrapping_add(1);
            self.news = self.news.max(News::Met);
        }
        let new = Doubted { why, at: now, age, told: false, until, settled };
        let last = self.doubted.filter(|known| known.until >= until).unwrap_or(new);
        let settled = self.doubted.map_or(settled, |known| known.settled.max(settled));
        self.doubted = Some(Doubted { settled, ..last });
    }

    /// Until when a doubt lasts that has lasted for `age` at `at`.
    fn lasts(&self, at: Tick, age: Duration) -> (Tick, Tick) {
        // A grant that was forgotten counts for nobody once its ttl is over: no need to wait for
        // longer.
        let apart = MAX_ROUND * 2 * self.rate / 1_000_000;
        let settle = (MAX_ROUND + apart).min(self.max_ttl);
        (at + self.max_ttl.saturating_sub(age), at + settle.saturating_sub(age))
    }

    /// The clients of the node have locks of up to `max_ttl`, as rosters tell at `now`: for so long
    /// do doubts last, those under way too. One that was over when that was known already stays so:
    /// no such lock was there that could be forgotten.
    pub fn raise(&mut self, max_ttl: Duration, now: Tick) {
        if self.max_ttl.is_zero() {
            return;
        }
        self.max_ttl = max_ttl;
        let Some(known) = self.doubted.filter(|known| !known.told || now < known.until) else { return };
        let (until, settled) = self.lasts(known.at, known.age);
        if let Schooling::Awaited(lesson) = &mut self.schooling
            && *lesson == known.until + LESSON
        {
            *lesson = until + LESSON;
        }
        self.doubted = Some(Doubted { until, settled, told: true, ..known });
    }

    /// The same for a client that only looks, and holds nothing: whatever it is told later counts
    /// for doubts that are over as well.
    pub fn raise_anew(&mut self, max_ttl: Duration, now: Tick) {
        self.raise(max_ttl, now);
        if let Some(known) = &mut self.doubted {
            known.told = false;
        }
    }
}

/// By how much an uptime can be too long: it is the difference of two times in whole seconds, each
/// rounded down.
const UPTIME_ERROR: Duration = Duration::from_secs(1);

/// Whether an uptime that was `before` is now too small, `elapsed` later. Nodes tell whole seconds,
/// and clocks differ a little.
fn went_back(before: Duration, elapsed: Duration, now: Duration) -> bool {
    now + Duration::from_secs(1) + elapsed / 50 < before + elapsed
}
