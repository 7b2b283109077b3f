//! What a node keeps of one name.

use std::sync::Arc;
use std::time::Duration;

use super::line::Line;
use super::millis;
use super::readers::Readers;
use super::record::{KEEP, far};
use crate::node::inspection::Description;
use crate::node::operation::{Kind, Note, Operation, Renew};

/// For how long it is remembered that something was revoked, also if the name is not used.
const REMEMBERED: Duration = Duration::from_secs(90_000);

/// Who holds a name, or held it until its time was over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    pub(super) owner: Arc<str>,
    pub(super) kind: Kind,
    /// With which it was granted.
    pub(super) ballot: u64,
    pub(super) count: u32,
    pub(super) until: Duration,
    /// How long it was granted for. It ends no later than that from now: else the node's clock was
    /// set back.
    pub(super) ttl: Duration,
}

/// What an owner said of itself, and when that was told.
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

/// Who holds a name, as an operation sees it.
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

/// A name: the hash and the sorted set of a real node, which may keep it a little longer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    hold: Option<Hold>,
    /// The highest ballot that was granted, withdrawn, released or revoked here.
    pub(super) fence: u64,
    /// Locks with tokens up to this one are over: they are never renewed.
    pub(super) over: u64,
    /// Until when it is kept at least, since something was revoked.
    revoked_till: Duration,
    pub(super) line: Line,
    /// What some owner said of itself.
    note: Option<Noted>,
    pub(super) readers: Readers,
    /// When the fence is forgotten.
    expires: Duration,
}

impl Entry {
    /// Whoever holds it now, but for readers.
    pub(super) fn holder(&self, now: Duration) -> Option<&Hold> {
        self.hold.as_ref().filter(|hold| hold.until > now)
    }

    pub(super) fn is_held_by(&self, owner: &str, now: Duration) -> bool {
        self.kept(owner, now).is_some_and(|kept| *kept.owner == *owner)
    }

    /// Who holds it, as an operation of this owner sees it: itself, or whoever keeps it out.
    /// Readers do not keep each other out.
    pub(super) fn kept(&self, owner: &str, now: Duration) -> Option<Kept> {
        let shared = Operation::is_shared(owner);
        if let Some(reader) = self.readers.of(owner, now).filter(|_| shared) {
            let (kind, ballot, left) = (Kind::Lock, reader.ballot, reader.until - now);
            return Some(Kept { owner: owner.into(), kind, ballot, left });
        }
        let held = self.holder(now).map(Kept::of(now));
        if shared { held } else { held.or_else(|| self.last_reader(now)) }
    }

    /// The time until no other owner's hold blocks this owner; zero if none does.
    pub(super) fn free_in(&self, owner: &str, now: Duration) -> Duration {
        self.kept(owner, now).map_or(Duration::ZERO, |kept| kept.left)
    }

    /// The last reader, which keeps writers out.
    pub(super) fn last_reader(&self, now: Duration) -> Option<Kept> {
        let last = self.readers.last(now)?;
        let (kind, ballot, left) = (Kind::Lock, self.readers.fence, self.readers.ends() - now);
        Some(Kept { owner: last.into(), kind, ballot, left })
    }

    /// Whether it is a reader's own writer, which may become that reader.
    pub(super) fn is_followed_by(&self, owner: &str, now: Duration) -> bool {
        self.holder(now).is_some_and(|hold| Operation::shares(&hold.owner, owner))
    }

    /// The ballot that one of this owner must be above.
    pub(super) fn fence_of(&self, owner: &str) -> u64 {
        if Operation::is_shared(owner) { self.fence } else { self.highest() }
    }

    /// Forgets what has ended. Whether nothing is left.
    pub(super) fn expire(&mut self, now: Duration) -> bool {
        self.line.expire(now);
        if let Some(hold) = &mut self.hold {
            hold.until = hold.until.min(now + hold.ttl);
        }
        // Later than that it is only where the node's clock was set back.
        self.revoked_till = self.revoked_till.min(now + REMEMBERED);
        self.settle(now);
        if self.expires <= now {
            let line = std::mem::take(&mut self.line);
            *self = Self { line, ..Self::default() };
        }
        self.expires.is_zero() && self.line.is_empty()
    }

    /// Without readers, their fence is that of the name.
    fn settle(&mut self, now: Duration) {
        self.fence = self.fence.max(self.readers.expire(now).unwrap_or_default());
    }

    /// It changes: it is kept from now on, or from the end of its hold, and while it is remembered
    /// that something was revoked. A fence too far ahead for the record is kept until clocks have
    /// passed it.
    pub(super) fn keep(&mut self, precise: Duration) {
        let last = self.last(millis(precise));
        let passed = if self.highest() > far(precise) { self.passed() } else { last };
        self.expires = (last.max(passed) + KEEP).max(self.revoked_till);
    }

    /// Whether it is held as the gate of a semaphore and claimed as a lock, or the other way round.
    pub(super) fn is_misused(&self, is_gate: bool, owner: &str, now: Duration) -> bool {
        self.kept(owner, now).is_some_and(|kept| (kept.kind == Kind::Gate) != is_gate)
    }

    fn last(&self, now: Duration) -> Duration {
        self.hold.as_ref().map_or(now, |hold| hold.until.max(now)).max(self.readers.ends())
    }

    /// The highest ballot of all that it knows.
    pub(super) fn highest(&self) -> u64 {
        self.fence.max(self.readers.fence)
    }

    /// When a clock shows the fence as a number.
    fn passed(&self) -> Duration {
        Duration::from_millis(self.highest().div_ceil(1_000))
    }

    pub(super) fn hold(&mut self, hold: Hold, fence: u64, precise: Duration) {
        self.hold = Some(hold);
        self.fence = fence;
        self.keep(precise);
    }

    /// It is held for longer, with this ballot at least: a late withdrawal of an earlier ask must not
    /// end it.
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

    /// One more reads it, for that long, or still does. A writer that becomes this reader is none
    /// any more, and one whose time is over stays out, also where the clock goes back.
    pub(super) fn read(&mut self, owner: &Arc<str>, ttl: Duration, ballot: u64, precise: Duration) {
        self.hold = None;
        self.readers.read(owner, millis(precise), millis(ttl), ballot);
        self.keep(precise);
    }

    /// Keeps what its holder says of itself, unless that was overtaken. Whether it is news.
    pub(super) fn describe(&mut self, noted: Noted) -> bool {
        let number = noted.note.number;
        let known = self.note.as_ref().filter(|known| known.owner == noted.owner).map(|known| known.note.number);
        if known <= Some(number) {
            self.note = Some(noted);
        }
        known < Some(number)
    }

    /// Whether what `owner`, who holds it or held it last, says of itself is kept.
    pub(super) fn is_described_by(&self, owner: &str) -> bool {
        let may_be = |hold: &Hold| *hold.owner == *owner && hold.kind.may_have_note();
        self.hold.as_ref().is_some_and(may_be) && self.note.as_ref().is_some_and(|noted| *noted.owner == *owner)
    }

    /// What its holder says of itself.
    pub(super) fn description(&self, now: Duration) -> Option<Description> {
        let holder = &self.holder(now)?.owner;
        let Noted { owner, token, note: Note { number, age, says }, at } = self.note.as_ref()?;
        let since = millis(*age) + now.saturating_sub(*at);
        let told = Description { says: says.clone(), since, token: *token, number: *number };
        (owner == holder).then_some(told)
    }

    /// Lets all holds with tokens up to `ballot` end: they are not renewed any more.
    pub(super) fn revoke(&mut self, ballot: u64, precise: Duration) {
        self.fence = self.fence.max(ballot);
        self.over = self.over.max(ballot);
        self.revoked_till = millis(precise) + REMEMBERED;
        self.keep(precise);
    }

    /// As if it had never been held.
    pub(super) fn forget(&mut self) {
        self.fence = self.highest();
        (self.hold, self.readers) = (None, Readers::default());
    }

    /// The owner has ended, with this token, and this is the highest ballot that it knew. Whether it
    /// held the name until now.
    pub(super) fn release(&mut self, owner: &str, token: u64, ballot: u64, precise: Duration) -> bool {
        if !Operation::is_shared(owner) {
            self.over = self.over.max(token);
        }
        let noted = self.is_described_by(owner);
        self.note.take_if(|_| noted);
        // It may have been handed one that it has not heard of.
        self.let_go(owner, u64::MAX, ballot, precise)
    }

    /// The owner takes back what it was granted with ballots up to this one. Whether it held the name
    /// by that until now.
    pub(super) fn withdraw(&mut self, owner: &str, ballot: u64, precise: Duration) -> bool {
        self.let_go(owner, ballot, ballot, precise)
    }

    /// Frees what the owner holds with a ballot up to `up_to`. The fence is at least `ballot` from
    /// now on, in either case: of a reader that of readers, which is the name's without any.
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
