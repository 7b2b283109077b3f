//! What a node keeps of one name.

use std::sync::Arc;
use std::time::Duration;

use super::line::Line;
use super::readers::Readers;
use super::record::{KEEP, far};
use super::{LONGEST_TURN, millis};
use crate::node::inspection::Description;
use crate::node::operation::{Note, Operation};
use crate::rules::roster::LONGEST;

/// How many revoked owners are remembered.
const TAKEN: usize = 24;

/// For how long it is remembered who was revoked, where the name is used.
const REMEMBERED: Duration = Duration::from_secs(3_600);

/// Who holds a name, or held it last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    pub(super) owner: Arc<str>,
    pub(super) count: u32,
    /// Zero since it was released.
    pub(super) until: Duration,
    /// Whether it is not renewed any more.
    pub(super) revoked: bool,
}

/// What an owner said of itself, and when that was told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Noted {
    pub(super) owner: Arc<str>,
    pub(super) token: u64,
    pub(super) note: Note,
    pub(super) at: Duration,
}

/// A time that is over, and is none of a release.
const OVER: Duration = Duration::from_millis(1);

impl Hold {
    pub(super) fn new(owner: &Arc<str>, count: u32, until: Duration) -> Self {
        Self { owner: owner.clone(), count, until, revoked: false }
    }
}

/// Who holds a name, as an operation sees it.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) owner: Arc<str>,
    pub(super) left: Duration,
    pub(super) revoked: bool,
}

impl Kept {
    fn of(now: Duration) -> impl Fn(&Hold) -> Self {
        move |hold| Self { owner: hold.owner.clone(), left: hold.until - now, revoked: hold.revoked }
    }
}

/// A name: the string and the sorted set of a real node, which may keep it a little longer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    hold: Option<Hold>,
    pub(super) fence: u64,
    /// The owner that was last released here without holding it, and until when that is kept.
    released: Option<(Arc<str>, Duration)>,
    /// The owners that were last revoked here.
    taken: Vec<Arc<str>>,
    /// The highest ballot up to which all readers were.
    taken_readers: Option<u64>,
    /// Until when these are kept, and with them the name.
    taken_till: Duration,
    /// Who may claim the free name first, until when.
    pub(super) turn: Option<(Arc<str>, Duration)>,
    pub(super) line: Line,
    /// What some owner said of itself.
    note: Option<Noted>,
    pub(super) readers: Readers,
    /// Of a semaphore's gate, how many permits that has.
    permits: Option<u32>,
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
        let reads = self.readers.of(owner, now).filter(|_| shared);
        if let Some((ends, revoked)) = reads {
            return Some(Kept { owner: owner.into(), left: ends - now, revoked });
        }
        let held = self.holder(now).map(Kept::of(now));
        if shared { held } else { held.or_else(|| self.last_reader(now)) }
    }

    fn last_reader(&self, now: Duration) -> Option<Kept> {
        let last = self.readers.last(now)?;
        Some(Kept { owner: last.into(), left: self.readers.ends() - now, revoked: false })
    }

    /// Whether it is a reader's own writer, which may become that reader.
    pub(super) fn is_followed_by(&self, owner: &str, now: Duration) -> bool {
        let writer = self.holder(now).filter(|hold| !hold.revoked);
        writer.is_some_and(|hold| Operation::shares(Operation::acquisition(&hold.owner), Operation::acquisition(owner)))
    }

    /// The ballot that one of this owner must be above.
    pub(super) fn fence_of(&self, owner: &str) -> u64 {
        if Operation::is_shared(owner) { self.fence } else { self.fence.max(self.readers.fence) }
    }

    /// Whether `owner` holds it, not as a reader, and it was not taken away.
    pub(super) fn is_kept_by(&self, owner: &str, now: Duration) -> bool {
        self.holder(now).is_some_and(|hold| *hold.owner == *owner && !hold.revoked)
    }

    /// Whether `owner` was the last that was released, or was revoked: a late renewal must not
    /// revive that.
    pub(super) fn is_gone(&self, owner: &str, now: Duration) -> bool {
        let freed = self.hold.as_ref().is_some_and(|hold| hold.until.is_zero() && *hold.owner == *owner);
        let released = self.released.as_ref().is_some_and(|(released, _)| **released == *owner);
        freed || released || self.is_revoked(owner, now) || self.readers.is_gone(owner, now)
    }

    /// Whether a reader with this ballot, which does not read, was revoked with all others.
    pub(super) fn is_revoked_with_all(&self, ballot: u64) -> bool {
        self.taken_readers.is_some_and(|revoked| ballot <= revoked)
    }

    /// Whether it was taken away from `owner`.
    pub(super) fn is_revoked(&self, owner: &str, now: Duration) -> bool {
        let marked = self.hold.as_ref().is_some_and(|hold| hold.revoked && *hold.owner == *owner);
        let reads = self.readers.of(owner, now).is_some_and(|(_, revoked)| revoked);
        marked || reads || self.taken.iter().any(|taken| **taken == *owner)
    }

    /// Whether the writer was revoked here that becomes this reader.
    pub(super) fn was_revoked(&self, reader: &str) -> bool {
        let becomes = |owner: &str| Operation::shares(Operation::acquisition(owner), Operation::acquisition(reader));
        let marked = self.hold.as_ref().is_some_and(|hold| hold.revoked && becomes(&hold.owner));
        marked || self.taken.iter().any(|taken| becomes(taken))
    }

    /// Forgets what has ended. Whether nothing is left.
    pub(super) fn expire(&mut self, now: Duration) -> bool {
        self.line.expire(now);
        // A turn that is longer than any: the node's clock was set back since it was given.
        self.turn.take_if(|(_, until)| *until <= now || *until > now + LONGEST_TURN);
        // Later than that it is only where the node's clock was set back.
        self.released.take_if(|(_, till)| {
            *till = (*till).min(now + KEEP);
            *till <= now
        });
        self.taken_till = self.taken_till.min(now + REMEMBERED);
        if self.taken_till <= now {
            self.taken.clear();
            self.taken_readers = None;
        }
        self.fence = self.fence.max(self.readers.expire(now).unwrap_or_default());
        if self.expires <= now {
            let line = std::mem::take(&mut self.line);
            *self = Self { line, ..Self::default() };
        }
        self.expires.is_zero() && self.line.first().is_none()
    }

    /// It changes: it is kept from now on, or from the end of its hold, and while it is remembered
    /// who was revoked. A fence too far ahead for the record is kept until clocks have passed it.
    pub(super) fn keep(&mut self, precise: Duration) {
        let last = self.last(millis(precise));
        let passed = if self.highest() > far(precise) { self.passed() } else { last };
        let taken = if self.taken.is_empty() { Duration::ZERO } else { self.taken_till };
        // What renewals of permits said of the gate stands.
        let told = self.permits.map_or(Duration::ZERO, |_| self.expires.min(millis(precise) + LONGEST));
        self.expires = (last.max(passed) + KEEP).max(taken).max(told);
    }

    /// Of a semaphore's gate, how many permits that has.
    pub(super) const fn permits(&self) -> Option<u32> {
        self.permits
    }

    /// It is the gate of a semaphore with so many permits, or more. Who registered when there were
    /// fewer is handed nothing: it is to ask again, and be refused.
    pub(super) fn seat(&mut self, permits: u32) {
        if self.permits.is_some_and(|known| known < permits) {
            self.line.withdraw_all();
        }
        self.permits = self.permits.max(Some(permits));
    }

    /// Permits of the semaphore whose gate this is are held until `ends`: it is remembered how many
    /// there are. What says fewer than is known adds nothing.
    pub(super) fn remember(&mut self, permits: u32, ends: Duration) {
        let unknown = self.expires.is_zero();
        if unknown || self.permits.is_some_and(|known| known <= permits) {
            self.seat(permits);
            self.expires = self.expires.max(ends + KEEP);
        }
    }

    /// What a claim misuses that is a semaphore's with so many permits, if of any, and of its gate:
    /// how many permits there are, or 0 where it is held as a lock.
    pub(super) fn misused(&self, gate: Option<u32>, owner: &str, now: Duration) -> Option<u32> {
        match (self.permits, gate) {
            (None, None) => None,
            (Some(permits), wanted) => wanted.is_none_or(|wanted| wanted < permits).then_some(permits),
            (None, Some(_)) => self.kept(owner, now).is_some_and(|kept| *kept.owner != *owner).then_some(0),
        }
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

    /// Whether the record may not know the fence: it may have been too far when it was granted.
    pub(super) fn is_ahead(&self, now: Duration) -> bool {
        self.passed() > self.last(now)
    }

    pub(super) fn hold(&mut self, hold: Hold, fence: u64, precise: Duration) {
        self.hold = Some(hold);
        self.fence = fence;
        self.keep(precise);
        // None that is over comes back where the clock is set back.
        self.readers.purge(millis(precise));
    }

    pub(super) fn extend(&mut self, ttl: Duration, count: u32, precise: Duration) {
        if let Some(hold) = &mut self.hold {
            hold.until = millis(precise) + millis(ttl);
            hold.count = if self.permits.is_none() { count } else { hold.count };
        }
        self.keep(precise);
    }

    /// One more reads it, for that long, or still does. A writer that becomes this reader is none
    /// any more.
    pub(super) fn read(&mut self, owner: &Arc<str>, ttl: Duration, ballot: u64, precise: Duration) {
        let now = millis(precise);
        match &mut self.hold {
            Some(hold) if hold.until > now => hold.until = Duration::ZERO,
            // A writer whose time is over stays out, also where the clock goes back.
            Some(hold) => hold.until = hold.until.min(OVER),
            None => {}
        }
        self.readers.fence = self.readers.fence.max(ballot);
        self.readers.read(owner, now + millis(ttl), now);
        self.keep(precise);
    }

    /// Nobody holds it any more; nothing else changes.
    pub(super) const fn free(&mut self) {
        if let Some(hold) = &mut self.hold {
            hold.until = Duration::ZERO;
        }
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

    /// Whether what `owner` says of itself is kept.
    pub(super) fn is_described_by(&self, owner: &str) -> bool {
        self.note.as_ref().is_some_and(|noted| *noted.owner == *owner)
    }

    /// What its holder says of itself.
    pub(super) fn description(&self, now: Duration) -> Option<Description> {
        let holder = &self.holder(now)?.owner;
        let Noted { owner, token, note: Note { number, age, says }, at } = self.note.as_ref()?;
        let since = millis(*age) + now.saturating_sub(*at);
        let told = Description { says: says.clone(), since, token: *token, number: *number };
        (owner == holder && Operation::may_have_note(holder)).then_some(told)
    }

    /// Lets the hold of `owner` end: it takes it no more. For how long it has it still, if it does.
    /// The fence is at least `ballot` from now on, in either case.
    pub(super) fn revoke(&mut self, owner: &Arc<str>, ballot: u64, precise: Duration) -> Option<Duration> {
        let now = millis(precise);
        self.fence = self.fence.max(ballot);
        let left = self.revoke_hold(owner, now);
        self.take_note_of(owner, now);
        if Operation::is_shared(owner) {
            // Readers that are not here may have been revoked elsewhere; and revocations may come in
            // another order than they were dealt.
            self.taken_readers = self.taken_readers.max(Some(ballot));
        }
        self.keep(precise);
        left
    }

    fn revoke_hold(&mut self, owner: &Arc<str>, now: Duration) -> Option<Duration> {
        if Operation::is_shared(owner) {
            return self.readers.revoke(now);
        }
        let hold = self.hold.as_mut().filter(|hold| hold.until > now && hold.owner == *owner)?;
        hold.revoked = true;
        Some(hold.until - now)
    }

    /// A renewal of it takes nothing here.
    fn take_note_of(&mut self, owner: &Arc<str>, now: Duration) {
        self.taken.retain(|known| known != owner);
        self.taken.push(owner.clone());
        self.taken.drain(..self.taken.len().saturating_sub(TAKEN));
        self.taken_till = now + REMEMBERED;
    }

    /// As if it had never been held.
    pub(super) fn forget(&mut self) {
        self.fence = self.highest();
        (self.hold, self.readers) = (None, Readers::default());
    }

    /// Whether `owner` held it until now. The fence is at least `ballot` from now on, in either
    /// case.
    pub(super) fn release(&mut self, owner: &Arc<str>, ballot: u64, precise: Duration) -> bool {
        let now = millis(precise);
        let mine = self.is_held_by(owner, now);
        self.note.take_if(|noted| noted.owner == *owner);
        if Operation::is_shared(owner) {
            self.readers.dismiss(owner, now);
            self.readers.fence = self.readers.fence.max(ballot);
            self.keep(precise);
            return mine;
        }
        match &mut self.hold {
            Some(hold) if mine => hold.until = Duration::ZERO,
            _ => self.released = Some((owner.clone(), now + KEEP)),
        }
        self.fence = self.fence.max(ballot);
        self.keep(precise);
        mine
    }
}
