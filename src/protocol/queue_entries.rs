//! A claim's places in the queues of this process, one for each of its names.

use std::sync::Arc;

use super::queue::{HeadStatus, Place, Queue};
use crate::error::Result;
use crate::node::Name;

/// The places of one claim. Dropping them leaves the queues.
#[derive(Debug)]
pub(super) struct QueueEntries {
    first: Place,
    others: Vec<Place>,
}

impl QueueEntries {
    /// Joins the queues of all names. There must be at least one name.
    pub(super) fn join(queue: &Arc<Queue>, names: &[Name]) -> Result<Self> {
        let first = queue.join(names[0].text())?;
        let others = names[1..].iter().map(|name| queue.join(name.text())).collect::<Result<_>>()?;
        Ok(Self { first, others })
    }

    /// The place of a reader. In this process, a reader and other callers do not wait for each
    /// other: the nodes decide who waits.
    pub(super) fn of_reader(queue: &Arc<Queue>, names: &[Name]) -> Result<Self> {
        Ok(Self { first: queue.join_aside(names[0].text())?, others: Vec::new() })
    }

    /// The place of an owner that takes over a lock. It gets its turn at once, because the lock's
    /// first owner has waited already.
    pub(super) fn at_once(queue: &Arc<Queue>) -> Self {
        Self { first: queue.aside(), others: Vec::new() }
    }

    /// The first place whose name is held by a caller of this process.
    pub(super) fn held(&self) -> Option<&Place> {
        self.all().find(|place| place.is_held())
    }

    /// The first place that waits for another caller; if no place waits, the first place.
    pub(super) fn blocked(&self) -> &Place {
        self.all().find(|place| !place.is_first() && !place.is_free()).unwrap_or(&self.first)
    }

    /// Takes all turns and tells the callers behind that this caller now tries. If another caller
    /// has one of the turns, takes none. Returns whether it took the turns.
    pub(super) fn try_turns(&mut self) -> bool {
        let all = self.take_turns();
        if all {
            self.tell(&HeadStatus::Trying);
        }
        all
    }

    fn take_turns(&mut self) -> bool {
        if self.others.is_empty() && self.first.try_turn() {
            return true;
        }
        let queue = self.first.queue.clone();
        // A set that tries its turns may have this name's turn for a moment, and then gives the
        // turn back. So a claim of one name also locks this mutex before its second try.
        let _alone = queue.alone();
        let all = self.all_mut().all(Place::try_turn);
        if !all {
            self.all_mut().for_each(Place::give_back);
        }
        all
    }

    /// Waits for the turn of a claim of one name. Reports nothing to the callers behind, unlike
    /// [`tell`](Self::tell).
    ///
    /// # Cancel safety
    /// Safe. The place keeps a turn that it has got. But the next call gives this turn back, and
    /// waits behind all others.
    pub(super) async fn turn(&mut self) {
        self.first.give_back();
        self.first.turn().await;
    }

    /// Reports the state of the claim to the callers behind it in the queues.
    pub(super) fn tell(&self, head: &HeadStatus) {
        self.all().for_each(|place| place.tell(head.clone()));
    }

    /// Call this when the claim has the names: see [`Place::served`].
    pub(super) fn served(self, next: bool) -> Self {
        let others = self.others.into_iter().map(|place| place.served(next)).collect();
        Self { first: self.first.served(next), others }
    }

    /// Takes out the places of the names for which `leave` is true. At least one place stays.
    pub(super) fn split_off(&mut self, leave: impl Fn(&str) -> bool) -> Option<Self> {
        let mut left: Vec<_> = self.others.extract_if(.., |place| leave(&place.name)).collect();
        if leave(&self.first.name)
            && let Some(next) = self.others.pop()
        {
            left.push(std::mem::replace(&mut self.first, next));
        }
        Some(Self { first: left.pop()?, others: left })
    }

    fn all(&self) -> impl Iterator<Item = &Place> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Place> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    fn names(texts: &[&str]) -> Vec<Name> {
        texts.iter().map(|text| Name::new("", text).unwrap()).collect()
    }

    fn join(queue: &Arc<Queue>, texts: &[&str]) -> QueueEntries {
        QueueEntries::join(queue, &names(texts)).unwrap()
    }

    #[test]
    fn turns_of_a_set_are_taken_together_or_not_at_all() {
        let queue = Queue::new(8);
        let (mut one, mut both) = (join(&queue, &["b"]), join(&queue, &["a", "b"]));
        assert!(one.try_turns() && !both.try_turns());
        assert!(join(&queue, &["a"]).try_turns(), "the turn was given back");
        drop(one);
        assert!(both.try_turns());
        drop(both);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn a_set_that_takes_nothing_keeps_nobody_from_one_of_its_names() {
        let queue = Queue::new(8);
        let (mut b, mut both) = (join(&queue, &["b"]), join(&queue, &["a", "b"]));
        assert!(b.try_turns());
        let ended = AtomicBool::new(false);
        let refused = thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) && !both.try_turns() {
                    std::hint::spin_loop();
                }
            });
            let refused = (0..20_000).filter(|_| !join(&queue, &["a"]).try_turns()).count();
            ended.store(true, Ordering::Relaxed);
            refused
        });
        assert_eq!(refused, 0);
    }

    #[test]
    fn places_that_are_taken_out_are_given_up_by_themselves() {
        let queue = Queue::new(8);
        for leave in [&["a"][..], &["b"], &["a", "c"], &["b", "c"]] {
            let mut all = join(&queue, &["a", "b", "c"]).served(true);
            drop(all.split_off(|name| leave.contains(&name)));
            for name in ["a", "b", "c"] {
                assert_eq!(join(&queue, &[name]).held().is_some(), !leave.contains(&name), "{name} of {leave:?}");
            }
            assert_eq!(queue.len(), 3 - leave.len());
        }
        assert_eq!(queue.len(), 0);
    }
}
