//! What one client enrolled last, and whose votes count by that.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::rules::roster::{Electorate, Listing, PROTOCOL, Server};
use crate::rules::{NodeSet, Tick};

/// What this client tells rosters, and what they took.
#[derive(Debug)]
pub(crate) struct Members {
    /// Its own; zero where it has no restart guard.
    pub(super) max_ttl: Duration,
    /// Which protocol it speaks.
    pub(crate) protocol: u32,
    /// It only looks, and acquires nothing.
    pub(crate) onlooker: bool,
    /// Milliseconds: the longest ttl that it guards against or uses.
    longest: AtomicU64,
    pub(super) node_timeout: Duration,
    /// Nanoseconds: from when on an enrolment goes along with a claim.
    early: AtomicU64,
    listing: Mutex<Listing>,
    news: Notify,
}

impl Members {
    pub(crate) fn new(max_ttl: Duration, ttl: Duration, node_timeout: Duration, onlooker: bool) -> Self {
        let longest = AtomicU64::new(millis(max_ttl.max(ttl)));
        Self {
            max_ttl,
            protocol: PROTOCOL,
            onlooker,
            longest,
            node_timeout,
            early: AtomicU64::new(u64::MAX),
            listing: Mutex::default(),
            news: Notify::new(),
        }
    }

    /// The same of a client that says it speaks another protocol.
    pub(crate) const fn speaking(mut self, protocol: u32) -> Self {
        self.protocol = protocol;
        self
    }

    /// A lock of this client has that ttl. Returns whether nodes are to be told.
    pub(super) fn use_ttl(&self, ttl: Duration) -> bool {
        self.longest.fetch_max(millis(ttl), Ordering::Relaxed) < millis(ttl)
    }

    /// The longest ttl that it guards against or uses.
    pub(super) fn longest(&self) -> Duration {
        Duration::from_millis(self.longest.load(Ordering::Relaxed))
    }

    /// From `at` on the next enrolment may go along with a claim, before it is due by itself.
    pub(super) fn may_enrol_from(&self, at: Tick) {
        self.early.store(nanos(at), Ordering::Relaxed);
    }

    /// Whether one is to go along with what is asked at `now`: once.
    pub(super) fn enrols_along(&self, now: Tick) -> bool {
        let due = |early| early <= nanos(now);
        due(self.early.load(Ordering::Relaxed)) && due(self.early.swap(u64::MAX, Ordering::Relaxed))
    }

    /// All that answered took the servers of `chosen`, those of `took` themselves. See
    /// [`Listing::take`].
    pub(super) fn listed(
        &self,
        servers: &[Option<Server>],
        (chosen, took): (NodeSet, NodeSet),
        began: Tick,
        longest: Duration,
    ) {
        self.listing().take(servers, (chosen, took), began, longest);
    }

    /// Only the votes of these count still.
    pub(super) fn keep(&self, fit: NodeSet) {
        self.listing().keep(fit);
    }

    /// Nobody's votes count any more.
    pub(super) fn unlisted(&self) {
        self.listing().clear();
    }

    /// Whether every server of `chosen` counts at `now`.
    pub(super) fn has_all(&self, servers: &[Option<Server>], chosen: NodeSet, now: Tick) -> bool {
        self.listing().has_all(servers, chosen, now)
    }

    /// Whose votes count at `now`, beside those of `exempt`.
    pub(super) fn electorate(&self, exempt: NodeSet, ttl: Duration, now: Tick) -> Electorate {
        self.listing().electorate(exempt, ttl, now)
    }

    /// The nodes whose votes count at `now`, those of `exempt` among them.
    pub(super) fn voters(&self, exempt: NodeSet, ttl: Duration, now: Tick) -> NodeSet {
        self.listing().voters(exempt, ttl, now)
    }

    /// A round of enrolling has ended.
    pub(super) fn tell(&self) {
        self.news.notify_waiters();
    }

    /// Waits until a round of enrolling ends, after `begin` has asked for one.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn round(&self, begin: impl FnOnce()) {
        let news = self.news.notified();
        tokio::pin!(news);
        news.as_mut().enable();
        begin();
        news.await;
    }

    fn listing(&self) -> MutexGuard<'_, Listing> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nanos(at: Tick) -> u64 {
    u64::try_from(at.since_origin().as_nanos()).unwrap_or(u64::MAX)
}

/// Rounded up: a ttl with a fraction is not longer than what was told.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_enrolment_goes_along_once_and_not_too_soon() {
        let members = Members::new(Duration::ZERO, Duration::ZERO, Duration::ZERO, false);
        let at = |seconds| Tick::new(Duration::from_secs(seconds));
        assert!(!members.enrols_along(at(100)), "none was made");
        members.may_enrol_from(at(7));
        assert_eq!([6, 7, 8].map(|now| members.enrols_along(at(now))), [false, true, false]);
    }

    #[test]
    fn a_ttl_with_a_fraction_of_a_millisecond_is_told_whole() {
        let ttl = Duration::from_secs(10) / 3;
        let members = Members::new(Duration::ZERO, ttl, Duration::from_secs(2), false);
        assert!(members.longest() >= ttl && members.longest() < ttl + Duration::from_millis(1));
    }
}
