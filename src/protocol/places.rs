//! A claim's places in the lines of all its names in this process.

use std::sync::Arc;

use super::queue::{Head, Place, Queue};
use crate::error::Result;
use crate::node::Name;

/// Dropping them leaves the lines.
#[derive(Debug)]
pub(super) struct Places {
    first: Place,
    others: Vec<Place>,
}

impl Places {
    /// Joins the lines of all names, of which there is one at least.
    pub(super) fn join(queue: &Arc<Queue>, names: &[Name]) -> Result<Self> {
        let first = queue.join(names[0].text())?;
        let others = names[1..].iter().map(|name| queue.join(name.text())).collect::<Result<_>>()?;
        Ok(Self { first, others })
    }

    /// Those of a reader: nobody of this process waits for it, nor it for others. Nodes have the
    /// order.
    pub(super) fn of_reader(queue: &Arc<Queue>, names: &[Name]) -> Result<Self> {
        Ok(Self { first: queue.join_aside(names[0].text())?, others: Vec::new() })
    }

    /// Those of a writer that becomes a reader: it has waited.
    pub(super) fn of_writer(queue: &Arc<Queue>) -> Self {
        Self { first: queue.aside(), others: Vec::new() }
    }

    /// One whose name a caller in this process holds.
    pub(super) fn held(&self) -> Option<&Place> {
        self.all().find(|place| place.is_held())
    }

    /// One that has no turn, and cannot have it now, if any.
    pub(super) fn blocked(&self) -> &Place {
        self.all().find(|place| !place.is_first() && !place.is_free()).unwrap_or(&self.first)
    }

    /// Takes all turns if all are free, or none, and tells those behind. Whether it did.
    pub(super) fn try_turns(&mut self) -> bool {
        let all = self.take_turns();
        if all {
            self.tell(&Head::Trying);
        }
        all
    }

    fn take_turns(&mut self) -> bool {
        if self.others.is_empty() && self.first.try_turn() {
            return true;
        }
        let queue = self.first.queue().clone();
        // One name too: a set that tries may give it back in a moment.
        let _alone = queue.alone();
        let all = self.all_mut().all(Place::try_turn);
        if !all {
            self.all_mut().for_each(Place::give_back);
        }
        all
    }

    /// Waits for its turn, where it is of one name; tells nobody that it has come.
    ///
    /// # Cancel safety
    /// Safe; the place is kept until it is dropped, and so is a turn that has come, but the next wait
    /// gives that back and begins anew at the line's end.
    pub(super) async fn turn(&mut self) {
        self.first.give_back();
        self.first.turn().await;
    }

    /// Tells those behind how the claim fares.
    pub(super) fn tell(&self, head: &Head) {
        self.all().for_each(|place| place.tell(head.clone()));
    }

    /// It has the names: see [`Place::served`].
    pub(super) fn served(self, next: bool) -> Self {
        let others = self.others.into_iter().map(|place| place.served(next)).collect();
        Self { first: self.first.served(next), others }
    }

    /// Takes the places of those names out of it that `leave`. One stays.
    pub(super) fn split_off(&mut self, leave: impl Fn(&str) -> bool) -> Option<Self> {
        let mut left: Vec<_> = self.others.extract_if(.., |place| leave(place.name())).collect();
        if leave(self.first.name())
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

    fn join(queue: &Arc<Queue>, texts: &[&str]) -> Places {
        Places::join(queue, &names(texts)).unwrap()
    }

    #[test]
    fn all_turns_are_taken_or_none() {
        let queue = Queue::new(8);
        let (mut one, mut both) = (join(&queue, &["b"]), join(&queue, &["a", "b"]));
        assert!(one.try_turns() && !both.try_turns());
        assert!(join(&queue, &["a"]).try_turns(), "it was given back");
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
