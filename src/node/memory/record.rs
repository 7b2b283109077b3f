//! What a node keeps beside its names: below which ballots it grants nothing.

use std::time::Duration;

use super::millis;

/// For how long a fence is kept after the later of its name's last change and the end of its hold:
/// three times `PERIOD`.
pub const KEEP: Duration = Duration::from_secs(105);
/// How often `high` moves on to `mid`, and `mid` to `floor`.
const PERIOD: Duration = Duration::from_secs(35);
/// A ballot further ahead of the node's clock is some broken clock's: it must not lift all names.
const FAR: u64 = 86_400_000_000;
/// By how much `high` is raised above a ballot, in microseconds, so that it is not written for
/// each; not for those that lead the clock by so much.
const AHEAD: u64 = 250_000;

/// The highest ballots, by age. A name that is not stored was last changed more than three periods
/// ago, so every ballot ever granted for it is at most `floor`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Record {
    high: u64,
    mid: u64,
    floor: u64,
    /// When they moved on last. Not at all on a node that was never asked.
    rotated: Option<Duration>,
    /// Whether it never forgot them in this run, or was taught since.
    taught: bool,
}

impl Record {
    /// Moves on, once a period. A clock that was set back tells nothing of how long ago that was.
    pub(super) fn rotate(&mut self, precise: Duration) {
        let now = millis(precise);
        let age = self.rotated.map(|rotated| now.checked_sub(rotated));
        match age {
            Some(Some(age)) if age < PERIOD => return,
            Some(Some(age)) if age < 2 * PERIOD => {}
            Some(Some(_)) => self.mid = self.high,
            Some(None) => self.forget_what_is_far(precise),
            None => {}
        }
        self.floor = self.floor.max(self.mid);
        self.mid = self.high;
        self.rotated = Some(now);
    }

    /// What the clock let in that was further ahead than it is now is no floor for all names.
    fn forget_what_is_far(&mut self, now: Duration) {
        self.high = self.high.min(far(now));
        self.floor = self.floor.min(far(now));
        self.mid = self.high;
    }

    /// A ballot was granted, healed, or told by a release.
    pub(super) fn heard(&mut self, ballot: u64, now: Duration) {
        if ballot > self.high && ballot <= far(now) {
            self.high = ballot.max(ballot.min(micros(now)) + AHEAD);
        }
    }

    pub(super) const fn high(&self) -> u64 {
        self.high
    }

    pub(super) const fn floor(&self) -> u64 {
        self.floor
    }

    pub(super) const fn taught(&self) -> bool {
        self.taught
    }

    /// Other nodes know of ballots up to `told`.
    pub(super) fn teach(&mut self, told: u64, by_hand: bool, now: Duration) {
        let told = told.min(far(now));
        self.high = self.high.max(told);
        self.mid = self.mid.max(told);
        self.floor = self.floor.max(told);
        // By hand: its own list's clients may know of higher ones, and must teach it still.
        self.taught |= !by_hand;
    }

    /// The node is another process now, which may have forgotten.
    pub(super) const fn restarted(&mut self) {
        self.taught = false;
    }
}

/// The highest ballot that is not too far ahead.
pub(super) fn far(now: Duration) -> u64 {
    micros(now).saturating_add(FAR)
}

fn micros(now: Duration) -> u64 {
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    /// Ballots are compared with the clock.
    const TOKEN: u64 = 7_000_000;
    /// What the record knows it by.
    const HIGH: u64 = TOKEN + AHEAD;

    /// A node that was first asked at `now` and has granted a token.
    fn record(now: Duration) -> Record {
        let mut record = Record::default();
        record.rotate(now);
        record.heard(TOKEN, now);
        record
    }

    #[test]
    fn what_was_granted_is_below_the_floor_before_its_fence_is_forgotten() {
        for pace in [1, 7, 20, 34, 35, 42, 69, 70, 98, 105] {
            let begin = 1_000 * SECOND;
            let mut record = record(begin);
            let calls = (begin.as_secs()..).step_by(pace).map(Duration::from_secs);
            calls.take_while(|&now| now < begin + KEEP).for_each(|now| record.rotate(now));
            record.rotate(begin + KEEP);
            assert_eq!(record.floor(), HIGH, "asked every {pace} s");
        }
    }

    #[test]
    fn what_was_granted_a_period_ago_may_be_granted_again_above_its_fence_only() {
        let mut record = record(1_000 * SECOND);
        record.rotate(1_035 * SECOND);
        assert_eq!(record.floor(), 0);
        record.rotate(1_069 * SECOND);
        assert_eq!(record.floor(), 0);
        record.rotate(1_070 * SECOND);
        assert_eq!(record.floor(), HIGH);
    }

    #[test]
    fn two_periods_at_once_count_like_one_after_the_other() {
        for (passed, floor) in [(69, 0), (70, HIGH)] {
            let mut record = record(1_000 * SECOND);
            record.rotate(SECOND * (1_000 + passed));
            assert_eq!(record.floor(), floor, "{passed} s later");
        }
    }

    #[test]
    fn a_clock_that_was_set_back_tells_nothing_of_how_old_ballots_are() {
        let mut record = record(1_000 * SECOND);
        record.rotate(999 * SECOND);
        assert_eq!(record.floor(), HIGH);
    }

    #[test]
    fn a_clock_that_is_set_right_leaves_no_name_without_ballots_for_a_year() {
        let (year, day) = (365 * 86_400 * SECOND, 86_400_000_000);
        let mut record = record(SECOND);
        record.rotate(year);
        record.heard(u64::try_from(year.as_micros()).unwrap(), year);
        record.rotate(7 * SECOND);
        assert_eq!((record.high(), record.floor()), (7_000_000 + day, 7_000_000 + day));
        record.teach(1 << 52, false, 7 * SECOND);
        assert_eq!(record.floor(), 7_000_000 + day);
    }

    #[test]
    fn a_floor_never_falls() {
        let mut record = record(1_000 * SECOND);
        record.teach(9_000_000, false, 1_000 * SECOND);
        record.rotate(5_000 * SECOND);
        record.teach(8_000_000, false, 5_000 * SECOND);
        assert_eq!((record.floor(), record.high()), (9_000_000, 9_000_000));
    }

    #[test]
    fn high_is_never_below_what_was_granted_and_is_written_for_few_ballots() {
        let (mut record, mut written) = (record(1_000 * SECOND), 0);
        for ballot in (TOKEN..TOKEN + 1_000_000).step_by(1_000) {
            let before = record.high();
            record.heard(ballot, 1_000 * SECOND);
            assert!((ballot..=ballot + AHEAD).contains(&record.high()), "{ballot}");
            written += u32::from(record.high() != before);
        }
        assert_eq!(written, 3);
    }

    /// Else who comes with the next ballot would be told a floor above it, each time that one is
    /// made.
    #[test]
    fn what_leads_the_clock_is_led_by_less_and_less() {
        for (lead, ahead) in [(0, AHEAD), (1_000, AHEAD - 1_000), (AHEAD, 0), (2 * AHEAD, 0)] {
            let mut record = Record::default();
            record.heard(1_000_000 + lead, SECOND);
            assert_eq!(record.high(), 1_000_000 + lead + ahead, "{lead} ahead");
        }
    }

    #[test]
    fn a_ballot_more_than_a_day_ahead_is_not_heard() {
        let mut record = record(SECOND);
        record.heard(1_000_000 + FAR + 1, SECOND);
        assert_eq!(record.high(), TOKEN);
        record.heard(1_000_000 + FAR, SECOND);
        assert_eq!(record.high(), 1_000_000 + FAR);
    }
}
