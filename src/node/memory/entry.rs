//! The data that a node stores about one name.

use std::sync::Arc;
use std::time::Duration;

use super::line::Line;
use super::millis;
use super::readers::Readers;
use super::record::{KEEP, far};
use crate::node::inspection::Description;
use crate::node::operation::{Kind, Note, Operation, Renew};

/// How long a node remembers a revocation, at least: 25 h, which is longer than any ttl.
const REMEMBERED: Duration = Duration::from_secs(90_000);

/// A writer's hold, which may have expired.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    pub(super) owner: Arc<str>,
    pub(super) kind: Kind,
    /// The ballot of the grant, or a higher ballot to which a renewal raised it.
    pub(super) ballot: u64,
    pub(super) count: u32,
    pub(super) until: Duration,
    /// The ttl of the grant or of the last renewal. If `until` is further ahead than this, the
    /// node's clock was set back, and `until` becomes this ttl from now.
    pub(super) ttl: Duration,
}

/// A note, its owner and token, and when the note was stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Noted {
    pub(super) owner: Arc<str>,
    pub(super) token: u64,
    pub(super) note: Note,
    pub(super) at: Duration,
}

impl Hold {
    pub(super) fn new(owner: &Arc<str>, kind: Kind, ballot: u64, count: u32, now: Duration, ttl: Duration) -> Self {
        let ttl = millis(ttl);
        Self { owner: owner.clone(), kind, ballot, count, until: now + ttl, ttl }
    }
}

/// A writer's or a reader's hold, which has not expired.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) owner: Arc<str>,
    pub(super) kind: Kind,
    pub(super) ballot: u64,
    pub(super) left: Duration,
}

impl Kept {
    fn of(now: Duration) -> impl Fn(&Hold) -> Self {
        move |hold| {
            let Hold { ref owner, kind, ballot, until, .. } = *hold;
            Self { owner: owner.clone(), kind, ballot, left: until - now }
        }
    }
}

/// A name's data: on a real node, a hash and some other keys, each with its own expiry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    hold: Option<Hold>,
    /// The highest ballot that was revoked, or that a writer's grant, renewal, withdrawal or
    /// release carried. When the last reader ends, the fence becomes at least the readers' fence.
    pub(super) fence: u64,
    /// Locks with tokens up to this number are never renewed.
    pub(super) over: u64,
    /// The entry is kept at least until this time: [`REMEMBERED`] after the last revocation.
    revoked_till: Duration,
    pub(super) line: Line,
    /// The last note. The owner of this note may no longer hold the name.
    note: Option<Noted>,
    pub(super) readers: Readers,
    /// When the node forgets this entry, except for its queue.
    expires: Duration,
}

impl Entry {
    /// The writer that holds the name now.
    pub(super) fn holder(&self, now: Duration) -> Option<&Hold> {
        self.hold.as_ref().filter(|hold| hold.until > now)
    }

    pub(super) fn is_held_by(&self, owner: &str, now: Duration) -> bool {
        self.kept(owner, now).is_some_and(|kept| *kept.owner == *owner)
    }

    /// The owner's own hold, or else a hold that keeps this owner out. Readers do not keep each
    /// other out.
    pub(super) fn kept(&self, owner: &str, now: Duration) -> Option<Kept> {
        let shared = Operation::is_shared(owner);
        if let Some(reader) = self.readers.of(owner, now).filter(|_| shared) {
            let (kind, ballot, left) = (Kind::Lock, reader.ballot, reader.until - now);
            return Some(Kept { owner: owner.into(), kind, ballot, left });
        }
        let held = self.holder(now).map(Kept::of(now));
        if shared { held } else { held.or_else(|| self.last_reader(now)) }
    }

    /// For how much longer a hold keeps this owner out; zero if no hold does.
    pub(super) fn free_in(&self, owner: &str, now: Duration) -> Duration {
        self.kept(owner, now).map_or(Duration::ZERO, |kept| kept.left)
    }

    /// The reader whose hold ends last, with the readers' fence as the ballot. This hold keeps
    /// writers out until it ends.
    pub(super) fn last_reader(&self, now: Duration) -> Option<Kept> {
        let last = self.readers.last(now)?;
        let (kind, ballot, left) = (Kind::Lock, self.readers.fence, self.readers.ends() - now);
        Some(Kept { owner: last.into(), kind, ballot, left })
    }

    /// The fence that a ballot of this owner must exceed. For a reader, the readers' fence does not
    /// count.
    pub(super) fn fence_of(&self, owner: &str) -> u64 {
        if Operation::is_shared(owner) { self.fence } else { self.highest() }
    }

    /// Drops the expired parts of this entry. Returns whether nothing is left of the entry.
    pub(super) fn expire(&mut self, now: Duration) -> bool {
        self.line.expire(now);
        if let Some(hold) = &mut self.hold {
            hold.until = hold.until.min(now + hold.ttl);
        }
        // If `revoked_till` is further ahead than `REMEMBERED`, the clock was set back: shorten it.
        self.revoked_till = self.revoked_till.min(now + REMEMBERED);
        self.settle(now);
        if self.expires <= now {
            let line = std::mem::take(&mut self.line);
            *self = Self { line, ..Self::default() };
        }
        self.expires.is_zero() && self.line.is_empty()
    }

    /// Drops the readers whose holds have ended. If no reader is left, the name's fence becomes at
    /// least the readers' fence.
    fn settle(&mut self, now: Duration) {
        self.fence = self.fence.max(self.readers.expire(now).unwrap_or_default());
    }

    /// Sets the expiry after a change: `KEEP` after the end of the last hold, or `KEEP` from now if
    /// there is no hold. If the fence is too far ahead to raise `high`, the expiry is at least
    /// `KEEP` after the clock reaches the fence. The entry never expires before `revoked_till`.
    pub(super) fn keep(&mut self, precise: Duration) {
        let last = self.last(millis(precise));
        let passed = if self.highest() > far(precise) { self.passed() } else { last };
        self.expires = (last.max(passed) + KEEP).max(self.revoked_till);
    }

    /// Whether the name is held as the gate of a semaphore and claimed as something else, or the
    /// reverse.
    pub(super) fn is_misused(&self, is_gate: bool, owner: &str, now: Duration) -> bool {
        self.kept(owner, now).is_some_and(|kept| (kept.kind == Kind::Gate) != is_gate)
    }

    fn last(&self, now: Duration) -> Duration {
        self.hold.as_ref().map_or(now, |hold| hold.until.max(now)).max(self.readers.ends())
    }

    /// The higher of the two fences: the name's and the readers'.
    pub(super) fn highest(&self) -> u64 {
        self.fence.max(self.readers.fence)
    }

    /// The time at which the clock reaches the fence. (A ballot stands for a time in microseconds.)
    fn passed(&self) -> Duration {
        Duration::from_millis(self.highest().div_ceil(1_000))
    }

    pub(super) fn hold(&mut self, hold: Hold, fence: u64, precise: Duration) {
        self.hold = Some(hold);
        self.fence = fence;
        self.keep(precise);
    }

    /// Extends the hold, and raises its ballot to at least the renewal's. If the hold kept a lower
    /// ballot, a late withdrawal of an earlier ask would end the hold.
    pub(super) fn extend(&mut self, renewal: &Renew, precise: Duration) {
        let ballot = renewal.ballot;
        if let Some(hold) = &mut self.hold {
            (hold.until, hold.ttl) = (millis(precise) + millis(renewal.ttl), millis(renewal.ttl));
            hold.ballot = hold.ballot.max(ballot);
            hold.kind = renewal.kind;
            hold.count = renewal.count;
        }
        self.fence = self.fence.max(ballot);
        self.keep(precise);
    }

    /// Gives `owner` a hold as a reader, or extends its hold. Removes a writer's hold: the writer
    /// becomes this reader, or its hold has expired. An expired hold must not become valid again if
    /// the clock is set back.
    pub(super) fn read(&mut self, owner: &Arc<str>, ttl: Duration, ballot: u64, precise: Duration) {
        self.hold = None;
        self.readers.read(owner, millis(precise), millis(ttl), ballot);
        self.keep(precise);
    }

    /// Stores a note, unless a note of the same owner with a higher number is stored. Returns
    /// whether the note is new.
    pub(super) fn describe(&mut self, noted: Noted) -> bool {
        let number = noted.note.number;
        let known = self.note.as_ref().filter(|known| known.owner == noted.owner).map(|known| known.note.number);
        if known <= Some(number) {
            self.note = Some(noted);
        }
        known < Some(number)
    }

    /// Whether the stored note belongs to `owner`, and `owner` holds the name or held it last.
    pub(super) fn is_described_by(&self, owner: &str) -> bool {
        let may_be = |hold: &Hold| *hold.owner == *owner && hold.kind.may_have_note();
        self.hold.as_ref().is_some_and(may_be) && self.note.as_ref().is_some_and(|noted| *noted.owner == *owner)
    }

    pub(super) fn description(&self, now: Duration) -> Option<Description> {
        let holder = &self.holder(now)?.owner;
        let Noted { owner, token, note: Note { number, age, says }, at } = self.note.as_ref()?;
        let since = millis(*age) + now.saturating_sub(*at);
        let told = Description { says: says.clone(), since, token: *token, number: *number };
        (owner == holder).then_some(told)
    }

    /// Stops the renewal of all locks with tokens up to `ballot`.
    pub(super) fn revoke(&mut self, ballot: u64, precise: Duration) {
        self.fence = self.fence.max(ballot);
        self.over = self.over.max(ballot);
        self.revoked_till = millis(precise) + REMEMBERED;
        self.keep(precise);
    }

    /// Drops all holds, and keeps the fence.
    pub(super) fn forget(&mut self) {
        self.fence = self.highest();
        (self.hold, self.readers) = (None, Readers::default());
    }

    /// Ends the owner. A writer's locks with tokens up to `token` are over. `ballot` is the highest
    /// ballot that the owner has sent in an ask or received in a push. Returns whether the owner
    /// held the name until now.
    pub(super) fn release(&mut self, owner: &str, token: u64, ballot: u64, precise: Duration) -> bool {
        if !Operation::is_shared(owner) {
            self.over = self.over.max(token);
        }
        let noted = self.is_described_by(owner);
        self.note.take_if(|_| noted);
        // `u64::MAX` ends the hold whatever its ballot is: a hand-over may have used a ballot that
        // the owner does not know yet.
        self.let_go(owner, u64::MAX, ballot, precise)
    }

    /// Takes back the owner's grants with ballots up to `ballot`. Returns whether the owner held
    /// the name with one of these ballots until now.
    pub(super) fn withdraw(&mut self, owner: &str, ballot: u64, precise: Duration) -> bool {
        self.let_go(owner, ballot, ballot, precise)
    }

    /// Ends the owner's hold if the hold's ballot is at most `up_to`. Raises a fence to at least
    /// `ballot`, even if no hold ends: the readers' fence for a reader, the name's fence for a
    /// writer.
    fn let_go(&mut self, owner: &str, up_to: u64, ballot: u64, precise: Duration) -> bool {
        let now = millis(precise);
        let mine = match Operation::is_shared(owner) {
            true => {
                self.readers.fence = self.readers.fence.max(ballot);
                self.readers.dismiss(owner, up_to, now)
            }
            false => {
                self.fence = self.fence.max(ballot);
                let gone = self.hold.take_if(|hold| *hold.owner == *owner && hold.ballot <= up_to);
                gone.is_some_and(|hold| hold.until > now)
            }
        };
        self.settle(now);
        self.keep(precise);
        mine
    }
}
