//! The restart guard and the clock guard: which node may vote on claims, and from when.
//!
//! A node that lost its memory can grant what it had already granted, and a node whose clock was
//! stepped may have ended a hold early. Neither may vote on a claim until every hold it could have
//! forgotten has ended by itself: `max_ttl` later.
//!
//! Renewals are different: a node that holds the name for its owner now has it from that owner, so
//! after a while its `extended` counts again. It must not count at once: another client's round may
//! still count a grant which the node has forgotten. No vote for a claim counts for longer than
//! [`MAX_ROUND`], so `1.02 * MAX_ROUND` later (two clocks that run apart by 1 %, with room) there is no
//! such round any more. `docs/protocol.md`, "Doubted nodes", has an example and the proof.
//!
//! # What cannot be seen
//!
//! - Memory that goes while the process stays: `FLUSHALL`, `FLUSHDB`, a `DEL` by hand, eviction under another policy than `noeviction`.
//! - A server that restarted **before** this client first saw it, and whose wall clock was then set forward: it tells an uptime that is too long.
//! - A clock that was stepped **before** this client first saw it, or forth and back between two
//!   answers to this client.
//! - A master that became a replica and a master again between two probes (5 s), if no write reached it as a replica.
//! - A replica that was promoted **before** this client first saw it: it tells its own uptime. Clients that knew the address before do see it.
//! - A machine that is restored, memory and all, from a snapshot of when it ran: its run id is the old one. Only its clock can give it
//!   away, if that is still wrong when it first answers.
//! - A step of the clock that is smaller than what drift could have done since the last answer: 1 % of that time, which a probe every 5 s keeps under 50 ms,
//!   and one round trip.
//! - A clock that is corrected without a step and faster than by 1 %, until the difference is one that can be seen.
//! - An address that leads clients to different servers at the same time, after a failover that
//!   left the old server running: one client holds on
//!   the old one, and another is granted by the new one once `max_ttl` is over.
//! - A server that takes over behind open connections (a proxy) in the same round trip in which
//!   another client connects to the old one and loads the
//!   script for it: it knows that script then, and is seen at the next probe only.
//! - Before Redis 7 scripts are replicated and saved: there a replica, or a server restored from a snapshot, that takes over **behind an open connection**
//!   is seen at the next probe only.
//!
//! After any of these, keep the node away from clients (stop it, or close its port) for `max_ttl`; then nothing that it forgot is held any more. Storage that
//! checks fencing tokens is safe from all of them.

use std::time::Duration;

use super::tick::Tick;
use super::validity::MAX_ROUND;

/// Bounds of how far the node's clock is ahead of ours, both in microseconds since their own origins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Offset {
    low: i128,
    high: i128,
    at: Tick,
}

impl Offset {
    /// A clock that showed `time` at some moment between `sent` and `received`.
    fn new(time: Duration, sent: Tick, received: Tick) -> Self {
        let time = micros(time);
        Self { low: time - micros(received.since_origin()), high: time - micros(sent.since_origin()), at: received }
    }

    /// What this reading allows at `later`, if the two clocks run apart by at most `rate`.
    fn widened(self, later: Tick, rate: u32) -> Self {
        let drift = micros(later.since(self.at)) * i128::from(rate) / 1_000_000 + 1;
        Self { low: self.low - drift, high: self.high + drift, at: later }
    }

    fn meets(self, other: Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    fn intersected(self, other: Self) -> Self {
        Self { low: self.low.max(other.low), high: self.high.min(other.high), at: other.at }
    }
}

/// Never more than 2^85, so sums of some do not overflow.
fn micros(duration: Duration) -> i128 {
    duration.as_micros().cast_signed()
}

/// Why a node's claims do not count at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// It came up less than `max_ttl` ago, or is another process than the one before.
    Restarted,
    /// Its clock was stepped.
    ClockStepped,
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
pub struct Guard {
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
    demoted: bool,
    news: News,
}

impl Guard {
    /// A guard against locks of up to `max_ttl`; zero switches it off. `rate` is the share by which two clocks may run apart.
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
            demoted: false,
            news: News::None,
        }
    }

    /// The node told what it is, in a reply to a request sent at `sent` and received at `received`: of whose `lineage` it is, up for `uptime`,
    /// and its `time` where it tells that. Returns whether its clock was stepped.
    ///
    /// The clock is looked at last: what was known of another process's clock is forgotten, and from here on this one's is known.
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

    /// The node was reached at `now`: a master whose memory is that of `lineage` (its run id, and its replication id if it was a replica once), up for `uptime`.
    ///
    /// A node seen for the first time is believed about its uptime. A node that had another memory before is not: a promoted replica has been up for
    /// long and has forgotten all the same.
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

    /// The node that was admitted is the same still, and tells its lineage in other words from now on.
    pub fn rename(&mut self, lineage: &str) {
        if self.lineage.as_deref() != Some(lineage) {
            self.lineage = Some(lineage.to_owned());
            // In those words it was not taught.
            self.schooling = Schooling::Due;
            self.lessons = self.lessons.wrapping_add(1);
            self.news = self.news.max(News::Met);
        }
    }

    /// The node was seen as a replica: when it is a master again, it has another's memory.
    pub const fn demoted(&mut self) {
        self.demoted = true;
    }

    /// A reply carried the node's `time`; its request was sent at `sent` and the reply received at `received`. Returns whether the node's clock
    /// was stepped since the last reply: then votes of this very reply cannot be trusted either.
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
            (Some(false) | None, Schooling::Due) => self.schooling = Schooling::Awaited(now + LESSON),
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
        // A grant that was forgotten counts for nobody once its ttl is over: no need to wait for longer.
        let apart = MAX_ROUND * 2 * self.rate / 1_000_000;
        let settle = (MAX_ROUND + apart).min(self.max_ttl);
        let until = now + self.max_ttl.saturating_sub(age);
        let settled = now + settle.saturating_sub(age);
        if now < until.max(settled) {
            self.news = News::Doubted;
        }
        if why == Doubt::Restarted {
            self.schooling = if now < until { Schooling::Awaited(until + LESSON) } else { Schooling::Due };
            self.lessons = self.lessons.wrapping_add(1);
            self.news = self.news.max(News::Met);
        }
        let known = self.doubted.unwrap_or(Doubted { why, until, settled });
        let why = if known.until < until { why } else { known.why };
        self.doubted = Some(Doubted { why, until: until.max(known.until), settled: settled.max(known.settled) });
    }
}

/// By how much an uptime can be too long: it is the difference of two times in whole seconds, each rounded down.
const UPTIME_ERROR: Duration = Duration::from_secs(1);

/// Whether an uptime that was `before` is now too small, `elapsed` later. Nodes tell whole seconds, and clocks differ a little.
fn went_back(before: Duration, elapsed: Duration, now: Duration) -> bool {
    now + Duration::from_secs(1) + elapsed / 50 < before + elapsed
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MAX_TTL: Duration = Duration::from_secs(60);

    fn at(seconds: u32) -> Tick {
        Tick::new(SECOND * seconds)
    }

    fn given(guard: &mut Guard, taught: bool, now: Tick) -> Lesson {
        let lesson = guard.lesson().unwrap();
        guard.lesson_given(lesson, taught, now);
        lesson
    }

    fn guard() -> Guard {
        Guard::new(MAX_TTL, 0.01)
    }

    #[test]
    fn a_node_younger_than_max_ttl_is_quarantined_until_it_is_older() {
        let mut guard = guard();
        guard.admit("a", 20 * SECOND, at(100));
        // It may be up for little more than 19 seconds: uptimes are differences of rounded times.
        assert_eq!(guard.quarantined(at(100)), Some((41 * SECOND, Doubt::Restarted)));
        given(&mut guard, false, at(141));
        assert_eq!(guard.quarantined(at(141)), None);
    }

    #[test]
    fn an_old_node_votes_at_once() {
        let mut guard = guard();
        guard.admit("a", MAX_TTL + SECOND, at(0));
        assert_eq!(guard.quarantined(at(0)), None);
    }

    #[test]
    fn a_master_that_was_a_replica_in_between_is_quarantined_though_it_is_the_same_process() {
        let mut guard = guard();
        guard.admit("a", 1_000 * SECOND, at(0));
        guard.demoted();
        guard.admit("a", 1_010 * SECOND, at(10));
        assert_eq!(guard.quarantined(at(10)), Some((MAX_TTL, Doubt::Restarted)));
        guard.admit("a", 1_020 * SECOND, at(20));
        given(&mut guard, true, at(20));
        assert_eq!(guard.quarantined(at(70)), None, "once, and not each time it is seen from then on");
    }

    #[test]
    fn a_node_seen_as_a_replica_first_is_not_believed_about_its_uptime() {
        let mut guard = guard();
        guard.demoted();
        guard.admit("a", 1_000 * SECOND, at(0));
        assert_eq!(guard.quarantined(at(0)), Some((MAX_TTL, Doubt::Restarted)));
    }

    #[test]
    fn another_process_behind_the_address_is_quarantined_however_long_it_has_been_up() {
        let mut guard = guard();
        guard.admit("master", 1_000 * SECOND, at(0));
        guard.admit("replica", 1_000 * SECOND, at(10));
        assert_eq!(guard.quarantined(at(10)), Some((MAX_TTL, Doubt::Restarted)));
    }

    #[test]
    fn a_reconnection_to_the_same_process_changes_nothing() {
        let mut guard = guard();
        guard.admit("a", 100 * SECOND, at(0));
        guard.admit("a", 110 * SECOND, at(10));
        assert_eq!(guard.quarantined(at(10)), None);
    }

    #[test]
    fn an_uptime_that_went_back_is_a_restart_whatever_the_run_id_says() {
        let mut guard = guard();
        guard.admit("a", 100 * SECOND, at(0));
        guard.admit("a", 3 * SECOND, at(10));
        assert_eq!(guard.quarantined(at(10)), Some((MAX_TTL, Doubt::Restarted)));
    }

    #[test]
    fn zero_switches_the_guard_off() {
        let mut guard = Guard::new(Duration::ZERO, 0.01);
        guard.admit("a", Duration::ZERO, at(0));
        guard.admit("b", Duration::ZERO, at(1));
        assert_eq!(guard.quarantined(at(1)), None);
    }

    #[test]
    fn a_clock_stepped_forward_or_back_is_quarantined() {
        for stepped in [95 * SECOND, 105 * SECOND] {
            let mut guard = guard();
            assert!(!guard.observe(100 * SECOND, at(0), at(0)));
            assert!(guard.observe(stepped + SECOND, at(1), at(1)), "{stepped:?}");
            assert_eq!(guard.quarantined(at(1)), Some((MAX_TTL, Doubt::ClockStepped)));
        }
    }

    #[test]
    fn a_clock_stepped_after_the_node_told_what_it_is_is_noticed_with_the_next_reply() {
        // Redis counts its uptime by its wall clock: stepped back, it looks like a restart, and its old clock is forgotten.
        let mut guard = guard();
        guard.meet("a", 100 * SECOND, Some(500 * SECOND), at(0), at(0));
        guard.meet("a", 95 * SECOND, Some(495 * SECOND), at(1), at(1));
        assert!(guard.observe(600 * SECOND, at(90), at(90)), "stepped forward since");
        assert_eq!(guard.quarantined(at(90)), Some((MAX_TTL, Doubt::ClockStepped)));
    }

    #[test]
    fn slow_drift_within_the_rate_is_no_step() {
        let mut guard = guard();
        for second in 0..10_000u32 {
            let time = (SECOND * second).mul_f64(1.004);
            assert!(!guard.observe(time, at(second), at(second)), "second {second}");
        }
    }

    #[test]
    fn what_whole_microseconds_cut_off_is_no_step() {
        let nanos = |nanos| Tick::new(Duration::from_nanos(nanos));
        let mut guard = Guard::new(MAX_TTL, 0.0);
        assert!(!guard.observe(SECOND, nanos(0), nanos(0)));
        assert!(!guard.observe(SECOND, nanos(0), nanos(0)), "the same again");
        assert!(!guard.observe(SECOND + Duration::from_micros(1), nanos(999), nanos(999)), "a microsecond begins");
        assert!(guard.observe(SECOND + Duration::from_micros(9), nanos(999), nanos(999)), "eight more are a step");
    }

    #[test]
    fn an_uptime_may_be_a_second_and_a_fiftieth_of_the_time_behind_and_no_more() {
        let before = 100 * SECOND;
        let elapsed = 50 * SECOND;
        assert!(!went_back(before, elapsed, 148 * SECOND));
        assert!(went_back(before, elapsed, 148 * SECOND - Duration::from_nanos(1)));
    }

    #[test]
    fn the_longest_doubt_stands() {
        let mut guard = guard();
        guard.admit("a", 20 * SECOND, at(0));
        assert!(!guard.observe(100 * SECOND, at(0), at(0)));
        assert!(guard.observe(200 * SECOND, at(1), at(1)));
        let stepped = guard.quarantined(at(1));
        guard.admit("a", 21 * SECOND, at(1));
        assert_eq!((stepped, guard.quarantined(at(1))), (Some((MAX_TTL, Doubt::ClockStepped)), stepped));
        guard.admit("b", 21 * SECOND, at(1));
        assert_eq!(guard.quarantined(at(1)), stepped, "one that is no longer changes nothing");
    }

    #[test]
    fn a_doubted_node_extends_nothing_until_no_running_round_counts_what_it_forgot() {
        let ms = |ms| Tick::new(Duration::from_millis(ms));
        let mut guard = guard();
        guard.admit("a", 1_000 * SECOND, at(0));
        assert!(guard.settled(at(0)), "it is not in doubt");
        guard.admit("b", 1_000 * SECOND, at(10));
        assert!(!guard.settled(at(10)) && !guard.settled(ms(15_099)));
        assert!(guard.settled(ms(15_100)) && guard.quarantined(at(69)).is_some());
    }

    #[test]
    fn clocks_that_may_run_further_apart_are_in_doubt_for_longer() {
        let mut guard = Guard::new(MAX_TTL, 0.1);
        guard.admit("a", 1_000 * SECOND, at(0));
        guard.admit("b", 1_000 * SECOND, at(10));
        assert!(!guard.settled(Tick::new(Duration::from_millis(15_999))) && guard.settled(at(16)));
    }

    #[test]
    fn what_expires_sooner_than_a_round_ends_is_in_doubt_for_as_long_only() {
        let mut guard = Guard::new(2 * SECOND, 0.01);
        guard.admit("a", 90 * SECOND, at(0));
        guard.admit("b", 90 * SECOND, at(10));
        assert!(!guard.settled(at(11)) && guard.settled(at(12)));
    }

    #[test]
    fn a_young_node_has_been_in_doubt_since_it_came_up() {
        let mut guard = guard();
        guard.admit("a", 4 * SECOND, at(100));
        assert!(!guard.settled(at(102)) && guard.settled(at(103)), "up for 3 seconds at least");
    }

    #[test]
    fn each_doubt_is_news_once() {
        let mut guard = guard();
        guard.admit("a", 1_000 * SECOND, at(0));
        assert_eq!(guard.take_news(), News::Met);
        guard.admit("a", 1_010 * SECOND, at(10));
        assert_eq!(guard.take_news(), News::None, "nothing is in doubt");
        guard.admit("b", 1_000 * SECOND, at(20));
        assert_eq!([guard.take_news(), guard.take_news()], [News::Doubted, News::None]);
        guard.observe(100 * SECOND, at(21), at(21));
        guard.observe(200 * SECOND, at(22), at(22));
        assert_eq!(guard.take_news(), News::Doubted);
    }

    #[test]
    fn votes_wait_for_a_lesson_and_not_for_long() {
        let mut guard = guard();
        guard.admit("a", 1_000 * SECOND, at(0));
        assert_eq!(guard.quarantined(at(0)), None, "what restarted before anybody was there votes, and is taught");
        assert_eq!(guard.lesson().map(|lesson| lesson.from <= at(0)), Some(true));
        let first = given(&mut guard, true, at(0));
        guard.admit("b", 1_000 * SECOND, at(10));
        guard.lesson_given(first, true, at(10));
        let lesson = guard.lesson().expect("what was taught was another process");
        assert_eq!((lesson.from, lesson.ends), (Tick::new(Duration::from_millis(15_100)), at(70)));
        assert_eq!(guard.quarantined(at(70)), Some((LESSON, Doubt::Restarted)));
        assert_eq!(guard.quarantined(at(72)), None);
        given(&mut guard, false, at(69));
        assert!(guard.quarantined(at(70)).is_some(), "there is time for another try");
        given(&mut guard, false, at(70));
        assert!(guard.quarantined(at(70)).is_none() && guard.lesson().is_some(), "it votes, and is taught later");
        given(&mut guard, true, at(80));
        assert_eq!(guard.lesson(), None);
    }

    #[test]
    fn who_restarted_before_it_was_first_seen_is_taught_before_it_votes_and_who_never_forgot_votes_at_once() {
        let met = |taught| {
            let mut guard = guard();
            guard.admit("a", 1_000 * SECOND, at(5));
            guard.recorded(taught, at(5));
            guard
        };
        let knows = met(Some(true));
        assert!(knows.quarantined(at(5)).is_none() && knows.lesson().is_none());
        for untold in [Some(false), None] {
            let mut forgot = met(untold);
            assert_eq!(forgot.quarantined(at(5)), Some((LESSON, Doubt::Restarted)));
            assert!(forgot.only_waits_for_a_lesson(at(5)) && forgot.settled(at(5)));
            assert_eq!(forgot.quarantined(at(7)), None, "and not for long");
            given(&mut forgot, true, at(5));
            assert_eq!(forgot.quarantined(at(5)), None);
        }
        let mut alone = met(Some(false));
        given(&mut alone, false, at(5));
        assert!(alone.quarantined(at(5)).is_none() && alone.lesson().is_some());
    }

    #[test]
    fn a_memory_that_went_while_the_process_stayed_is_noticed_by_what_it_was_taught() {
        let mut guard = guard();
        guard.admit("a", 1_000 * SECOND, at(0));
        guard.recorded(Some(true), at(0));
        guard.admit("a", 1_010 * SECOND, at(10));
        guard.recorded(None, at(10));
        assert_eq!(guard.quarantined(at(10)), None, "it did not tell");
        guard.recorded(Some(false), at(10));
        assert_eq!(guard.quarantined(at(10)), Some((MAX_TTL, Doubt::Restarted)));
        assert!(!guard.settled(at(10)) && !guard.only_waits_for_a_lesson(at(10)));
    }

    #[test]
    fn a_stepped_clock_needs_no_lesson() {
        let mut guard = guard();
        guard.admit("a", 1_000 * SECOND, at(0));
        given(&mut guard, true, at(0));
        guard.observe(100 * SECOND, at(1), at(1));
        guard.observe(200 * SECOND, at(2), at(2));
        assert_eq!(guard.lesson(), None);
    }

    #[test]
    fn the_nodes_clock_is_in_the_middle_of_what_its_answer_allows() {
        let mut guard = guard();
        assert_eq!(guard.clock_ahead(), None);
        guard.observe(100 * SECOND, at(10), at(12));
        assert_eq!(guard.clock_ahead(), Some(89_000_000));
    }

    #[test]
    fn a_slow_reply_widens_what_is_believed_of_the_clock() {
        let mut guard = guard();
        assert!(!guard.observe(100 * SECOND, at(0), at(0)));
        // Answered somewhere within these five seconds.
        assert!(!guard.observe(104 * SECOND, at(1), at(6)));
    }
}
