//! A node's record: its id, its bounds of ballots, the list in force, and since when the node has
//! forgotten no grant.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::listed::Listed;
use super::millis;
use crate::node::operation::{Hello, Intent, OldAtOnce};
use crate::rules::list;

/// How long a name is kept after its last change or after the end of its last hold, whichever is
/// later: three times `PERIOD`.
pub const KEEP: Duration = Duration::from_secs(105);
/// The time from one rotation to the next. A rotation sets `floor` to `mid`, and `mid` to `high`.
const PERIOD: Duration = Duration::from_secs(35);
/// One day in microseconds. A ballot that is further ahead of the node's clock comes from a broken
/// clock, so this ballot must not raise the floor.
const FAR: u64 = 86_400_000_000;
/// The margin, in microseconds, by which `high` is raised above a ballot, so that not every ballot
/// needs a write of `high`. The margin never raises `high` to more than this ahead of the clock.
const AHEAD: u64 = 250_000;

/// What a node stores apart from its names and the ids that clients have seen. A name that is not
/// stored was last changed at least [`KEEP`] ago. So no ballot that was granted for this name is
/// above `floor`, except ballots that were more than [`FAR`] ahead of the clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Record {
    id: Arc<str>,
    process: Arc<str>,
    /// When the record began, in ms of the node's clock: the record's age counts from this time.
    /// Negative if this is before the clock's origin.
    since: i64,
    /// Why the record counted as old when it was made; `None` if its age began at zero.
    word: Option<OldAtOnce>,
    /// Whether `high` is at least every ballot that the node may have forgotten.
    synced: bool,
    /// Upper bounds of granted ballots: `high` of all, `mid` of those before the last rotation, and
    /// `floor` of those before the last rotation but one. `floor <= mid <= high` always holds.
    high: u64,
    mid: u64,
    floor: u64,
    /// When the last rotation was: see [`rotate`](Self::rotate).
    rotated: Duration,
    list: Option<Listed>,
}

impl Record {
    /// A record without ballots. If there is a `word`, the record's age begins at `age`.
    fn new(id: &Arc<str>, process: &Arc<str>, now: Duration, word: Option<OldAtOnce>, age: Duration) -> Self {
        let since = signed(now) - word.map_or(0, |_| signed(age));
        let (id, process) = (id.clone(), process.clone());
        Self { id, process, since, word, synced: false, high: 0, mid: 0, floor: 0, rotated: now, list: None }
    }

    pub(super) fn id(&self) -> Arc<str> {
        self.id.clone()
    }

    pub(super) fn old(id: &str) -> Self {
        let (word, age) = (Some(OldAtOnce::Init), Duration::from_secs(1 << 20));
        Self { synced: true, ..Self::new(&id.into(), &"".into(), Duration::ZERO, word, age) }
    }

    /// The record that this hello makes; `None` if this hello may not make a record. `kept_all`
    /// says that the node cannot have forgotten a lock that may still be held.
    pub(super) fn made(hello: &Hello, kept_all: bool, now: Duration) -> Option<Self> {
        let makes = hello.intent >= Intent::Make && !hello.process.is_empty();
        let word = hello.old.filter(|old| kept_all || *old == OldAtOnce::Init);
        makes.then(|| Self::new(&hello.new, &hello.process, now, word, millis(hello.list.old())))
    }

    /// Updates the record for a hello whose intent is not `Look`. `is_new` says whether this hello
    /// made the record.
    pub(super) fn meet(&mut self, hello: &Hello, is_new: bool, precise: Duration) {
        let now = millis(precise);
        if !hello.process.is_empty() && !self.is_of(&hello.process) {
            self.process = hello.process.clone();
            self.doubt(&hello.new, now);
        }
        if self.word.is_some() && hello.knew.as_ref().is_some_and(|knew| *knew != self.id) {
            self.doubt(&hello.new, now);
        }
        self.since = self.since.min(signed(now));
        self.list = Listed::behind(hello, self.in_force(now), now);
        let makes_old = is_new && self.word.is_some();
        if let Some(told) = hello.sync.filter(|_| !self.synced && (makes_old || self.is_known(hello))) {
            self.sync(told, precise);
        }
    }

    /// Whether the hello comes from a client that knew this record's id, and whose list is in
    /// force.
    fn is_known(&self, hello: &Hello) -> bool {
        let list = self.list.as_ref().is_some_and(|list| list.is(hello.list.hash()));
        list && hello.knew.as_ref() == Some(&self.id)
    }

    /// Whether the record is of this process. The record of a promoted server has
    /// `RUN_ID/REPLICATION_ID`. Some time after the promotion, INFO shows only `RUN_ID`: this is
    /// still the same process.
    fn is_of(&self, process: &str) -> bool {
        self.process.strip_prefix(process).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Sets the record's age to zero, and its id to `id`: the node may have forgotten its grants.
    fn doubt(&mut self, id: &Arc<str>, now: Duration) {
        (self.id, self.since, self.word, self.synced) = (id.clone(), signed(now), None, false);
    }

    /// Raises `high`, `mid` and `floor` to at least `told`, the highest `high` of other nodes, but
    /// not to more than a day ahead of the clock.
    fn sync(&mut self, told: u64, now: Duration) {
        let told = told.min(far(now));
        self.high = self.high.max(told);
        self.mid = self.mid.max(told);
        self.floor = self.floor.max(told);
        self.synced = true;
    }

    pub(super) fn in_force(&self, now: Duration) -> Option<Listed> {
        self.list.as_ref()?.unexpired(now)
    }

    /// The reply to a hello.
    pub(super) fn told(&self, seen: Vec<list::Sighting>, now: Duration) -> list::Record {
        list::Record {
            id: self.id.clone(),
            process: self.process.clone(),
            age: Duration::from_millis(u64::try_from(signed(now) - self.since).unwrap_or(0)),
            high: self.high,
            floor: self.floor,
            synced: self.synced,
            word: self.word,
            in_force: self.in_force(now).map(|list| list.told(now)),
            seen,
        }
    }

    pub(super) fn fields(&self) -> BTreeMap<String, String> {
        let millis = |time: Duration| time.as_millis().to_string();
        let (high, mid, floor) = (self.high.to_string(), self.mid.to_string(), self.floor.to_string());
        let mut fields = vec![
            ("id", self.id.to_string()),
            ("process", self.process.to_string()),
            ("since", self.since.to_string()),
            ("high", high),
            ("mid", mid),
            ("floor", floor),
            ("rotated", millis(self.rotated)),
        ];
        fields.extend(self.word.map(|word| ("word", word.as_str().to_owned())));
        fields.extend(self.synced.then(|| ("synced", "1".to_owned())));
        fields.extend(self.list.iter().flat_map(Listed::fields));
        fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect()
    }

    /// Once a period, `floor` gets the value of `mid`, and `mid` that of `high`. If two periods
    /// have passed since the last rotation, `floor` and `mid` both get the value of `high`. The
    /// same happens if the clock was set back, because the age of these bounds is then unknown. But
    /// after such a step, `high` is first lowered to at most a day ahead of the clock.
    pub(super) fn rotate(&mut self, precise: Duration) {
        let now = millis(precise);
        match now.checked_sub(self.rotated) {
            Some(age) if age < PERIOD => return,
            Some(age) if age < 2 * PERIOD => {}
            Some(_) => self.mid = self.high,
            None => {
                self.high = self.high.min(far(precise));
                self.mid = self.high;
            }
        }
        (self.floor, self.mid, self.rotated) = (self.mid, self.high, now);
    }

    /// Raises `high` to at least the fence of a stored name, unless the fence is too far ahead of
    /// the clock.
    pub(super) fn heard(&mut self, fence: u64, now: Duration) {
        if fence > self.high && fence <= far(now) {
            self.high = fence.max(fence.min(micros(now)) + AHEAD);
        }
    }

    pub(super) const fn high(&self) -> u64 {
        self.high
    }

    pub(super) const fn floor(&self) -> u64 {
        self.floor
    }
}

fn signed(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// The highest ballot that is not too far ahead of the clock.
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
    /// Ballots are compared with the clock, in microseconds.
    const TOKEN: u64 = 7_000_000;
    /// `high` after `TOKEN` was granted.
    const HIGH: u64 = TOKEN + AHEAD;

    /// A record that was made at `now` and has granted `TOKEN`.
    fn record(now: Duration) -> Record {
        let mut record = Record::new(&"id".into(), &"process".into(), now, None, Duration::ZERO);
        record.heard(TOKEN, now);
        record
    }

    #[test]
    fn floor_covers_granted_ballots_before_fences_are_forgotten() {
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
    fn ballot_of_a_period_ago_is_not_below_the_floor_yet() {
        let mut record = record(1_000 * SECOND);
        record.rotate(1_035 * SECOND);
        assert_eq!(record.floor(), 0);
        record.rotate(1_069 * SECOND);
        assert_eq!(record.floor(), 0);
        record.rotate(1_070 * SECOND);
        assert_eq!(record.floor(), HIGH);
    }

    #[test]
    fn floor_rises_after_two_periods_even_in_one_rotation() {
        for (passed, floor) in [(69, 0), (70, HIGH)] {
            let mut record = record(1_000 * SECOND);
            record.rotate(SECOND * (1_000 + passed));
            assert_eq!(record.floor(), floor, "{passed} s later");
        }
    }

    #[test]
    fn clock_that_was_set_back_makes_all_ballots_old() {
        let mut record = record(1_000 * SECOND);
        record.rotate(999 * SECOND);
        assert_eq!(record.floor(), HIGH);
    }

    #[test]
    fn floor_is_at_most_a_day_ahead_after_the_clock_is_set_right() {
        let (year, day) = (365 * 86_400 * SECOND, 86_400_000_000);
        let mut record = record(SECOND);
        record.rotate(year);
        record.heard(u64::try_from(year.as_micros()).unwrap(), year);
        record.rotate(7 * SECOND);
        assert_eq!((record.high(), record.floor()), (7_000_000 + day, 7_000_000 + day));
        record.sync(1 << 52, 7 * SECOND);
        assert_eq!(record.floor(), 7_000_000 + day);
    }

    #[test]
    fn floor_never_falls() {
        let mut record = record(1_000 * SECOND);
        record.sync(9_000_000, 1_000 * SECOND);
        record.rotate(5_000 * SECOND);
        record.sync(8_000_000, 5_000 * SECOND);
        assert_eq!((record.floor(), record.high()), (9_000_000, 9_000_000));
    }

    #[test]
    fn high_covers_every_granted_ballot_and_is_seldom_written() {
        let (mut record, mut written) = (record(1_000 * SECOND), 0);
        for ballot in (TOKEN..TOKEN + 1_000_000).step_by(1_000) {
            let before = record.high();
            record.heard(ballot, 1_000 * SECOND);
            assert!((ballot..=ballot + AHEAD).contains(&record.high()), "{ballot}");
            written += u32::from(record.high() != before);
        }
        assert_eq!(written, 3);
    }

    /// If a ballot ahead of the clock got the full margin, `high` would rise above each new ballot,
    /// and the floor would follow.
    #[test]
    fn ballot_that_leads_the_clock_is_led_by_less_and_less() {
        for (lead, ahead) in [(0, AHEAD), (1_000, AHEAD - 1_000), (AHEAD, 0), (2 * AHEAD, 0)] {
            let mut record = Record { high: 0, ..record(SECOND) };
            record.heard(1_000_000 + lead, SECOND);
            assert_eq!(record.high(), 1_000_000 + lead + ahead, "{lead} ahead");
        }
    }

    #[test]
    fn ballot_more_than_a_day_ahead_is_not_heard() {
        let mut record = record(SECOND);
        let high = record.high();
        record.heard(1_000_000 + FAR + 1, SECOND);
        assert_eq!(record.high(), high);
        record.heard(1_000_000 + FAR, SECOND);
        assert_eq!(record.high(), 1_000_000 + FAR);
    }
}
