//! Who reads a name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::record::KEEP;

/// How many readers that were released are remembered.
const RELEASED: usize = 128;

/// The owners of readers by when they end: what a sorted set is on a real node, scores in
/// milliseconds. Behind an owner that was revoked is a `!`; below zero is until when it is
/// remembered that one was released.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Readers {
    scores: BTreeMap<Arc<str>, i64>,
    /// The highest ballot granted to a reader, or told by its release.
    pub(super) fence: u64,
    /// When the whole set expires.
    until: Duration,
}

fn score(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn time(score: i64) -> Duration {
    Duration::from_millis(score.max(0).unsigned_abs())
}

fn marked(owner: &str) -> String {
    format!("{owner}!")
}

impl Readers {
    /// Whether there is none, and none is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// Forgets all of it once it has expired. The fence that is left, if it has.
    pub(super) fn expire(&mut self, now: Duration) -> Option<u64> {
        let over = self.is_empty() || self.until <= now;
        over.then(|| std::mem::take(self).fence)
    }

    /// Until when the last of them reads.
    pub(super) fn ends(&self) -> Duration {
        self.scores.values().max().map_or(Duration::ZERO, |&score| time(score))
    }

    /// Until when the owner reads, and whether it was revoked, if it does.
    pub(super) fn of(&self, owner: &str, now: Duration) -> Option<(Duration, bool)> {
        let (reads, revoked) = (self.score(owner), self.score(&marked(owner)));
        let ends = time(reads.max(revoked));
        (ends > now).then_some((ends, revoked > score(now)))
    }

    fn score(&self, member: &str) -> i64 {
        self.scores.get(member).copied().unwrap_or(0)
    }

    /// Whether the owner was released.
    pub(super) fn is_gone(&self, owner: &str, now: Duration) -> bool {
        self.score(owner) < -score(now)
    }

    /// The last that reads.
    pub(super) fn last(&self, now: Duration) -> Option<&str> {
        let last = self.scores.iter().max_by_key(|&(owner, score)| (*score, owner))?;
        (*last.1 > score(now)).then(|| last.0.strip_suffix('!').unwrap_or(last.0))
    }

    /// The last that reads and was not revoked.
    pub(super) fn another(&self, now: Duration) -> Option<&str> {
        let unmarked = |&(member, _): &(&Arc<str>, &i64)| !member.ends_with('!');
        let reads = self.scores.iter().filter(|&(_, &ends)| ends > score(now));
        reads.filter(unmarked).max_by_key(|&(member, ends)| (*ends, member)).map(|(member, _)| &**member)
    }

    /// How many read.
    pub(super) fn len(&self, now: Duration) -> u32 {
        let reading = self.scores.values().filter(|&&ends| ends > score(now)).count();
        u32::try_from(reading).unwrap_or(u32::MAX)
    }

    /// It reads until then.
    pub(super) fn read(&mut self, owner: &Arc<str>, until: Duration, now: Duration) {
        self.scores.insert(owner.clone(), score(until));
        self.purge(now);
        self.keep(now);
    }

    /// It reads no more, and takes nothing by what comes late. Whether it did until now.
    pub(super) fn dismiss(&mut self, owner: &Arc<str>, now: Duration) -> bool {
        let read = self.of(owner, now).is_some();
        self.scores.remove(&*marked(owner));
        self.scores.insert(owner.clone(), -score(now + KEEP));
        self.purge(now);
        self.forget_the_oldest(now);
        self.keep(now);
        read
    }

    /// None is renewed any more. For how long the last of them still reads, if any does.
    pub(super) fn revoke(&mut self, now: Duration) -> Option<Duration> {
        self.last(now)?;
        let unmarked = |(member, &ends): (&Arc<str>, &i64)| ends > score(now) && !member.ends_with('!');
        let all = std::mem::take(&mut self.scores).into_iter();
        let mark = |(member, ends): (Arc<str>, i64)| match unmarked((&member, &ends)) {
            true => (marked(&member).into(), ends),
            false => (member, ends),
        };
        self.scores = all.map(mark).collect();
        self.keep(now);
        Some(self.ends() - now)
    }

    pub(super) fn purge(&mut self, now: Duration) {
        let over = -score(now)..=score(now);
        self.scores.retain(|_, score| !over.contains(score));
    }

    /// What seems to be of later was released before the clock was set back: that goes first.
    fn forget_the_oldest(&mut self, now: Duration) {
        let gone = self.scores.iter().filter(|&(_, &score)| score < 0);
        let mut gone: Vec<_> = gone.map(|(owner, score)| (*score, owner.clone())).collect();
        gone.sort_unstable();
        let many = gone.len().saturating_sub(RELEASED);
        let later = gone.partition_point(|&(released, _)| released < -score(now + KEEP));
        let first = if later < many { RELEASED } else { later - many };
        for (_, owner) in gone.iter().skip(first).take(many) {
            self.scores.remove(owner);
        }
    }

    fn keep(&mut self, now: Duration) {
        self.until = self.ends().max(now + KEEP);
    }
}
