//! The restart guard and the clock guard: from when on a node may vote on claims.
//!
//! This file decides by a node's record and process whether the node may have forgotten grants.
//! `clock.rs` decides whether the node's clock was stepped. `wait.rs` says for how long the votes
//! of a doubted node do not count.
//!
//! A node that lost its memory may grant a name twice. A node whose clock was stepped may have
//! ended a hold early. Neither of these nodes may vote on claims until all affected holds are over.
//! So a node votes once its record is 1.01 `max_ttl` old and its last doubt began at least 1.01
//! `max_ttl` ago. (The 1 % is for clocks that run apart.) This one rule covers a restart, FLUSHALL,
//! an old data file and a failover. A node that forgot must also be synced before it votes.
//!
//! Renewals may count earlier: a node that replies `extended` holds the name for its owner now. But
//! `extended` must not count at once, because another client's round may still count a grant that
//! the node has forgotten. No vote for a claim counts for longer than
//! [`MAX_ROUND`](super::validity::MAX_ROUND). So if clocks run apart by 1 % at most, no round
//! counts a forgotten grant later than `1.02 * MAX_ROUND` after the node forgot it.
//! `docs/protocol.md`, "Doubted nodes", has an example and the proof.

mod clock;
mod granted;
#[cfg(test)]
mod tests;
mod wait;

use std::sync::Arc;
use std::time::Duration;

use self::clock::Offset;
use self::granted::Granted;
pub(super) use self::wait::LATE;
pub(crate) use self::wait::LATEST_SYNC;
use self::wait::Wait;
use super::list::{Record, is_same_process};
use super::tick::Tick;

/// Why a node's votes on claims do not count now.
///
/// # What cannot be seen
///
/// A client judges a node by the node's record, process and clock. The client does not notice:
///
/// - A lock that is removed while the record stays: a `DEL` by hand, eviction, an old snapshot.
/// - An event before this client first saw the node, if the node's record shows no trace of the
///   event.
/// - A step of the clock that is undone before the next reply.
/// - A step that drift could explain: at most 1 % (or the quorum's `drift_factor`, if that is
///   higher) of the time since the last reply, plus the round trips of both replies.
///
/// After any of these events, keep clients away from the node for `max_ttl`: stop the node, or
/// close its port. After this time, every lock that the node forgot has ended. Storage that checks
/// fencing tokens is safe in all these cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Doubt {
    /// The server is new, was restarted or promoted, or was replaced by another server.
    Restarted,
    /// The node forgot what it had granted: its keys were deleted, or an old state was loaded.
    Forgot,
    /// The node's clock was stepped.
    ClockStepped,
    /// The node may have forgotten locks, and all these locks have ended by now. But the node votes
    /// only after a sync has raised its floor to the ballots that other nodes granted.
    Unsynced,
}

impl Doubt {
    /// The causes of a doubt. [`Unsynced`](Self::Unsynced) is not a cause: it follows from a cause.
    pub const CAUSES: [Self; 3] = [Self::Restarted, Self::Forgot, Self::ClockStepped];

    /// The doubt's name in metrics.
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

/// Which replies of a node count at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Trust {
    /// Whether grants are votes.
    pub grants: bool,
    /// Whether `extended`, the reply to a renewal, is a vote.
    pub extensions: bool,
}

/// What a client has learned about a node's memory and clock, over all connections to the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RestartGuard {
    max_ttl: Duration,
    /// How fast two clocks may run apart, in parts per million.
    rate: u32,
    offset: Option<Offset>,
    /// The server's process, as INFO showed it last.
    process: Option<Arc<str>>,
    /// Whether the process has changed since the last record was received, or the server was seen
    /// as a replica.
    replaced: bool,
    /// The last record that was received.
    record: Option<Record>,
    /// Whether the node showed a record in its last answer to a hello.
    present: bool,
    /// The wait that follows from the age of the record.
    young: Wait,
    doubted: Option<(Doubt, Wait)>,
    granted: Granted,
    news: bool,
}

impl RestartGuard {
    /// A guard for locks with ttls up to `max_ttl`; zero switches the guard off. `rate` is the
    /// share by which two clocks may run apart.
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

    /// Records the server's process, as INFO showed it. If the last call had another process, the
    /// node has no vote until a hello returns a record of the present process. If one connection
    /// shows both the process and the record, call this before [`hello`](Self::hello).
    pub fn meets_process(&mut self, process: &str) {
        self.replaced |= self.process.as_deref().is_some_and(|known| !is_same_process(known, process));
        self.process = Some(process.into());
    }

    /// Records that the node was seen as a replica. If this server becomes a master again, its
    /// memory is a copy of another server's memory.
    pub const fn demoted(&mut self) {
        self.replaced = true;
    }

    /// Whether the server has another process than the node's record, as after a restart. The next
    /// hello then gives the record a new id.
    #[must_use]
    pub const fn is_replaced(&self) -> bool {
        self.replaced
    }

    /// Takes the answer to a hello, which was sent at `sent` and answered at `received`. `record`
    /// is the node's record, or `None` if the node has no record.
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

    /// Raises a doubt if this record shows that the node may have forgotten grants.
    fn compare(&mut self, record: &Record, sent: Tick, received: Tick) {
        let replaced = self.replaced && self.process.as_deref().is_none_or(|process| record.is_of(process));
        self.replaced &= !replaced;
        let other = self.record.as_ref().filter(|known| known.id != record.id);
        if let Some(known) = other {
            let restarted = replaced || known.process != record.process;
            // The doubt begins when the record was made, so that it ends at the same time for all
            // clients. If the record has a `word`, its age did not begin at zero, and does not show
            // when the record was made. So this doubt begins now.
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

    /// Records that a grant with this ballot was counted at `now`. If the record of a later hello
    /// has a lower `high`, the node has forgotten this grant.
    pub fn granted(&mut self, ballot: u64, now: Tick) {
        let time = self.offset.map(Offset::time);
        self.granted.count(ballot, time, now);
    }

    /// Checks the `id` of the record in a reply that was received at `now`. `id` is `None` if the
    /// reply showed no record. Returns false if this client has known a record of the node, and
    /// `id` differs from what the last hello showed. In this case, the caller counts a renewal as
    /// `forgot`, and a grant as no vote.
    pub fn showed(&mut self, id: Option<&str>, now: Tick) -> bool {
        let same = self.record.is_none() || self.record().map(|known| &*known.id) == id;
        if !same {
            self.doubt(Doubt::Forgot, Duration::ZERO, now);
        }
        same
    }

    /// The node's record; `None` if the node's last answer to a hello showed no record, or if no
    /// hello was answered.
    #[must_use]
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref().filter(|_| self.present)
    }

    /// The id of the last record that was received, even if the node has lost this record by now.
    #[must_use]
    pub fn id(&self) -> Option<&Arc<str>> {
        self.record.as_ref().map(|record| &record.id)
    }

    /// Returns whether a doubt was raised since the last call. If so, the caller renews the locks
    /// that depend on this node's vote.
    pub const fn take_news(&mut self) -> bool {
        std::mem::replace(&mut self.news, false)
    }

    /// Records a doubt that began `age` before `now`.
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
        // A restart replaces the known reason, because the clock and the memory now belong to
        // another process.
        let renames = known != Doubt::Unsynced && why == Doubt::Restarted;
        let why = if last.until > wait.until && !renames { known } else { why };
        self.doubted = Some((why, last.longer(wait)));
    }
}
