//! Leases that wait to be renewed, in the order of their deadlines. Only a few large renewals may
//! be under way at a time, and small renewals do not wait for large ones.

use std::collections::{BTreeMap, HashMap};
use std::sync::Weak;

use crate::rules::Tick;

/// While at most this many leases wait, dropped leases are not removed.
const FEW: usize = 1_024;

/// Leases that wait to be renewed. Each lease is in the queue at most once. Dropped leases are
/// removed when the queue has doubled since the last removal.
pub(super) struct RenewalQueue<L: ?Sized> {
    /// The leases with small renewals, and those with large ones.
    orders: [BTreeMap<Turn, Weak<L>>; 2],
    /// The place of each lease, by its address. The `Weak` keeps the address from being reused.
    places: HashMap<usize, (usize, Turn)>,
    count: u64,
    room: usize,
}

/// The deadline of a lease, and a number that keeps leases with equal deadlines in order.
type Turn = (Tick, u64);

impl<L: ?Sized> RenewalQueue<L> {
    pub(super) fn new() -> Self {
        Self { orders: [BTreeMap::new(), BTreeMap::new()], places: HashMap::new(), count: 0, room: FEW }
    }

    /// Adds a lease with its deadline. A lease that already waits moves to its new place.
    pub(super) fn wait(&mut self, lease: Weak<L>, by: Tick, large: bool) {
        self.count += 1;
        let (address, mut turn, size) = (address(&lease), (by, self.count), usize::from(large));
        if let Some((size, before)) = self.places.remove(&address) {
            self.orders[size].remove(&before);
            // With the same deadline, the lease keeps its place.
            turn = if before.0 == by { before } else { turn };
        }
        self.places.insert(address, (size, turn));
        self.orders[size].insert(turn, lease);
        if self.len() > self.room {
            self.forget();
        }
    }

    /// Takes the next lease to renew. If `large` is false, takes only leases with small renewals.
    pub(super) fn next(&mut self, large: bool) -> Option<Weak<L>> {
        let first = |size: usize| Some((*self.orders[size].first_key_value()?.0, size));
        let (_, size) = (0..=usize::from(large)).filter_map(first).min()?;
        let (_, lease) = self.orders[size].pop_first()?;
        self.places.remove(&address(&lease));
        Some(lease)
    }

    fn len(&self) -> usize {
        self.orders.iter().map(BTreeMap::len).sum()
    }

    fn forget(&mut self) {
        self.orders.iter_mut().for_each(|order| order.retain(|_, lease| lease.strong_count() > 0));
        self.places.retain(|_, (size, turn)| self.orders[*size].contains_key(turn));
        self.room = FEW.max(2 * self.len());
    }
}

fn address<L: ?Sized>(lease: &Weak<L>) -> usize {
    lease.as_ptr().cast::<()>().addr()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::new(Duration::from_secs(seconds))
    }

    /// All leases that wait, in order.
    fn all(mut turns: RenewalQueue<u64>) -> Vec<u64> {
        std::iter::from_fn(|| turns.next(true)).map(|lease| *lease.upgrade().unwrap()).collect()
    }

    #[test]
    fn leases_are_taken_in_order_of_their_deadlines() {
        let (mut turns, leases) = (RenewalQueue::new(), [3, 1, 2, 1, 9].map(Arc::new));
        for (number, lease) in leases.iter().enumerate() {
            turns.wait(Arc::downgrade(lease), if number == 4 { Tick::NEVER } else { at(**lease) }, number == 2);
        }
        assert_eq!(all(turns), [1, 1, 2, 3, 9]);
    }

    #[test]
    fn lease_waits_once_at_the_place_of_its_last_deadline() {
        let (mut turns, leases) = (RenewalQueue::new(), [0, 1, 2].map(Arc::new));
        let mut wait = |lease: usize, by| turns.wait(Arc::downgrade(&leases[lease]), at(by), false);
        [(0, 5), (1, 5), (2, 5), (0, 5), (1, 9), (2, 3)].into_iter().for_each(|(lease, by)| wait(lease, by));
        assert_eq!(all(turns), [2, 0, 1]);
    }

    #[test]
    fn small_lease_passes_large_ones_that_may_not_go() {
        let (mut turns, leases) = (RenewalQueue::new(), [1, 2, 3].map(Arc::new));
        leases.iter().for_each(|lease| turns.wait(Arc::downgrade(lease), at(**lease), **lease < 3));
        assert_eq!(turns.next(false).and_then(|lease| lease.upgrade()).as_deref(), Some(&3));
        assert!(turns.next(false).is_none());
        // The renewal of this lease is small now.
        turns.wait(Arc::downgrade(&leases[1]), at(2), false);
        assert_eq!(turns.next(false).and_then(|lease| lease.upgrade()).as_deref(), Some(&2));
        assert_eq!(all(turns), [1]);
    }

    #[test]
    fn lease_that_had_its_turn_may_wait_again() {
        let (mut turns, lease) = (RenewalQueue::new(), Arc::new(7));
        for _ in 0..2 {
            turns.wait(Arc::downgrade(&lease), at(1), false);
            assert!(turns.next(true).is_some() && turns.next(true).is_none() && turns.places.is_empty());
        }
    }

    #[test]
    fn dropped_leases_never_outnumber_the_live_ones() {
        let (mut turns, alive) = (RenewalQueue::new(), (0..3_000).map(Arc::new).collect::<Vec<_>>());
        for lease in &alive {
            turns.wait(Arc::downgrade(lease), at(**lease), **lease % 2 == 0);
        }
        for gone in 0..50_000 {
            let lease = Arc::downgrade(&Arc::new(gone));
            turns.wait(lease, at(gone), gone % 3 == 0);
            assert!(turns.len() <= 2 * alive.len(), "{}", turns.len());
            assert_eq!(turns.len(), turns.places.len());
        }
        turns.forget();
        assert_eq!(all(turns), (0..3_000).collect::<Vec<_>>());
    }
}
