//! The readers of a name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The readers of a name: a hash on a real node. Holds that have ended are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Readers {
    readers: BTreeMap<Arc<str>, Reader>,
    /// The highest ballot that was granted to a reader, or that a reader's renewal, release or
    /// withdrawal carried.
    pub(super) fence: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reader {
    pub(super) until: Duration,
    /// The ttl with which `until` was set. If `until` is further ahead than this, the clock was set
    /// back, and `until` becomes this ttl from now.
    ttl: Duration,
    /// The highest ballot of the reader's grants, hand-overs and renewals.
    pub(super) ballot: u64,
}

impl Readers {
    /// Drops the readers whose holds have ended. If no reader is left, returns the readers' fence,
    /// and resets it to 0.
    pub(super) fn expire(&mut self, now: Duration) -> Option<u64> {
        self.readers.values_mut().for_each(|reader| reader.until = reader.until.min(now + reader.ttl));
        self.readers.retain(|_, reader| reader.until > now);
        self.readers.is_empty().then(|| std::mem::take(&mut self.fence))
    }

    /// When the last reader's hold ends.
    pub(super) fn ends(&self) -> Duration {
        self.readers.values().map(|reader| reader.until).max().unwrap_or_default()
    }

    pub(super) fn of(&self, owner: &str, now: Duration) -> Option<Reader> {
        self.readers.get(owner).copied().filter(|reader| reader.until > now)
    }

    /// The reader whose hold ends last.
    pub(super) fn last(&self, now: Duration) -> Option<&str> {
        self.last_above(0, now)
    }

    /// Of the readers with ballots above `over`, the reader whose hold ends last.
    pub(super) fn last_above(&self, over: u64, now: Duration) -> Option<&str> {
        let reads = self.readers.iter().filter(|(_, reader)| reader.until > now && reader.ballot > over);
        reads.max_by_key(|&(owner, reader)| (reader.until, owner)).map(|(owner, _)| &**owner)
    }

    pub(super) fn len(&self, now: Duration) -> u32 {
        let reading = self.readers.values().filter(|reader| reader.until > now).count();
        u32::try_from(reading).unwrap_or(u32::MAX)
    }

    /// Gives `owner` a hold as a reader for `ttl` from now, or extends its hold. An extension never
    /// moves the end of the hold back, and never lowers the hold's ballot.
    pub(super) fn read(&mut self, owner: &Arc<str>, now: Duration, ttl: Duration, ballot: u64) {
        let reader = Reader { until: now + ttl, ttl, ballot };
        let had = self.readers.get(owner).copied().unwrap_or(reader);
        let longer = if had.until > reader.until { had } else { reader };
        self.readers.insert(owner.clone(), Reader { ballot: ballot.max(had.ballot), ..longer });
        self.fence = self.fence.max(ballot);
    }

    /// Removes the reader if its ballot is at most `up_to`. Returns whether the reader was removed.
    pub(super) fn dismiss(&mut self, owner: &str, up_to: u64, now: Duration) -> bool {
        let read = self.of(owner, now).is_some_and(|reader| reader.ballot <= up_to);
        if read {
            self.readers.remove(owner);
        }
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn reader_handed_over_its_own_hold_loses_no_time() {
        let (mut readers, me) = (Readers::default(), "c/s1".into());
        readers.read(&me, SECOND, 30 * SECOND, 7);
        readers.read(&me, 2 * SECOND, 3 * SECOND, 9);
        let hold = readers.of("c/s1", 30 * SECOND).unwrap();
        assert_eq!((hold.until, hold.ttl, hold.ballot), (31 * SECOND, 30 * SECOND, 9));
    }
}
