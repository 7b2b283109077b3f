//! The terms of a lock that the agent holds for a client: who may use it, when it ends, and until
//! when the client may work. This module is pure: callers pass the time.

use std::time::{Duration, Instant};

use quorumlock::LostReason;

/// How long a lost lock stays in the table after its client's last deadline. Until then, the client
/// can still ask why the lock was lost. After that, the lock must not take up places.
const LINGER: Duration = Duration::from_secs(60);

/// The process on the other side of a connection. Over TCP, both fields are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) uid: Option<u32>,
    pub(super) pid: Option<i32>,
}

/// The id of a connection. In the table, ids begin at 1.
pub(super) type ClientId = u64;

/// Why the agent ended a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The client did not call `keep` in time.
    NotKept,
    /// The connection that had taken the lock was closed.
    Disconnected,
    /// The agent has stopped.
    Stopping,
    /// The lock was lost, and the client did not release it.
    Lost(LostReason),
}

#[derive(Debug)]
pub(super) struct Terms {
    uid: Option<u32>,
    /// The connection with which the lock ends, if there is one.
    pub(super) client: Option<ClientId>,
    keep: Option<Keep>,
    /// The latest deadline in an answer to the client. Until then, the client may work.
    told: Instant,
    /// Whether the agent has closed the lock's connection, or is about to. Many HTTP libraries then
    /// close the client's side by themselves, so this close must not release the lock.
    is_cut: bool,
}

/// The lock ends at `until`, unless the client calls `keep` before.
#[derive(Clone, Copy, Debug)]
struct Keep {
    every: Duration,
    until: Instant,
}

impl Terms {
    /// The terms of a lock that was granted at `now`.
    pub(super) fn new(uid: Option<u32>, client: Option<ClientId>, keep: Option<Duration>, now: Instant) -> Self {
        let keep = keep.map(|every| Keep { every, until: now + every });
        Self { uid, client, keep, told: now, is_cut: false }
    }

    /// Whether this peer may use the lock. Over TCP no peer has a uid, so any program that knows
    /// the lock's id may use the lock.
    pub(super) fn allow(&self, peer: Peer) -> bool {
        self.uid == peer.uid
    }

    pub(super) const fn uid(&self) -> Option<u32> {
        self.uid
    }

    /// Prolongs the lock, because its client lives, even if the agent has closed the lock's
    /// connection. The caller must check first that the lock has not lapsed. For `now` and
    /// `remaining`, see [`until`](Self::until).
    pub(super) fn keep(&mut self, now: Instant, remaining: Duration) {
        if let Some(keep) = &mut self.keep {
            keep.until = now + keep.every;
        }
        self.told = self.told.max(self.end(now, remaining));
    }

    /// Notes that the agent closes the lock's connection. From now on, the lock ends at the last
    /// deadline in an answer to its client, unless the client calls `keep`.
    pub(super) const fn cut(&mut self) {
        self.is_cut = self.client.is_some();
    }

    /// Whether the lock is released when the client closes its connection.
    pub(super) const fn ends_with_connection(&self) -> bool {
        !self.is_cut
    }

    /// Why the lock ends, if its time is over.
    pub(super) fn lapsed(&self, now: Instant) -> Option<Ended> {
        match self.keep {
            Some(keep) if keep.until <= now => Some(Ended::NotKept),
            _ if self.is_cut && self.told <= now => Some(Ended::Disconnected),
            _ => None,
        }
    }

    /// Whether the lock must leave the table if it was lost.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.told + LINGER <= now
    }

    /// When to check again whether the lock has lapsed, or is stale. Later than `now`, unless the
    /// lock has lapsed.
    pub(super) fn look(&self, now: Instant) -> Instant {
        let (kept, cut) = (self.keep.map(|keep| keep.until), self.is_cut.then_some(self.told));
        kept.into_iter().chain(cut).fold(self.told.max(now) + LINGER, Instant::min)
    }

    /// For how long the client may work, counted from the arrival of its request. The client counts
    /// from the moment when it sent the request, so it stops earlier.
    ///
    /// `now` must have been read before `remaining`, the rest of the lease.
    pub(super) fn until(&mut self, arrival: Instant, now: Instant, remaining: Duration) -> Duration {
        let mut end = self.end(now, remaining);
        if self.is_cut {
            // Programs that only look at the lock must not prolong it.
            end = end.min(self.told);
        } else {
            self.told = self.told.max(end);
        }
        end.saturating_duration_since(arrival)
    }

    /// When the lock ends if its client sends no more requests: with the lease, or after `keep_ms`.
    fn end(&self, now: Instant, remaining: Duration) -> Instant {
        let lease = now + remaining;
        self.keep.map_or(lease, |keep| keep.until.min(lease))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn terms(keep: Option<Duration>, now: Instant) -> Terms {
        Terms::new(Some(7), Some(1), keep, now)
    }

    #[test]
    fn client_may_work_until_lease_or_keep_ends() {
        let arrival = Instant::now();
        let granted = arrival + 10 * SECOND;
        let (mut plain, mut kept) = (terms(None, granted), terms(Some(5 * SECOND), granted));
        assert_eq!(plain.until(arrival, granted, 29 * SECOND), 39 * SECOND, "the wait counts, too");
        assert_eq!(kept.until(arrival, granted, 29 * SECOND), 15 * SECOND);
        assert_eq!(kept.until(arrival, granted, 2 * SECOND), 12 * SECOND);
        assert_eq!(kept.told, granted + 5 * SECOND, "no deadline is after the time when the lock lapses");
        assert_eq!(plain.until(arrival + 60 * SECOND, granted, SECOND), Duration::ZERO);
    }

    #[test]
    fn told_deadline_never_moves_back() {
        let now = Instant::now();
        let mut lock = terms(None, now);
        lock.until(now, now, 29 * SECOND);
        lock.until(now, now, SECOND);
        assert_eq!(lock.told, now + 29 * SECOND);
    }

    #[test]
    fn lock_lapses_unless_it_is_kept() {
        let now = Instant::now();
        let mut lock = terms(Some(5 * SECOND), now);
        assert_eq!(lock.lapsed(now + 4 * SECOND), None);
        lock.keep(now + 4 * SECOND, SECOND);
        assert_eq!([8, 9].map(|at| lock.lapsed(now + at * SECOND)), [None, Some(Ended::NotKept)]);
        let mut plain = terms(None, now);
        plain.keep(now, SECOND);
        assert_eq!(plain.lapsed(now + 1_000 * SECOND), None);
    }

    #[test]
    fn lock_of_a_cut_connection_lapses_at_its_last_deadline() {
        let now = Instant::now();
        let mut lock = terms(Some(50 * SECOND), now);
        lock.until(now, now, 29 * SECOND);
        assert!(lock.ends_with_connection());
        lock.cut();
        assert!(!lock.ends_with_connection());
        assert_eq!(lock.look(now), now + 29 * SECOND);
        assert_eq!([28, 29].map(|at| lock.lapsed(now + at * SECOND)), [None, Some(Ended::Disconnected)]);
        // A request that only shows the lock does not prolong it, but `keep` does.
        assert_eq!(lock.until(now, now + 5 * SECOND, 29 * SECOND), 29 * SECOND);
        assert_eq!(lock.until(now, now + 5 * SECOND, SECOND), 6 * SECOND);
        assert_eq!(lock.look(now), now + 29 * SECOND);
        lock.keep(now + 5 * SECOND, 29 * SECOND);
        assert_eq!((lock.lapsed(now + 33 * SECOND), lock.look(now)), (None, now + 34 * SECOND));
        assert_eq!(lock.until(now, now + 5 * SECOND, 29 * SECOND), 34 * SECOND);
        let mut untied = Terms::new(Some(7), None, Some(SECOND), now);
        untied.cut();
        assert_eq!(untied.lapsed(now), None, "it has no connection");
    }

    #[test]
    fn looks_come_after_the_deadline_and_again() {
        let now = Instant::now();
        let mut lock = terms(None, now);
        lock.until(now, now, 29 * SECOND);
        assert_eq!(lock.look(now), now + 29 * SECOND + LINGER);
        assert!(!lock.is_stale(now + 29 * SECOND) && lock.is_stale(now + 29 * SECOND + LINGER));
        assert_eq!(lock.look(now + 100 * SECOND), now + 100 * SECOND + LINGER);
    }

    #[test]
    fn lock_is_for_its_own_uid() {
        let lock = terms(None, Instant::now());
        let peer = |uid| Peer { uid, pid: None };
        assert_eq!([Some(7), Some(0), None].map(|uid| lock.allow(peer(uid))), [true, false, false]);
        let over_tcp = Terms::new(None, None, Some(SECOND), Instant::now());
        assert_eq!([Some(0), None].map(|uid| over_tcp.allow(peer(uid))), [false, true]);
    }
}
