//! The terms of a lock that the agent holds for a client: who may use it, when it ends, and until
//! when the client may work. No async, no clock: each call takes the time.

use std::time::{Duration, Instant};

/// The process on the other side of a connection. Over TCP, nothing is known of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) uid: Option<u32>,
    pub(super) pid: Option<i32>,
}

/// The number of a connection.
pub(super) type ClientId = u64;

#[derive(Debug)]
pub(super) struct Terms {
    uid: Option<u32>,
    /// The connection that the lock ends with.
    pub(super) client: Option<ClientId>,
    keep: Option<Keep>,
    /// The latest deadline that the client was told.
    told: Option<Instant>,
}

/// The lock ends unless its client says in time that it lives.
#[derive(Clone, Copy, Debug)]
struct Keep {
    every: Duration,
    until: Instant,
}

impl Terms {
    /// The terms of a lock that was granted at `now`.
    pub(super) fn new(uid: Option<u32>, client: Option<ClientId>, keep: Option<Duration>, now: Instant) -> Self {
        let keep = keep.map(|every| Keep { every, until: now + every });
        Self { uid, client, keep, told: None }
    }

    /// Whether this peer may use the lock. Over TCP no peer has a uid, so there the id is the key.
    pub(super) fn allow(&self, peer: Peer) -> bool {
        self.uid == peer.uid
    }

    pub(super) const fn uid(&self) -> Option<u32> {
        self.uid
    }

    /// When the lock ends unless its client says before that it lives.
    pub(super) fn keep_until(&self) -> Option<Instant> {
        self.keep.map(|keep| keep.until)
    }

    pub(super) fn has_lapsed(&self, now: Instant) -> bool {
        self.keep.is_some_and(|keep| keep.until <= now)
    }

    /// The client lives. The caller must have checked that the lock has not lapsed.
    pub(super) fn keep(&mut self, now: Instant) {
        if let Some(keep) = &mut self.keep {
            keep.until = now + keep.every;
        }
    }

    /// For how long the client may work, counted from the arrival of its request. The client counts
    /// from the moment when it sent the request, so it stops earlier.
    ///
    /// `now` must have been read before `remaining`, the rest of the lease.
    pub(super) fn until(&mut self, arrival: Instant, now: Instant, remaining: Duration) -> Duration {
        let lease = now + remaining;
        let end = self.keep_until().map_or(lease, |keep| keep.min(lease));
        self.told = self.told.max(Some(end));
        end.saturating_duration_since(arrival)
    }

    /// The latest deadline that the client was told. Until then, the client may work.
    pub(super) const fn told(&self) -> Option<Instant> {
        self.told
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
        // Whatever is told, it is over when the lock lapses.
        assert_eq!(kept.told(), kept.keep_until());
        assert_eq!(plain.until(arrival + 60 * SECOND, granted, SECOND), Duration::ZERO);
    }

    #[test]
    fn told_deadline_never_moves_back() {
        let now = Instant::now();
        let mut lock = terms(None, now);
        assert_eq!(lock.told(), None);
        lock.until(now, now, 29 * SECOND);
        lock.until(now, now, SECOND);
        assert_eq!(lock.told(), Some(now + 29 * SECOND));
    }

    #[test]
    fn lock_lapses_unless_it_is_kept() {
        let now = Instant::now();
        let mut lock = terms(Some(5 * SECOND), now);
        assert!(!lock.has_lapsed(now + 4 * SECOND));
        lock.keep(now + 4 * SECOND);
        assert!(!lock.has_lapsed(now + 8 * SECOND) && lock.has_lapsed(now + 9 * SECOND));
        let mut plain = terms(None, now);
        plain.keep(now);
        assert!(!plain.has_lapsed(now + 1_000 * SECOND));
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
