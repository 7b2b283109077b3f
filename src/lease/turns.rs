//! Renewals that wait for their turn: those first whose deadline is nearest.

use std::collections::{BTreeMap, HashMap};
use std::sync::Weak;

use crate::rules::Tick;

/// How many may wait at least before those are looked for that are gone.
const FEW: usize = 1_024;

/// Leases that are to be renewed, each once. Those that are gone go when more wait than twice as many
/// as were there when that was done last.
pub(super) struct Turns<L: ?Sized> {
    order: BTreeMap<Turn, Weak<L>>,
    /// Where each stands, by its address: no other lease has it while one is referred to.
    places: HashMap<usize, Turn>,
    count: u64,
    room: usize,
}

/// By when a lease is to be renewed, and how many came before it.
type Turn = (Tick, u64);

impl<L: ?Sized> Turns<L> {
    pub(super) fn new() -> Self {
        Self { order: BTreeMap::new(), places: HashMap::new(), count: 0, room: FEW }
    }

    /// A lease is to be renewed by then. One that waits already goes to where that puts it.
    pub(super) fn wait(&mut self, lease: Weak<L>, by: Tick) {
        self.count += 1;
        let (address, mut turn) = (address(&lease), (by, self.count));
        if let Some(before) = self.places.remove(&address) {
            self.order.remove(&before);
            // Where nothing has changed, nobody passes it.
            turn = if before.0 == by { before } else { turn };
        }
        self.places.insert(address, turn);
        self.order.insert(turn, lease);
        if self.order.len() > self.room {
            self.forget();
        }
    }

    /// Whose turn it is.
    pub(super) fn next(&mut self) -> Option<Weak<L>> {
        let (_, lease) = self.order.pop_first()?;
        self.places.remove(&address(&lease));
        Some(lease)
    }

    fn forget(&mut self) {
        self.order.retain(|_, lease| lease.strong_count() > 0);
        self.places.retain(|_, turn| self.order.contains_key(turn));
        self.room = FEW.max(2 * self.order.len());
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

    /// All that wait, in their order.
    fn all(mut turns: Turns<u64>) -> Vec<u64> {
        std::iter::from_fn(|| turns.next()).map(|lease| *lease.upgrade().unwrap()).collect()
    }

    #[test]
    fn the_nearest_deadline_comes_first_and_of_one_deadline_who_came_first() {
        let (mut turns, leases) = (Turns::new(), [3, 1, 2, 1, 9].map(Arc::new));
        for (number, lease) in leases.iter().enumerate() {
            turns.wait(Arc::downgrade(lease), if number == 4 { Tick::NEVER } else { at(**lease) });
        }
        assert_eq!(all(turns), [1, 1, 2, 3, 9]);
    }

    #[test]
    fn each_waits_once_where_its_last_deadline_puts_it_and_is_passed_by_nobody_without_one() {
        let (mut turns, leases) = (Turns::new(), [0, 1, 2].map(Arc::new));
        let mut wait = |lease: usize, by| turns.wait(Arc::downgrade(&leases[lease]), at(by));
        [(0, 5), (1, 5), (2, 5), (0, 5), (1, 9), (2, 3)].into_iter().for_each(|(lease, by)| wait(lease, by));
        assert_eq!(all(turns), [2, 0, 1]);
    }

    #[test]
    fn whoever_has_had_its_turn_may_wait_again() {
        let (mut turns, lease) = (Turns::new(), Arc::new(7));
        for _ in 0..2 {
            turns.wait(Arc::downgrade(&lease), at(1));
            assert!(turns.next().is_some() && turns.next().is_none() && turns.places.is_empty());
        }
    }

    #[test]
    fn those_that_are_gone_take_no_room_for_long() {
        let (mut turns, alive) = (Turns::new(), (0..3_000).map(Arc::new).collect::<Vec<_>>());
        for lease in &alive {
            turns.wait(Arc::downgrade(lease), at(**lease));
        }
        for gone in 0..50_000 {
            let lease = Arc::downgrade(&Arc::new(gone));
            turns.wait(lease, at(gone));
            assert!(turns.order.len() <= 2 * alive.len(), "{}", turns.order.len());
            assert_eq!(turns.order.len(), turns.places.len());
        }
        turns.forget();
        assert_eq!(all(turns), (0..3_000).collect::<Vec<_>>());
    }
}
